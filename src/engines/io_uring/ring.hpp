// Ring: the two shared queues of one io_uring and its three system calls. Knows requests and
// completions, not operations.
//
// Memory. Both queues are rings of a power of two of entries; heads and tails run freely and are
// masked. We own the submission tail and the completion head, the kernel owns the other two. Each
// side publishes its own index with a release store and reads the other's with an acquire load, so
// a reader that sees an index sees the entry behind it (the kernel's algorithm,
// tools/include/io_uring/mini_liburing.h).
//
// Threads. claim() and publish() are for one thread at a time: under the engine's lock, or the only
// thread. pop() is for the waiting thread. Any thread may call submit() on an `any` ring at any
// time: the count it passes is an upper bound, and the kernel serialises entering threads. A
// request belongs to the thread that entered with it, not to the one that filled it in: the kernel
// cancels it when that thread ends.
//
// A disabled ring (pinned) belongs to the thread that first enters it, so any thread may open it.
//
// The end of a ring. The kernel cancels its requests when the last reference to the ring is gone -
// the descriptor, both mappings, and the calls in progress - but later, in a thread of its own.
// Each ring therefore has a witness: a pipe whose writing end is registered with the ring and open
// nowhere else. The kernel drops it after the last request has been freed, so the hang-up of the
// pipe proves that no memory is written to any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/assert.hpp"
#include "baton/deadline.hpp"
#include "baton/result.hpp"
#include "engines/io_uring/abi.hpp"
#include "os/system.hpp"

namespace baton::engines::uring {

struct RingOptions {
  std::uint32_t entries = 0;      ///< of the submission ring; rounded up to a power of two
  std::uint32_t completions = 0;  ///< of the completion ring; at least `entries`
  bool pinned = false;       ///< SINGLE_ISSUER with DEFER_TASKRUN, disabled until first entered
  bool cooperative = false;  ///< the same thread waits and submits
};

/// How a call into the kernel ended.
enum class Entered : std::uint8_t {
  done,
  timed_out,
  interrupted,  ///< by a signal
  congested,    ///< EAGAIN, EBUSY, ENOMEM: reap, then try again later; nothing is lost
  foreign,      ///< a pinned ring of another thread
  refused       ///< anything else: a wrong call, a filter that forbids it, or (EBADR, told once) a
                ///< completion that was lost for lack of memory; errno tells
};

/// A word that the kernel reads or changes, too. Like std::atomic_ref, but without the check of the
/// alignment, which the kernel's interface guarantees.
class SharedWord {
 public:
  explicit SharedWord(std::uint32_t* word) noexcept : word_(word) {}
  [[nodiscard]] std::uint32_t load(std::memory_order order) const noexcept {
    return __atomic_load_n(word_, static_cast<int>(order));
  }
  void store(std::uint32_t value, std::memory_order order) const noexcept {
    __atomic_store_n(word_, value, static_cast<int>(order));
  }

 private:
  std::uint32_t* word_;
};

inline SharedWord shared(std::uint32_t* word) noexcept { return SharedWord{word}; }

class Ring {
 public:
  /// A ring, or the errno of the failure. Flags that the kernel does not know are left out; EINVAL
  /// if the kernel has no pinned rings.
  static Result<std::unique_ptr<Ring>, int> open(const os::System& system,
                                                 const RingOptions& options);
  /// Closes the descriptor. The kernel cancels requests in flight later, after this returns.
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] std::uint32_t features() const noexcept { return features_; }
  [[nodiscard]] std::uint32_t setup_flags() const noexcept { return setup_flags_; }
  [[nodiscard]] std::uint32_t entries() const noexcept { return sq_entries_; }

  /// The next free request, zeroed; null if the ring is full.
  [[nodiscard]] abi::Sqe* claim() noexcept;
  /// Makes the claimed and filled request visible to the kernel, which takes it at the next entry.
  void publish() noexcept;
  /// Number of requests that are published and not yet taken by the kernel. Any thread.
  [[nodiscard]] std::uint32_t unsubmitted() const noexcept;

  /// Calls visit(request) for each of them, the oldest first.
  template <class Visit>
  void for_each_unsubmitted(Visit&& visit) const {
    for (std::uint32_t at = tail_ - unsubmitted(); at != tail_; ++at) visit(sqes_[at & sq_mask_]);
  }

  /// Hands all published requests to the kernel.
  Entered submit() noexcept;
  /// The same for `count`, which is unsubmitted(); then waits for a completion or the deadline.
  /// Also fetches completions that the kernel held back because the ring was full.
  Entered submit_and_wait(std::uint32_t count, Deadline deadline) noexcept {
    if (BATON_UNLIKELY(!deadline.is_never() || !waits_in_one_call_)) {
      return enter_and_wait(count, deadline);
    }
    const int taken = system_.io_uring_enter(descriptor_, count, 1, wait_flags_, nullptr, 0);
    return BATON_LIKELY(taken >= 0) ? Entered::done : failed();
  }
  Entered submit_and_wait(Deadline deadline) noexcept {
    return submit_and_wait(unsubmitted(), deadline);
  }
  /// Waits without submitting, for when submission is congested.
  Entered wait_only(Deadline deadline) noexcept;

