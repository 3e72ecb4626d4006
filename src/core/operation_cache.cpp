// The free list of cached operations.
#include "core/operation_cache.hpp"

#include <new>
#include <utility>

#include "core/access.hpp"

namespace baton {
namespace {

CachedOperation* as_new(Operation& operation) noexcept {
  OperationAccess::next(operation) = nullptr;
  operation.set_strand(nullptr);
  operation.set_deadline(Deadline::never());
  return static_cast<CachedOperation*>(&operation);
}

}  // namespace

CachedOperation* OperationCache::take() noexcept {
  const os::LockGuard lock{mutex_, system_};
  if (free_ == nullptr && !grow()) return nullptr;
  Operation& operation = *free_;
  free_ = OperationAccess::next(operation);
  return as_new(operation);
}

void OperationCache::give_back(CachedOperation& operation) noexcept {
  BATON_ASSERT(!operation.is_pending());
  const os::LockGuard lock{mutex_, system_};
  OperationAccess::next(operation) = free_;
  free_ = &operation;
}

bool OperationCache::grow() noexcept {
  std::unique_ptr<Chunk> chunk{new (std::nothrow) Chunk};
  if (chunk == nullptr) return false;
  try {
    chunks_.push_back(std::move(chunk));
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (CachedOperation& operation : chunks_.back()->operations) {
    OperationAccess::next(operation) = free_;
    free_ = &operation;
  }
  return true;
}

OperationsOfChild::~OperationsOfChild() {
  for (Made* last = made_.load(std::memory_order_acquire); last != nullptr;) {
    delete std::exchange(last, last->before);
  }
}

CachedOperation* OperationsOfChild::take() noexcept {
  // acquire, release: makes visible what the previous user wrote to the operations.
  Operation* const first = free_.exchange(nullptr, std::memory_order_acquire);
  if (first == nullptr) return make();
  for (Operation* rest = OperationAccess::next(*first); rest != nullptr;) {
    Operation& each = *std::exchange(rest, OperationAccess::next(*rest));
    give_back(static_cast<CachedOperation&>(each));
  }
  return as_new(*first);
}

void OperationsOfChild::give_back(CachedOperation& operation) noexcept {
  BATON_ASSERT(!operation.is_pending());
  Operation* next = free_.load(std::memory_order_relaxed);
  do {
    OperationAccess::next(operation) = next;
  } while (!free_.compare_exchange_weak(next, &operation, std::memory_order_release,
                                        std::memory_order_relaxed));
}

CachedOperation* OperationsOfChild::make() noexcept {
  Made* const made = new (std::nothrow) Made;
  if (made == nullptr) return nullptr;
  made->before = made_.load(std::memory_order_relaxed);
  while (!made_.compare_exchange_weak(made->before, made, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
  return &made->operation;
}

}  // namespace baton
