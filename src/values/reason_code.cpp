// The names of reason codes, and the code that an error stands for.
#include "baton/reason_code.hpp"

#include <iterator>

#include "baton/error.hpp"

namespace baton {
namespace {

// By value: docs/guide/operations.md has a row for each, which a test compares.
constexpr const char* names[] = {
    "unspecified",      "forbidden",         "contradiction",  "unknown_name",   "bad_value",
    "not_built",        "not_in_kernel",     "kernel_too_old", "denied_seccomp", "denied_sysctl",
    "denied",           "limit_descriptors", "limit_memlock",  "limit_memory",   "limit_kernel",
    "needs_one_thread", "waits_by_itself",   "unsuitable",     "probe_failed",   "system_error",
    "signal_taken",     "taken_away",
};
static_assert(std::size(names) == reason_codes);

ReasonCode of_ours(errc code) noexcept {
  switch (code) {
    case errc::engine_forbidden:
      return ReasonCode::forbidden;
    case errc::unknown_name:
      return ReasonCode::unknown_name;
    case errc::bad_configuration:
      return ReasonCode::bad_value;
    case errc::engine_lost:
      return ReasonCode::taken_away;
    default:
      return ReasonCode::unspecified;
  }
}

}  // namespace

const char* to_string(ReasonCode code) noexcept {
  const auto value = static_cast<std::size_t>(code);
  return value < std::size(names) ? names[value] : names[0];
}

ReasonCode reason_code_of(std::error_code error) noexcept {
  if (!error) return ReasonCode::unspecified;
  if (error.category() == error_category()) return of_ours(static_cast<errc>(error.value()));
  if (error == std::errc::too_many_files_open ||
      error == std::errc::too_many_files_open_in_system) {
    return ReasonCode::limit_descriptors;
  }
  if (error == std::errc::invalid_argument) return ReasonCode::bad_value;
  if (error == std::errc::not_enough_memory) return ReasonCode::limit_memory;
  if (error == std::errc::function_not_supported) return ReasonCode::not_in_kernel;
  if (error == std::errc::operation_not_permitted || error == std::errc::permission_denied) {
    return ReasonCode::denied;
  }
  return ReasonCode::system_error;
}

std::string with_code(std::string_view sentence, ReasonCode code) {
  std::string text(sentence);
  text += " [";
  text += to_string(code);
  text += ']';
  return text;
}

}  // namespace baton
