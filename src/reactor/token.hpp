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

  /// `interrupt`, if not null, is called with `context` when somebody holds it.
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
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace baton::reactor
