// The lists of kept lanes.
#include "core/kept_lane.hpp"

#include "os/fork.hpp"
#include "os/process_mutex.hpp"
#include "os/thread_end.hpp"

namespace baton {
namespace {

// The ends of real threads are not simulated, so this is always the real system.
const os::System& real() noexcept { return os::real_system(); }

}  // namespace

/// Without a destructor: glibc ends the process when it has no memory to register one.
class KeptLane::List {
 public:
  void let_all_go() noexcept {
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
  // initial-exec: the dynamic linker ends the process when it has no memory for it.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local List list;
  return list;
}

bool KeptLane::keep(void (*let_go)(void* context), void* context) noexcept {
  static os::ThreadEnd end{[](void* list) { static_cast<List*>(list)->let_all_go(); }};
  List& mine = of_this_thread();
  if (!end.watch(&mine)) return false;
  if (list_ == &mine) return true;  // no other thread can have changed that
  let_go_ = let_go;
  context_ = context;
  fork_generation_ = os::fork_generation();
  mine.add(*this);
  return true;
}

void KeptLane::forget() noexcept {
  const os::LockGuard lock{os::process_mutex, real()};
  if (list_ != nullptr) list_->remove(*this);
}

}  // namespace baton
