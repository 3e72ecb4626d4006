// OperationCache: operations owned by the library, taken from chunks instead of the heap (P-22;
// paper 000 section 5.3). Chunks stay until the proactor is destroyed, so one thread may take an
// operation and another may give it back.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "baton/proactor.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton {

class OperationCache {
 public:
  explicit OperationCache(const os::System& system) : system_(system) {}

  /// Null when memory is exhausted.
  CachedOperation* take() noexcept;
  void give_back(CachedOperation& operation) noexcept;

 private:
  struct Chunk {
    CachedOperation operations[limits::operation_cache_chunk];
  };
  bool grow() noexcept BATON_REQUIRES(mutex_);

  const os::System& system_;
  os::Mutex mutex_;
  Operation* free_ BATON_GUARDED_BY(mutex_) = nullptr;  // linked by Operation's own link
  std::vector<std::unique_ptr<Chunk>> chunks_ BATON_GUARDED_BY(mutex_);
};

/// For a forked child. Nothing starts there, so each operation that is taken comes back at once.
/// Lock-free: if the child forks while a thread holds a lock, that thread does not exist in the
/// grandchild.
class OperationsOfChild {
 public:
  OperationsOfChild() = default;
  OperationsOfChild(const OperationsOfChild&) = delete;
  OperationsOfChild& operator=(const OperationsOfChild&) = delete;
  ~OperationsOfChild();

  /// Null when memory is exhausted.
  CachedOperation* take() noexcept;
  /// Also for an operation that the parent has taken.
  void give_back(CachedOperation& operation) noexcept;

 private:
  struct Made {
    CachedOperation operation;
    Made* before = nullptr;
  };
  CachedOperation* make() noexcept;

  // take() empties the list and puts the rest back. So no pop compares a stale pointer (ABA).
  std::atomic<Operation*> free_{nullptr};  // linked by Operation's own link
  std::atomic<Made*> made_{nullptr};
};

}  // namespace baton
