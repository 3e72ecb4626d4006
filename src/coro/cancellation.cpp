// The state that a cancellation source shares with its tokens.
#include "baton/coro/cancellation.hpp"

#include <new>
#include <utility>

#include "base/assert.hpp"
#include "baton/coro/frame_cache.hpp"
#include "baton/proactor.hpp"
#include "os/fork.hpp"
#include "os/mutex.hpp"

namespace baton::detail {
namespace {

static_assert(sizeof(os::Mutex) == 4 && alignof(os::Mutex) <= alignof(std::uint32_t));

os::Mutex& mutex_in(std::byte* bytes) noexcept {
  return *std::launder(reinterpret_cast<os::Mutex*>(bytes));
}

}  // namespace

CancellationState::CancellationState(Proactor& proactor) noexcept
    : system_(&proactor.system()), forks_(os::fork_generation()) {
  ::new (static_cast<void*>(mutex_)) os::Mutex;
}

CancellationState* CancellationState::create(Proactor& proactor) {
  // From the cache of frames, because each run_until_complete makes one.
  return ::new (allocate_frame(sizeof(CancellationState))) CancellationState(proactor);
}

void CancellationState::acquire() noexcept {
  // relaxed: the source of a copy holds a count already.
  references_.fetch_add(1, std::memory_order_relaxed);
}

void CancellationState::release() noexcept {
  // acquire and release: the last owner sees the writes of all others.
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // In the child of a fork, tasks of the parent are still linked.
  BATON_ASSERT(first_ == nullptr || of_parent());
  this->~CancellationState();
  free_frame(this, sizeof(CancellationState));
}

bool CancellationState::of_parent() const noexcept { return forks_ != os::fork_generation(); }

bool CancellationState::add(CancellationNode& node) noexcept {
  const os::LockGuard guard(mutex_in(mutex_), *system_);
  BATON_ASSERT(!node.linked_);
  if (cancelled_.load(std::memory_order_relaxed)) return false;
  node.previous_ = nullptr;
  node.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &node;
  first_ = &node;
  node.linked_ = true;
  return true;
}

void CancellationState::remove(CancellationNode& node) noexcept {
  const os::LockGuard guard(mutex_in(mutex_), *system_);
  if (!node.linked_) return;
  (node.previous_ != nullptr ? node.previous_->next_ : first_) = node.next_;
  if (node.next_ != nullptr) node.next_->previous_ = node.previous_;
  node.linked_ = false;
}

bool CancellationState::claim() noexcept {
  // release: see cancelled().
  return !cancelled_.exchange(true, std::memory_order_acq_rel);
}

// A list instead of a recursion, because scopes may be nested to any depth.
void CancellationState::cancel() noexcept {
  if (!claim()) return;
  acquire();
  CancellationState* claimed = this;
  while (claimed != nullptr) {
    CancellationState& state = *claimed;
    claimed = state.call_nodes(std::exchange(state.next_claimed_, nullptr));
    state.release();
  }
}

CancellationState* CancellationState::call_nodes(CancellationState* rest) noexcept {
  const os::LockGuard guard(mutex_in(mutex_), *system_);
  for (CancellationNode* node = first_; node != nullptr; node = node->next_) {
    CancellationState* const inner = node->inner_;
    if (inner == nullptr) {
      node->cancel_(*node);
    } else if (inner->claim()) {
      inner->acquire();  // its scope may be destroyed as soon as this lock is free
      inner->next_claimed_ = rest;
      rest = inner;
    }
  }
  return rest;
}

}  // namespace baton::detail