  /// There is a completion to pop.
  [[nodiscard]] bool has_completions() const noexcept;
  /// The number of completions that the kernel has delivered so far; wraps. Any thread.
  [[nodiscard]] std::uint32_t brought() const noexcept;
  /// An entry would deliver completions without waiting.
  [[nodiscard]] bool needs_kernel() const noexcept;
  /// Takes the oldest completions, at most `count_max`, and calls visit(completion) for each.
  template <class Visit>
  [[gnu::always_inline]] void pop_each(std::size_t count_max, Visit&& visit) noexcept {
    std::uint32_t head = shared(cq_head_).load(std::memory_order_relaxed);
    const std::uint32_t tail = shared(cq_tail_).load(std::memory_order_acquire);
    for (; head != tail && count_max > 0; --count_max) {
      const abi::Cqe completion = cqes_[head & cq_mask_];
      // release: the kernel may overwrite the entry only after it has been copied.
      shared(cq_head_).store(++head, std::memory_order_release);
      visit(completion);
    }
  }

  /// Takes the oldest completion.
  [[nodiscard]] bool pop(abi::Cqe& completion) noexcept {
    bool found = false;
    pop_each(1, [&](const abi::Cqe& oldest) { completion = oldest, found = true; });
    return found;
  }

  /// io_uring_register; 0 or an errno.
  int register_call(unsigned operation, void* argument, unsigned count) noexcept;
  /// Puts a completion with this user_data, and result 0, into the ring of another thread. Returns
  /// 0 or an errno. Any thread, and signal handlers: the caller needs no ring
  /// (IORING_REGISTER_SEND_MSG_RING).
  static int send_message(const os::System& system, int ring, std::uint64_t user_data) noexcept;
  /// Unmaps and closes; makes no other call.
  void abandon() noexcept;
  /// The same in a child after fork, for the parts that the child inherited.
  void abandon_in_child() noexcept;

  /// Gives up the ring for good, and leaves it to the kernel to cancel its requests; witness()
  /// hangs up when that is done. Other threads may still use the object: the ring looks empty, and
  /// claim() finds no room. `closed`: the number no longer names the ring and is not closed. False:
  /// the system does not release the mappings, and the witness will not hang up.
  bool let_go(bool closed) noexcept;
  [[nodiscard]] bool is_let_go() const noexcept { return let_go_; }
  /// The reading end of the pipe; -1 after close_witness().
  [[nodiscard]] int witness() const noexcept { return witness_; }
  void close_witness() noexcept;

 private:
  Ring(const os::System& system, int descriptor, const abi::Parameters& parameters) noexcept;
  int map(const abi::Parameters& parameters) noexcept;
  int register_witness() noexcept;
  [[nodiscard]] bool replace(void* at, std::size_t size) const noexcept;
  int enable_if_needed() noexcept;
  int enter(unsigned count, unsigned wanted, unsigned flags, const void* argument,
            std::size_t size) noexcept;
  Entered enter_and_wait(unsigned count, Deadline deadline) noexcept;
  static Entered failed() noexcept;
  Entered poll_descriptor(Deadline deadline) noexcept;

  const os::System& system_;
  int descriptor_;
  const std::uint32_t features_;
  const std::uint32_t setup_flags_;
  bool disabled_;           // pinned only: one thread
  bool waits_in_one_call_;  // an entry can take a deadline, and the ring is enabled
  const std::uint32_t wait_flags_;
  int witness_ = -1;
  bool let_go_ = false;
  bool inherited_ = false;  // fork copies its pages

  void* rings_ = nullptr;
  std::size_t rings_size_ = 0;
  abi::Sqe* sqes_ = nullptr;
  std::size_t sqes_size_ = 0;

  std::uint32_t* sq_head_ = nullptr;
  std::uint32_t* sq_tail_ = nullptr;
  std::uint32_t* sq_flags_ = nullptr;
  std::uint32_t sq_mask_ = 0;
  std::uint32_t sq_entries_ = 0;
  std::uint32_t tail_ = 0;  // ours; for claim() and publish() only

  std::uint32_t* cq_head_ = nullptr;
  std::uint32_t* cq_tail_ = nullptr;
  std::uint32_t cq_mask_ = 0;
  const abi::Cqe* cqes_ = nullptr;
};

inline abi::Sqe* Ring::claim() noexcept {
  // acquire: an entry may be overwritten only after the kernel has read it.
  const std::uint32_t head = shared(sq_head_).load(std::memory_order_acquire);
  BATON_DASSERT(tail_ - head <= sq_entries_);
  if (tail_ - head == sq_entries_) return nullptr;
  abi::Sqe* const request = &sqes_[tail_ & sq_mask_];
  std::memset(request, 0, sizeof(*request));
  return request;
}

inline void Ring::publish() noexcept {
  // release: the kernel, and another thread that enters for us, sees the request before the tail.
  shared(sq_tail_).store(++tail_, std::memory_order_release);
}

inline std::uint32_t Ring::unsubmitted() const noexcept {
  // relaxed: only a count to pass on; the kernel reads the tail with acquire itself. The head is
  // read first, so that it never passes the tail.
  const std::uint32_t head = shared(sq_head_).load(std::memory_order_acquire);
  return shared(sq_tail_).load(std::memory_order_relaxed) - head;
}

inline bool Ring::has_completions() const noexcept {
  // relaxed: the head is ours. acquire: the completion is visible when its index is.
  return shared(cq_head_).load(std::memory_order_relaxed) !=
         shared(cq_tail_).load(std::memory_order_acquire);
}

}  // namespace baton::engines::uring
