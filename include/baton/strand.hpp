// Strand: handlers that never overlap, without blocking a thread.
//
//   Strand strand{proactor};
//   reading.set_strand(&strand), writing.set_strand(&strand);  // their handlers never overlap
//
// An operation that carries a strand is handed to it when a thread takes its result. Either the
// strand is free, and that thread runs the handler and owns the strand until it leaves; or it is
// not, and the operation is queued in it (by its own links: nothing is allocated). The owner that
// leaves puts the first of these back into the proactor's queue, where the next free thread takes
// it. So a thread is never blocked, and runs one handler for each result that it takes. Order:
// handlers run in the order of posts and completions, however many threads there are. In per_thread
// mode all posts without a Home go to one lane, that of the first post; results of two lanes, and
// posts with a Home, come in the order in which those lanes' threads take them.
//
// Operations of several proactors may carry one strand. Each is run by threads of its own proactor:
// when it is the turn of another's, the strand is handed to that proactor, and waits until that is
// driven. The end of a proactor does not wait for it: its operations overtake those whose turn it
// is, as long as none of their handlers has begun.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"

namespace baton {

class BATON_EXPORT Strand {
 public:
  explicit Strand(Proactor& proactor) noexcept;
  /// REQUIRES: no operation that carries it is pending. If an operation still waits for the strand,
  /// the program ends with a message. Waits until the thread that ran the last handler has left.
  /// Inside one of the strand's own handlers use retire(). In the child of a fork a strand of the
  /// parent may be destroyed at any time.
  ~Strand();
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  /// Destroys a strand as soon as it is idle: at once, or when the handler that runs in it returns.
  /// For ending a strand inside its own last handler. REQUIRES: no other operation that carries it
  /// is pending.
  static void retire(std::unique_ptr<Strand> strand) noexcept;

  /// True inside a handler of this strand.
  [[nodiscard]] bool running_in_this_thread() const noexcept;

  // -- for the dispatcher -------------------------------------------------------------------------

  /// True: the caller runs op's handler now and owns the strand until leave() returns null. False:
  /// it was queued, another thread will run it, and the caller must not touch it again.
  bool enter(Operation& operation) noexcept;
  /// After a handler (also one that threw): the next operation, which the caller queues as complete
  /// once more; the strand stays taken, and enter() will succeed for this one only. Or null: the
  /// strand is free, and may be gone.
  [[nodiscard]] Operation* leave() noexcept;
  /// For the end of a proactor: the first of its queued operations overtakes an operation of
  /// another proactor that leave() has returned and that has not run yet. The caller queues the
  /// result as complete once more. Null: there is no such pair, or a handler runs.
  [[nodiscard]] Operation* overtake(const HandlerRunner& proactor) noexcept;
  /// The lane to post to: the `if_first` of the first call. Any thread.
  [[nodiscard]] std::uint32_t lane(std::uint32_t if_first) noexcept;

 private:
  const os::System* system_;
  alignas(std::uint32_t) std::byte mutex_[4];  // os::Mutex; the header is private to the library
  const std::uint32_t forks_;                  // the process that made it
  // Guarded by the mutex.
  bool busy_ = false;
  bool retired_ = false;
  Operation* handed_on_ = nullptr;
  Operation* overtaken_ = nullptr;  // was handed on, and is so again after the one that overtook
  OperationQueue queue_;
  /// Identifies the thread inside; 0: none. relaxed: only that thread writes it, and each other
  /// thread only compares it with its own value.
  std::atomic<std::uintptr_t> owner_{0};
  std::atomic<std::uint32_t> lane_{no_lane};
  static constexpr std::uint32_t no_lane = ~std::uint32_t{0};
};

}  // namespace baton
