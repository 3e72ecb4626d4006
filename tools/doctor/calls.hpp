// Which system calls this process may make. A filter is not to be read, so each call is tried, in a
// child of its own and with arguments that can do nothing: a call that is let through answers that
// they are wrong.
#pragma once

#include <string>
#include <vector>

namespace baton::doctor {

struct CallAnswer {
  enum class Kind : std::uint8_t {
    allowed,
    denied,   // EPERM or EACCES: a filter, or an administrator
    missing,  // ENOSYS: the kernel, or a filter that answers so
    fatal,    // a filter that ends the process
    skipped,  // it is an engine's own, and policy forbids the engine
    unknown   // the child could not be asked
  };
  std::string name;
  std::string engine;  // whose it is, if it is one engine's alone
  Kind kind = Kind::unknown;
  std::string text;  // more about it, may be empty
};

const char* to_string(CallAnswer::Kind kind);

// `forbid`: engines whose calls are not made.
std::vector<CallAnswer> probe_calls(const std::vector<std::string>& forbid);

}  // namespace baton::doctor
