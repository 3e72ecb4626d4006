#include "calls.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "child.hpp"

namespace baton::doctor {
namespace {

constexpr double answer_s_max = 5;

struct Call {
  const char* name;
  const char* engine;  // "" : of several
  long number;
  long arguments[6];
};

constexpr timespec no_time{};
long address_of(const void* object) { return reinterpret_cast<long>(object); }

// Wrong descriptors, flags, sizes and addresses, so that no call has an effect.
std::vector<Call> calls() {
  return {
      {"epoll_create1", "", SYS_epoll_create1, {-1}},
      {"epoll_ctl", "", SYS_epoll_ctl, {-1, -1, -1, 0}},
      {"epoll_pwait", "", SYS_epoll_pwait, {-1, 0, 0, 0, 0, 8}},
      {"ppoll", "", SYS_ppoll, {0, 0, address_of(&no_time), 0, 8}},
      {"pselect6", "", SYS_pselect6, {0, 0, 0, 0, address_of(&no_time), 0}},
      {"eventfd2", "", SYS_eventfd2, {0, -1}},
      {"signalfd4", "", SYS_signalfd4, {-1, 0, 0, 0}},
      {"rt_sigtimedwait", "", SYS_rt_sigtimedwait, {0, 0, 0, 0}},
      {"tgkill", "", SYS_tgkill, {-1, -1, 0}},
      {"accept4", "", SYS_accept4, {-1, 0, 0, 0}},
      {"preadv2", "", SYS_preadv2, {-1, 0, 0, 0, 0, 0}},
      {"pwritev2", "", SYS_pwritev2, {-1, 0, 0, 0, 0, 0}},
      {"io_uring_setup", "io_uring", SYS_io_uring_setup, {0, 0}},
      {"io_uring_enter", "io_uring", SYS_io_uring_enter, {-1, 0, 0, 0, 0, 0}},
      {"io_uring_register", "io_uring", SYS_io_uring_register, {-1, 0, 0, 0}},
      {"io_setup", "linux_aio", SYS_io_setup, {0, 0}},
      {"io_submit", "linux_aio", SYS_io_submit, {0, 0, 0}},
      {"io_getevents", "linux_aio", SYS_io_getevents, {0, 0, 0, 0, 0}},
  };
}

std::string error_of(const Call& call) {
  errno = 0;
  const auto& a = call.arguments;
  const long result = ::syscall(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  return fmt::format("{}", result < 0 ? errno : 0);
}

CallAnswer probe(const Call& call) {
  CallAnswer answer{call.name, call.engine, CallAnswer::Kind::unknown, ""};
  const ChildEnd end = run_in_child([&] { return error_of(call); }, answer_s_max);
  if (end.killed && end.signal_number == SIGSYS) {
    answer.kind = CallAnswer::Kind::fatal;
    answer.text = "a filter ends the process";
    return answer;
  }
  int error = 0;
  const char* last = end.text.data() + end.text.size();
  if (!end.good || std::from_chars(end.text.data(), last, error).ptr != last) {
    answer.text = end.trouble;
    return answer;
  }
  answer.kind = CallAnswer::Kind::allowed;
  if (error == EPERM || error == EACCES) answer.kind = CallAnswer::Kind::denied;
  if (error == ENOSYS) answer.kind = CallAnswer::Kind::missing;
  if (answer.kind != CallAnswer::Kind::allowed) answer.text = std::strerror(error);
  return answer;
}

}  // namespace

const char* to_string(CallAnswer::Kind kind) {
  switch (kind) {
    case CallAnswer::Kind::allowed:
      return "allowed";
    case CallAnswer::Kind::denied:
      return "denied";
    case CallAnswer::Kind::missing:
      return "missing";
    case CallAnswer::Kind::fatal:
      return "fatal";
    case CallAnswer::Kind::skipped:
      return "skipped";
    case CallAnswer::Kind::unknown:
      break;
  }
  return "unknown";
}

std::vector<CallAnswer> probe_calls(const std::vector<std::string>& forbid) {
  std::vector<CallAnswer> answers;
  for (const Call& call : calls()) {
    if (std::find(forbid.begin(), forbid.end(), call.engine) != forbid.end()) {
      answers.push_back(
          {call.name, call.engine, CallAnswer::Kind::skipped, "the engine is forbidden"});
    } else {
      answers.push_back(probe(call));
    }
  }
  return answers;
}

}  // namespace baton::doctor
