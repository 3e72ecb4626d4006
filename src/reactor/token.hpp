// FifoToken: a small form of the token of ACE's reactors, for the imitation with which the reactor
// is compared (ReactorTuning::token_line). A thread holds it while it waits for events, and while
// it changes the watched set. A thread that finds it held by a waiting thread interrupts the wait
// and stands in line. So each resume switches between two threads, as in ACE.
#pragma once

#include "os/mutex.hpp"
#include "os/parking.hpp"
#include "os/system.hpp"

namespace baton::reactor {

class FifoToken {
 public:
  explicit FifoToken(const os::System& system) noexcept : system_(system) {}

  /// `interrupt`, if not null, is called with `context` if the token is held. The caller then comes
  /// before all callers without `interrupt`.
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
