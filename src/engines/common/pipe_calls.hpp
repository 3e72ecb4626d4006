// PipeCalls: reads and writes of pipes and terminals by plain system calls that neither block nor
// raise SIGPIPE, whatever the mode of the descriptor. Knows no operations.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>

#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::engines {

class PipeCalls {
 public:
  explicit PipeCalls(const os::System& system) noexcept : system_(system) {}

  /// As readv(2); EAGAIN if it would block.
  ssize_t read(const Handle& handle, iovec* pieces, std::size_t count) noexcept;
  /// As writev(2); EAGAIN if it would block, EPIPE without the signal. May shorten `pieces`.
  ssize_t write(const Handle& handle, iovec* pieces, std::size_t count) noexcept;
  /// A pseudo-terminal's master, which cannot be opened anew; or its descriptor is bad.
  [[nodiscard]] bool is_master(const Handle& handle) const noexcept;

 private:
  ssize_t write_with(const Handle& handle, const iovec* pieces, std::size_t count,
                     int flag) noexcept;
  int open_again(const Handle& handle, int access) noexcept;
  void close_again(NativeHandle fd) noexcept;
  ssize_t write_without_signal(NativeHandle fd, const iovec* pieces, std::size_t count) noexcept;

  const os::System& system_;
  /// RWF_NOSIGNAL (since Linux 6.18), until it is refused once.
  std::atomic<bool> no_signal_writes_{true};
};

}  // namespace baton::engines
