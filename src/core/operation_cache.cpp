// The free list of cached operations.
#include "core/operation_cache.hpp"

#include <new>

#include "core/access.hpp"

namespace baton {

CachedOperation* OperationCache::take() noexcept {
  const os::LockGuard lock{mutex_, system_};
  if (free_ == nullptr && !grow()) return nullptr;
  Operation* operation = free_;
  free_ = OperationAccess::next(*operation);
  OperationAccess::next(*operation) = nullptr;
  operation->set_strand(nullptr);
  operation->set_deadline(Deadline::never());
  return static_cast<CachedOperation*>(operation);
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

}  // namespace baton
