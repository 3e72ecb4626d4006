// OperationCache: operations of the library's own, taken from chunks instead of the heap (P-22;
// paper 000 section 5.3). Chunks stay until the proactor is destroyed, so one thread may take an
// operation and another may give it back.
#pragma once

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

}  // namespace baton
