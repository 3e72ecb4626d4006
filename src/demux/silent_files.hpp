// SilentFiles: the descriptors that have readiness but cannot tell of it by signal - eventfd,
// timerfd, signalfd and the like - in an edge-triggered epoll set of their own. A wait for
// signals waits for its descriptor as well; without such files there is no set.
#pragma once

#include <atomic>
#include <span>
#include <system_error>

#include "baton/handle.hpp"
#include "baton/interest.hpp"
#include "os/system.hpp"

namespace baton::demux {

class SilentFiles {
 public:
  struct Ready {
    NativeHandle fd;
    Interest what;
  };

  explicit SilentFiles(const os::System& system) noexcept : system_(system) {}
  ~SilentFiles() { close(); }
  SilentFiles(const SilentFiles&) = delete;
  SilentFiles& operator=(const SilentFiles&) = delete;

  /// One at a time, beside take. EPERM: a file without readiness. Reports what is ready already.
  std::error_code add(NativeHandle fd, Interest interest) noexcept;
  std::error_code modify(NativeHandle fd, Interest interest) noexcept;
  void remove(NativeHandle fd) noexcept;

  /// Readable when there is something to take; invalid_handle as long as there is no set.
  [[nodiscard]] NativeHandle descriptor() const noexcept {
    return set_.load(std::memory_order_acquire);
  }
  /// How many became ready; what has no room is kept. Does not wait.
  std::size_t take(std::span<Ready> ready) noexcept;

  /// Changes nothing in the set, which a parent may share.
  void close() noexcept;

 private:
  std::error_code control(int operation, NativeHandle fd, Interest interest) noexcept;

  const os::System& system_;
  std::atomic<int> set_{invalid_handle};
};

}  // namespace baton::demux
