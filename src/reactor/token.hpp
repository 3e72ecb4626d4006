// FifoToken: the token of ACE's reactors in little, for the imitation that the reactor is measured
// against (ReactorTuning::token_line). A thread holds it while it waits for events, and while it
// changes what is waited for. A thread that finds it held by a waiting one interrupts the wait and
// stands in line. So each resume switches between two threads, as in ACE.
#pragma once

#include "os/mutex.hpp"
#include "os/parking.hpp"
#include "os/system.hpp"

namespace baton::reactor {

class FifoToken {
 public:
  explicit FifoToken(const os::System& system) noexcept : system_(system) {}

  /// `interrupt`, if not null, is called with `context` when the token is held; then the caller
  /// comes before all callers without one.
  void acquire(void (*interrupt)(void*), void* context) noexcept;
  void release() noexcept;

 private:
  struct Waiter {
    os::ParkingSlot slot;
    Waiter* next = nullptr;
  };
  const os::System& system_;
  os::Mutex mutex_;
  bool held_ = false;
  struct Line {
    Waiter* first = nullptr;
    Waiter* last = nullptr;
  };
  Line changers_;  // threads that interrupt
  Line leaders_;   // threads that do not
};

}  // namespace baton::reactor
