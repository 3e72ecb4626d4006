// Strand: a queue, a busy flag, and the thread that runs a handler.
#include "baton/strand.hpp"

#include <new>
#include <utility>

#include "base/assert.hpp"
#include "baton/misuse.hpp"
#include "baton/proactor.hpp"
#include "core/access.hpp"
#include "core/core.hpp"
#include "core/runner.hpp"
#include "os/fork.hpp"
#include "os/mutex.hpp"
#include "os/thread_locals.hpp"

namespace baton {
namespace {

static_assert(sizeof(os::Mutex) == 4 && alignof(os::Mutex) <= alignof(std::uint32_t));

os::Mutex& mutex_in(std::byte* bytes) noexcept {
  return *std::launder(reinterpret_cast<os::Mutex*>(bytes));
}

// The address of a thread-local identifies a thread at no cost; thread_self() of the system table
// asks the kernel. In a simulation (which sets lock_point) all fibers share one thread's storage,
// so thread_self() is used there.
std::uintptr_t this_thread(const os::System& system) noexcept {
  if (system.lock_point != nullptr) return static_cast<std::uintptr_t>(system.thread_self()) + 1;
  return reinterpret_cast<std::uintptr_t>(&os::thread_locals);
}

}  // namespace

Strand::Strand(Proactor& proactor) noexcept
    : system_(&proactor.core().ledger().system()), forks_(os::fork_generation()) {
  ::new (static_cast<void*>(mutex_)) os::Mutex;
}

Strand::~Strand() {
  // The thread that is inside, or holds the mutex, does not exist here.
  if (forks_ != os::fork_generation()) return;
  if (running_in_this_thread()) {
    detail::misused(
        "a strand was destroyed inside one of its handlers: give it to Strand::retire() there");
  }
  // The destroying thread may learn from the last handler that nothing is pending, and get here
  // before the thread that ran the handler has left. That takes a few instructions, or one time
  // slice.
  constexpr std::int64_t pause_ns = 50'000;
  for (;;) {
    {
      const os::LockGuard guard(mutex_in(mutex_), *system_);
      if (handed_on_ != nullptr || !queue_.empty()) {
        detail::misused(
            "a strand was destroyed while operations that carry it are pending: wait for their "
            "completions, or end the proactor before, by finish() or a FinishAtEnd");
      }
      if (!busy_) break;
    }
    std::atomic<std::uint32_t> never_changes{0};
    system_->futex_wait(&never_changes, 0, system_->monotonic_ns() + pause_ns);
  }
}

void Strand::retire(std::unique_ptr<Strand> strand) noexcept {
  if (strand == nullptr || strand->forks_ != os::fork_generation()) return;
  {
    const os::LockGuard guard(mutex_in(strand->mutex_), *strand->system_);
    strand->retired_ = true;
    if (!strand->busy_) return;  // destroyed by the pointer, after the lock
    // The thread that runs a handler destroys the strand, in leave().
    static_cast<void>(strand.release());  // NOLINT: `guard` still refers to it, and that is alive
  }
}

bool Strand::running_in_this_thread() const noexcept {
  return owner_.load(std::memory_order_relaxed) == this_thread(*system_);
}

std::uint32_t Strand::lane(std::uint32_t if_first) noexcept {
  // relaxed: a number that is written once.
  std::uint32_t lane = lane_.load(std::memory_order_relaxed);
  if (lane != no_lane) return lane;
  const bool first = lane_.compare_exchange_strong(lane, if_first, std::memory_order_relaxed);
  return first ? if_first : lane;
}

bool Strand::enter(Operation& operation) noexcept {
  const os::LockGuard guard(mutex_in(mutex_), *system_);
  if (handed_on_ == &operation) {
    handed_on_ = nullptr;
  } else if (busy_) {
    if (overtaken_ == &operation) {
      overtaken_ = nullptr;
      queue_.push_front(operation);
    } else {
      queue_.push_back(operation);
    }
    OperationAccess::runner(operation)->waits_in_strand(operation);
    return false;
  }
  busy_ = true;
  owner_.store(this_thread(*system_), std::memory_order_relaxed);
  return true;
}

Operation* Strand::leave() noexcept {
  bool last = false;
  {
    const os::LockGuard guard(mutex_in(mutex_), *system_);
    BATON_ASSERT(busy_ && handed_on_ == nullptr);
    owner_.store(0, std::memory_order_relaxed);
    if (overtaken_ != nullptr) {  // it is queued in its proactor still
      handed_on_ = std::exchange(overtaken_, nullptr);
      return nullptr;
    }
    if (!queue_.empty()) {
      handed_on_ = &queue_.pop_front();
      OperationAccess::runner(*handed_on_)->leaves_strand(*handed_on_);
      return handed_on_;
    }
    busy_ = false;
    last = retired_;
  }
  if (last) delete this;  // retire() has handed it over
  return nullptr;
}

Operation* Strand::overtake(const HandlerRunner& proactor) noexcept {
  const os::LockGuard guard(mutex_in(mutex_), *system_);
  if (handed_on_ == nullptr || overtaken_ != nullptr) return nullptr;
  if (OperationAccess::runner(*handed_on_) == &proactor) return nullptr;
  for (Operation* each = queue_.front(); each != nullptr; each = OperationQueue::next(*each)) {
    if (OperationAccess::runner(*each) != &proactor) continue;
    queue_.erase(*each);
    OperationAccess::runner(*each)->leaves_strand(*each);
    overtaken_ = std::exchange(handed_on_, each);
    return each;
  }
  return nullptr;
}

}  // namespace baton
