// Errors as values. Expected failures are std::error_code; a failure to open something (an engine,
// a configuration) is a Failure, which also says in words what is missing and where to look. No
// exception crosses a completion (contract.md, rule 7).
//
// System errors keep the system's own number in std::system_category(), so that comparing with
// std::errc works as everywhere: a cancelled operation compares equal to
// std::errc::operation_canceled, one whose deadline passed to std::errc::timed_out.
#pragma once

#include <string>
#include <system_error>

#include "baton/export.hpp"
#include "baton/reason_code.hpp"

namespace baton {

/// Errors that only this library can have. Values are stable: they are part of the ABI.
enum class errc {
  operation_in_use = 1,     ///< start of an operation that is started, deferred, posted or queued
  handle_closed = 2,        ///< the handle is closing or closed
  limit_reached = 3,        ///< operations_max (or another configured bound) is exhausted
  stopped = 4,              ///< the proactor is stopped, draining or being destroyed
  not_supported = 5,        ///< no processor of the team supports this kind of operation
  timed_out = 6,            ///< the operation's own deadline passed; see bytes() for what was moved
  end_of_stream = 7,        ///< the stream or file ended before read_exactly or read_until was done
  delimiter_not_found = 8,  ///< read_until filled the whole buffer without seeing the delimiter
  wrong_thread = 9,         ///< a pinned processor was driven by a thread that does not own it
  too_many_threads = 10,    ///< no longer used: threads beyond the lanes stand by
  descriptor_out_of_range = 11,  ///< select cannot watch a descriptor beyond FD_SETSIZE
  no_free_handles = 12,          ///< the table of handles is full
  pool_exhausted = 13,           ///< a buffer pool has no free buffer left
  engine_unavailable = 14,       ///< the system lacks what the engine needs, or denies it
  engine_forbidden = 15,         ///< policy forbids the engine (BATON_FORBID, Config::forbid)
  unknown_name = 16,             ///< a configuration names something that is not registered
  bad_configuration = 17,        ///< a configuration value is malformed or does not fit the others
  after_fork = 18,  ///< the proactor was inherited by fork; only reopen and destroy are allowed
  wrong_handle_kind = 19,  ///< a handle of this kind knows no such operation (accept on a stream)
  already_adopted = 20,    ///< another handle of the proactor has this descriptor
  not_prepared = 21,       ///< start of an operation that has completed and was not prepared anew
  /// The system, or the program, has taken the engine's mechanism away after the open: a filter of
  /// system calls, a closed descriptor. The kernel's last transfers are unknown.
  engine_lost = 22,
};

/// The category of errc; its name is "baton".
BATON_EXPORT const std::error_category& error_category() noexcept;

/// For std::error_code's constructor.
inline std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), error_category()};
}

/// A failure to open or configure something, in a form fit for a person.
struct Failure {
  std::error_code code;  ///< for programs; compare with std::errc and errc
  std::string reason;    ///< what is missing and what would help, one sentence, no newline
  /// The same for scripts: stable. Derived from `code` unless given.
  ReasonCode reason_code = reason_code_of(code);
};

}  // namespace baton

template <>
struct std::is_error_code_enum<baton::errc> : std::true_type {};
