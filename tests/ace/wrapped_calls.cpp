#include "wrapped_calls.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>

namespace {

enum Call : std::size_t { socket_, setsockopt_, bind_, fcntl_, fstat_, getsockopt_, count_ };

struct CallPlan {
  std::atomic<bool> armed{false};
  std::atomic<std::size_t> failing{count_};
  std::atomic<std::size_t> nth{0};
  std::atomic<int> error{0};
  std::atomic<bool> failed{false};
  std::array<std::atomic<std::size_t>, count_> counts{};
} call_plan;
thread_local int exempt_calls = 0;

/// True: it fails, and errno says how.
bool fails(Call call) noexcept {
  if (!call_plan.armed.load(std::memory_order_acquire) || exempt_calls > 0) return false;
  const std::size_t number = call_plan.counts[call].fetch_add(1) + 1;
  if (call != call_plan.failing.load() || number != call_plan.nth.load()) return false;
  call_plan.failed.store(true);
  errno = call_plan.error.load();
  return true;
}

}  // namespace

extern "C" {
int __real_socket(int family, int type, int protocol);
int __real_setsockopt(int fd, int level, int name, const void* value, socklen_t size);
int __real_bind(int fd, const sockaddr* address, socklen_t size);
int __real_fcntl(int fd, int command, ...);
int __real_fstat(int fd, struct stat* status);
int __real_getsockopt(int fd, int level, int name, void* value, socklen_t* size);

int __wrap_socket(int family, int type, int protocol) {
  return fails(socket_) ? -1 : __real_socket(family, type, protocol);
}
int __wrap_setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
  return fails(setsockopt_) ? -1 : __real_setsockopt(fd, level, name, value, size);
}
int __wrap_bind(int fd, const sockaddr* address, socklen_t size) {
  return fails(bind_) ? -1 : __real_bind(fd, address, size);
}
int __wrap_fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  return fails(fcntl_) ? -1 : __real_fcntl(fd, command, argument);
}
int __wrap_fstat(int fd, struct stat* status) {
  return fails(fstat_) ? -1 : __real_fstat(fd, status);
}
int __wrap_getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
  return fails(getsockopt_) ? -1 : __real_getsockopt(fd, level, name, value, size);
}
}

namespace baton::ace::test {

const std::vector<WrappedCall>& wrapped_calls() {
  static const std::vector<WrappedCall> calls{
      {"socket", {EMFILE, ENOBUFS}}, {"setsockopt", {ENOMEM}},
      {"bind", {EADDRINUSE}},        {"fcntl", {EBADF}},
      {"fstat", {ENOMEM}},           {"getsockopt", {ENOBUFS}}};
  return calls;
}

FailingWrapped::FailingWrapped(std::size_t call, std::size_t which, int how) noexcept {
  for (std::atomic<std::size_t>& each : call_plan.counts) each = 0;
  call_plan.failing = call;
  call_plan.nth = which;
  call_plan.error = how;
  call_plan.failed = false;
  call_plan.armed.store(true, std::memory_order_release);
}
void FailingWrapped::end() noexcept { call_plan.armed.store(false, std::memory_order_release); }
std::size_t FailingWrapped::count(std::size_t call) const noexcept {
  return call_plan.counts[call];
}
bool FailingWrapped::hit() const noexcept { return call_plan.failed; }

ExemptCalls::ExemptCalls() noexcept { ++exempt_calls; }
ExemptCalls::~ExemptCalls() { --exempt_calls; }

}  // namespace baton::ace::test
