// Which system calls this process may make. A filter cannot be read, so each call is tried in a
// child process with invalid arguments. A call that is allowed reports that they are invalid.
#pragma once

#include <string>
#include <vector>

namespace baton::doctor {

struct CallAnswer {
  enum class Kind : std::uint8_t {
    allowed,
    denied,   // EPERM or EACCES: a filter, or an administrator
    missing,  // ENOSYS: the kernel, or a filter
    fatal,    // a filter ends the process
    skipped,  // it belongs to an engine that policy forbids
    unknown   // the child gave no result
  };
  std::string name;
  std::string engine;  // the engine, if only one uses the call
  Kind kind = Kind::unknown;
  std::string text;  // details; may be empty
};

const char* to_string(CallAnswer::Kind kind);

// `forbid`: engines whose calls are not made.
std::vector<CallAnswer> probe_calls(const std::vector<std::string>& forbid);

}  // namespace baton::doctor
