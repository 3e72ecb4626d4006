// FileCalls: reads, writes and syncs of files by plain system calls, non-blocking or, on a worker,
// blocking. Knows no queues.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "engines/common/attempt.hpp"
#include "os/system.hpp"

namespace baton::engines {

class FileCalls {
 public:
  explicit FileCalls(const os::System& system) noexcept : system_(system) {}

  /// The calling thread would wait for a device, or copy for long: this one is for a worker.
  [[nodiscard]] static bool lasts(const Operation& operation) noexcept;
  /// The process has a limit on the size of files (RLIMIT_FSIZE), which may change at any time: a
  /// write beyond it raises SIGXFSZ. One system call.
  [[nodiscard]] static bool growth_is_limited(const os::System& system) noexcept;

  /// Moves what the kernel can move without blocking. True: complete. `no_wait_writes` belongs to
  /// the file: it is cleared when the file system cannot do this.
  bool try_now(Operation& operation, Attempt& attempt,
               std::atomic<bool>& no_wait_writes) const noexcept;
  /// On a worker: a read or write to its end. May block.
  void transfer(Operation& operation, Attempt& attempt) const noexcept;
  /// On a worker: a sync_file. Blocks.
  void sync(Operation& operation) const noexcept;

  /// Whether the transferred bytes reach to the end of a regular file, or beyond. One system call.
  [[nodiscard]] static bool at_end(const os::System& system, const Operation& operation) noexcept;
  /// The error of a direct read that the end of the file had cut short: the offset that it would go
  /// on from is none of the device's. It is complete, as by a read of 0 bytes.
  [[nodiscard]] static bool ended_between_blocks(const os::System& system,
                                                 const Operation& operation, int error) noexcept;

  /// The file system or the kernel cannot do this without blocking, now or later.
  [[nodiscard]] static bool means_never(int error) noexcept;

 private:
  [[nodiscard]] ssize_t call(Operation& operation, int flags) const noexcept;

  const os::System& system_;
};

}  // namespace baton::engines
