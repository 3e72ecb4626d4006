// ReasonCode: why something was refused or replaced, as a short identifier that never changes
// . The sentence beside it is for people and may change; scripts, alarms and tests use the
// code. It is in Failure::reason_code, in square brackets at the
// end of the lines of Proactor::explain(), and in `baton engines --json`. docs/guide/operations.md
// has the meaning of each, and the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "baton/export.hpp"

namespace baton {

/// Values are stable, and so are the names. New ones are added at the end.
enum class ReasonCode : std::uint8_t {
  unspecified = 0,         ///< only the sentence tells
  forbidden = 1,           ///< by policy: Config::forbid, BATON_FORBID
  contradiction = 2,       ///< two settings exclude each other
  unknown_name = 3,        ///< nothing of this name is registered
  bad_value = 4,           ///< a setting is malformed or out of range
  not_built = 5,           ///< a mechanism of other systems, or left out of this build
  not_in_kernel = 6,       ///< this kernel was built without it
  kernel_too_old = 7,      ///< the kernel has it, but not all that is needed
  denied_seccomp = 8,      ///< most likely a system-call filter, as containers install it
  denied_sysctl = 9,       ///< switched off by the administrator
  denied = 10,             ///< not permitted, for another reason
  limit_descriptors = 11,  ///< RLIMIT_NOFILE, or the system's table of files
  limit_memlock = 12,      ///< RLIMIT_MEMLOCK
  limit_memory = 13,       ///< no memory
  limit_kernel = 14,       ///< a bound of the kernel is lower than what was asked for
  needs_one_thread = 15,   ///< one and the same thread must wait; the mode changes threads
  waits_by_itself = 16,    ///< the engine has no choice of this kind to make
  unsuitable = 17,         ///< does not go with another part that was chosen
  probe_failed = 18,       ///< it opened and did not do what it should
  system_error = 19,       ///< an error of the system without a code of its own here
  signal_taken = 20,       ///< the signal it needs is used by the program
  taken_away = 21,         ///< it worked, and the system or the program has ended that
};
inline constexpr int reason_codes = 22;  ///< number of values of ReasonCode

/// The stable name: "kernel_too_old".
BATON_EXPORT const char* to_string(ReasonCode code) noexcept;

/// The code of an error: limit_descriptors for EMFILE, forbidden for errc::engine_forbidden, ...
BATON_EXPORT ReasonCode reason_code_of(std::error_code error) noexcept;

/// "sentence [code]": the form of explain() and of error lines.
BATON_EXPORT std::string with_code(std::string_view sentence, ReasonCode code);

}  // namespace baton
