// Performer: makes the system call of an operation, non-blocking or, for workers, blocking, and
// reports its outcome. Knows no queues and no readiness.
#pragma once

#include <atomic>
#include <cstdint>

#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"
#include "engines/common/file_calls.hpp"
#include "engines/common/handle_room.hpp"
#include "engines/common/pipe_calls.hpp"
#include "engines/common/spare_descriptor.hpp"
#include "os/system.hpp"

namespace baton::engines::emulated {

enum class Outcome : std::uint8_t {
  done,     ///< complete; the outcome is recorded
  partial,  ///< bytes were moved, or a signal interrupted the call; not complete
  again,    ///< not ready
  back_off  ///< readiness will not tell when it is worth trying again
};

class Performer {
 public:
  Performer(const os::System& system, bool concurrent, HandleRoom room) noexcept;
  Performer(const Performer&) = delete;
  Performer& operator=(const Performer&) = delete;

  /// Checks, on the first call only, for zero bytes to move or a delimiter that is already there.
  /// True: complete.
  static bool needs_no_transfer(Operation& operation) noexcept;

  // -- without blocking (perform.cpp) ------------------------------------------------------------

  /// Every kind but files and close.
  Outcome perform(Operation& operation) noexcept;
  /// Does the write_stream operations at the front of `queue` by one system call. Complete
  /// operations move to `completed`, in order; `done` when all that were tried are complete.
  /// REQUIRES: the first is a write_stream.
  Outcome perform_merged(OperationList& queue, OperationQueue& completed) noexcept;

  /// Sends the whole list of a write that has sent nothing yet, by one call.
  ssize_t send_list(const Operation& operation) noexcept;
  /// Takes a connection, if there is one and nothing is in the way. False: nothing is recorded.
  bool accept_at_once(Operation& operation) noexcept;
  /// perform() for these two kinds.
  Outcome read_datagram(Operation& operation) noexcept;
  Outcome write_datagram(Operation& operation) noexcept;

  /// Before each accept.
  void prepare_spare() noexcept { spare_.prepare(); }
  /// In the child after fork.
  void abandon() noexcept { spare_.abandon(); }

  // -- files, and what workers do (work.cpp) -----------------------------------------------------

  [[nodiscard]] const FileCalls& files() const noexcept { return files_; }
  /// On a worker: does an operation that may block, to its end. A connect may go on (Progress).
  void work(Operation& operation) noexcept;

  /// Ends a pooled read: an empty block returns to the pool.
  static void settle_pooled(Operation& operation) noexcept;

 private:
  /// False: completed with errc::pool_exhausted.
  static bool take_block(Operation& operation) noexcept;
  static void give_block_back(Operation& operation) noexcept;

  Outcome read_stream(Operation& operation) noexcept;
  Outcome write_stream(Operation& operation) noexcept;
  static Outcome share_out(OperationList& queue, std::size_t sent, std::size_t tried,
                           OperationQueue& completed) noexcept;
  Outcome accept(Operation& operation) noexcept;
  bool take_connection(Operation& operation) noexcept;
  Outcome connect(Operation& operation) noexcept;
  Outcome connect_bounded(Operation& operation) noexcept;
  Outcome wait_ready(Operation& operation) noexcept;

  ssize_t receive(const Operation& operation) noexcept;
  ssize_t send(const Operation& operation) noexcept;
  ssize_t send(const Handle& handle, iovec* pieces, std::size_t count) noexcept;
  ssize_t receive_from(Operation& operation) noexcept;
  ssize_t send_to(Operation& operation) noexcept;

  const os::System& system_;
  const FileCalls files_;
  PipeCalls pipes_;
  SpareDescriptor spare_;
  const HandleRoom room_;
};

}  // namespace baton::engines::emulated
