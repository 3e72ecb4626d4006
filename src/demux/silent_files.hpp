// SilentFiles: an edge-triggered epoll set of the descriptors that have readiness but cannot signal
// it: eventfd, timerfd, signalfd and the like. A wait for signals also waits for the descriptor of
// this set. The set is made for the first such file.
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

  /// One thread at a time calls add, modify or remove; another one may call take meanwhile. A file
  /// that is ready already is reported. EPERM: a file without readiness.
  std::error_code add(NativeHandle fd, Interest interest) noexcept;
  std::error_code modify(NativeHandle fd, Interest interest) noexcept;
  void remove(NativeHandle fd) noexcept;

  /// Readable when take has something; invalid_handle as long as there is no set.
  [[nodiscard]] NativeHandle descriptor() const noexcept {
    return set_.load(std::memory_order_acquire);
  }
  /// Takes files that became ready and returns how many; those that do not fit are kept. Does not
  /// wait.
  std::size_t take(std::span<Ready> ready) noexcept;

  /// Closes the descriptor only: a parent may share the set.
  void close() noexcept;

 private:
  std::error_code control(int operation, NativeHandle fd, Interest interest) noexcept;

  const os::System& system_;
  std::atomic<int> set_{invalid_handle};
};

}  // namespace baton::demux
