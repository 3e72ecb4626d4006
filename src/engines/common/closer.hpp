// Closer: closes descriptors for a file engine that cannot do so itself. A worker does it, because
// a close may wait for a server or a disk.
#pragma once

#include "baton/engine.hpp"
#include "engines/common/worker_pool.hpp"

namespace baton::engines {

/// close(2) as the outcome of an operation: 0, or an errno. The descriptor is gone in any case.
int close_by_call(const os::System& system, NativeHandle fd) noexcept;

class Closer final : private WorkerPool::Client {
 public:
  /// `engine` is interrupted when take() has something.
  Closer(const os::System& system, Engine& engine) noexcept
      : system_(system), engine_(engine), workers_(system, *this, 1) {}

  /// As Engine::submit, of a close of an owned descriptor; any thread.
  Submission submit(Operation& operation) noexcept;
  /// Appends the closes that are complete; the leader only.
  void take(OperationQueue& completed) noexcept { workers_.take_finished(completed); }
  /// As WorkerPool::abandon.
  void abandon() noexcept { workers_.abandon(); }

 private:
  void work(Operation& operation) noexcept override;
  void workers_finished() noexcept override { engine_.interrupt(); }

  const os::System& system_;
  Engine& engine_;
  WorkerPool workers_;
};

}  // namespace baton::engines
