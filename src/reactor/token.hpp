// FifoToken: the token of ACE's reactors in little, for the imitation that the reactor is measured
// against (ReactorTuning::token_line). Whoever waits for events, or changes what is waited
// for, holds it; who wants it and finds it held by a waiting thread interrupts the wait, and stands
// in line. Two threads are switched for each resume, which is the point.
#pragma once

#include "os/mutex.hpp"
#include "os/parking.hpp"
#include "os/system.hpp"

namespace baton::reactor {

class FifoToken {
 public:
  explicit FifoToken(const os::System& system) noexcept : system_(system) {}

  /// `interrupt`, if not null, is called with `context` when somebody holds it; then the caller
  /// comes before all who wait without.
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
  Line changers_;  // those who interrupt
  Line leaders_;   // those who are quiet
};

}  // namespace baton::reactor
