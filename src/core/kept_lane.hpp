// KeptLane: a lane that its thread keeps between two visits, because a pinned engine works only
// with that thread. If the thread ends, that thread itself must let the lane go, because no other
// thread can reap the engine's operations. So each thread has a list of the lanes it keeps and
// releases them when it ends.
#pragma once

#include <cstdint>

namespace baton {

class KeptLane {
 public:
  KeptLane() = default;
  ~KeptLane() { forget(); }
  KeptLane(const KeptLane&) = delete;
  KeptLane& operator=(const KeptLane&) = delete;

  /// The calling thread calls let_go(context) when it ends, unless forget() is called before.
  /// False: the end of this thread cannot be noticed (no memory, or no key of pthreads), so it must
  /// not keep the lane.
  [[nodiscard]] bool keep(void (*let_go)(void* context), void* context) noexcept;
  /// Any thread. REQUIRES: the thread that keeps the lane is not ending at this moment.
  void forget() noexcept;

 private:
  class List;
  static List& of_this_thread() noexcept;

  void (*let_go_)(void*) = nullptr;
  void* context_ = nullptr;
  std::uint32_t fork_generation_ = 0;
  // Guarded by os::process_mutex: lists change only when threads and proactors come and go.
  List* list_ = nullptr;
  KeptLane* next_ = nullptr;
};

}  // namespace baton
