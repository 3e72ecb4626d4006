// KeptLane: a lane that its thread keeps between two visits, because a pinned engine knows only
// that thread. When the thread ends without a word, the lane must be let go by it, not after it: an
// engine's operations cannot be reaped by anybody else. So each thread has a list of the lanes it
// keeps, and goes through it at its end.
#pragma once

#include <cstdint>

namespace baton {

class KeptLane {
 public:
  KeptLane() = default;
  ~KeptLane() { forget(); }
  KeptLane(const KeptLane&) = delete;
  KeptLane& operator=(const KeptLane&) = delete;

  /// The calling thread will call let_go(context) when it ends, unless forget() comes before.
  void keep(void (*let_go)(void* context), void* context) noexcept;
  /// Any thread; but the keeping thread must not be ending at this moment.
  void forget() noexcept;

 private:
  class List;
  static List& of_this_thread() noexcept;

  void (*let_go_)(void*) = nullptr;
  void* context_ = nullptr;
  std::uint32_t fork_generation_ = 0;
  // Guarded by one mutex for all lists: they change when threads and proactors come and go.
  List* list_ = nullptr;
  KeptLane* next_ = nullptr;
};

}  // namespace baton
