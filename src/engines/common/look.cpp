// With RLIMIT_NOFILE 0 - a sandbox that has opened what it needs - poll fails even for one
// descriptor (EINVAL). select has no such limit. It reports a hang-up to readers only. Writers of
// pipes and sockets get their error from it; the writer of a terminal does not.
#include "engines/common/look.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <new>
#include <string_view>

#include "engines/common/rw_flags.hpp"

namespace baton::engines {
namespace {

timespec span_of(std::uint32_t span_ms) noexcept {
  return {.tv_sec = span_ms / 1'000, .tv_nsec = span_ms % 1'000 * 1'000'000};
}

// Two bit sets up to `fd`, of words in the kernel's layout. The third set, for urgent data, is not
// used.
int look_by_select(const os::System& system, NativeHandle fd, short events,
                   const timespec* span) noexcept {
  constexpr std::size_t word_bits = 8 * sizeof(unsigned long);
  const auto number = static_cast<std::size_t>(fd);
  const std::size_t words = number / word_bits + 1;
  const std::unique_ptr<unsigned long[]> sets{new (std::nothrow) unsigned long[2 * words]{}};
  if (sets == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  unsigned long& in = sets[words - 1];
  unsigned long& out = sets[2 * words - 1];
  const unsigned long bit = 1UL << number % word_bits;
  if ((events & POLLIN) != 0) in = bit;
  if ((events & POLLOUT) != 0) out = bit;
  const int count = system.pselect(fd + 1, reinterpret_cast<fd_set*>(&sets[0]),
                                   reinterpret_cast<fd_set*>(&sets[words]), nullptr, span, nullptr);
  if (count < 0 && errno == EBADF) return POLLNVAL;
  if (count <= 0) return count;
  return (in != 0 ? POLLIN : 0) | (out != 0 ? POLLOUT : 0);
}

}  // namespace

int look(const os::System& system, NativeHandle fd, short events, const timespec* span) noexcept {
  pollfd one{.fd = fd, .events = events, .revents = 0};
  const int count = system.ppoll(&one, 1, span, nullptr);
  if (count >= 0) return count == 0 ? 0 : one.revents;
  return errno == EINVAL ? look_by_select(system, fd, events, span) : -1;
}

bool ready_now(const os::System& system, NativeHandle fd, short events) noexcept {
  // EINTR, ENOMEM: not ready; readiness is reported again. Errors and hang-ups count as ready.
  const timespec at_once{};
  return look(system, fd, events, &at_once) > 0;
}

bool waits_for_data(const os::System& system, const Handle& file, std::uint32_t span_ms) noexcept {
  const timespec span = span_of(span_ms);
  return look(system, file.native(), POLLIN, &span) == 0;
}

bool tells_of_a_set_clock(const os::System& system, NativeHandle fd) noexcept {
  char path[40];
  static_cast<void>(std::snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", fd));
  const int info = system.open(path, O_RDONLY | O_CLOEXEC, 0);
  if (info < 0) return false;
  char text[512];
  const ssize_t size = system.read(info, text, sizeof(text));
  system.close(info);
  constexpr std::string_view before = "settime flags: 0";  // an octal number follows
  const std::string_view told{text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  const std::size_t at = told.find(before);
  // The kernel ignores TFD_TIMER_CANCEL_ON_SET (2) without TFD_TIMER_ABSTIME (1).
  return at != std::string_view::npos && told.substr(at + before.size()).starts_with('3');
}

int no_signal_flag(const os::System& system) noexcept {
  int ends[2] = {-1, -1};
  if (system.pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) return 0;
  char byte = 0;
  const iovec piece{&byte, 1};
  const ssize_t written = system.pwritev2(ends[1], &piece, 1, -1, RWF_NOSIGNAL);
  system.close(ends[0]);
  system.close(ends[1]);
  return written == 1 ? RWF_NOSIGNAL : 0;
}

void pause_for(const os::System& system, std::uint32_t span_ms) noexcept {
  const timespec span = span_of(span_ms);
  system.ppoll(nullptr, 0, &span, nullptr);
}

}  // namespace baton::engines
