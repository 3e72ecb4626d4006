// The lists of kept lanes.
#include "core/kept_lane.hpp"

#include "os/fork.hpp"
#include "os/process_mutex.hpp"

namespace baton {
namespace {

// The ends of real threads are not simulated, so this is always the real system.
const os::System& real() noexcept { return os::real_system(); }

}  // namespace

class KeptLane::List {
 public:
  ~List() {
    while (KeptLane* lane = take_first()) {
      // In a forked child the lane is the parent's.
      if (lane->fork_generation_ == os::fork_generation()) lane->let_go_(lane->context_);
    }
  }
  void add(KeptLane& lane) noexcept {
    const os::LockGuard lock{os::process_mutex, real()};
    lane.list_ = this;
    lane.next_ = first_;
    first_ = &lane;
  }
  /// The mutex is held.
  void remove(KeptLane& lane) noexcept {
    KeptLane** at = &first_;
    while (*at != &lane) at = &(*at)->next_;
    *at = lane.next_;
    lane.list_ = nullptr;
  }

 private:
  KeptLane* take_first() noexcept {
    const os::LockGuard lock{os::process_mutex, real()};
    KeptLane* lane = first_;
    if (lane != nullptr) remove(*lane);
    return lane;
  }
  KeptLane* first_ = nullptr;
};

KeptLane::List& KeptLane::of_this_thread() noexcept {
  static thread_local List list;
  return list;
}

void KeptLane::keep(void (*let_go)(void* context), void* context) noexcept {
  List& mine = of_this_thread();
  if (list_ == &mine) return;  // no other thread can have changed that
  let_go_ = let_go;
  context_ = context;
  fork_generation_ = os::fork_generation();
  mine.add(*this);
}

void KeptLane::forget() noexcept {
  const os::LockGuard lock{os::process_mutex, real()};
  if (list_ != nullptr) list_->remove(*this);
}

}  // namespace baton
