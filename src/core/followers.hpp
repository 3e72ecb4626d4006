// Followers: the threads that rest beside a leader, and those that were woken and are on their way.
// The Dispatcher and the Reactor decide who leads, who is woken and why; this class knows the
// places. Not thread-safe: its user's mutex guards it, and the members.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "os/parking.hpp"

namespace baton {

enum class Rest : std::uint8_t {
  awake,
  asleep,   ///< until it is woken
  standby,  ///< until it is woken, or until its next look at the leader
  woken     ///< it is on its way, but not under the mutex yet
};

/// What a thread needs to rest; a base of its Member, which lives on the thread's stack.
template <class Member>
struct Follower {
  Rest rest = Rest::awake;
  os::ParkingSlot slot;
  Member* next = nullptr;  // of the sleepers
  Member* previous = nullptr;
};

template <class Member>
class Followers {
 public:
  /// The last one that fell asleep, whose cache is the warmest; the others follow by `next`. Null:
  /// none sleeps.
  [[nodiscard]] Member* sleeper() const noexcept { return sleepers_; }
  [[nodiscard]] Member* standby() const noexcept { return standby_; }
  /// A thread that was woken is on its way. It will look round, so that no other need be woken.
  [[nodiscard]] bool one_comes() const noexcept { return coming_ > 0; }
  [[nodiscard]] bool some_rest() const noexcept {
    return sleepers_ != nullptr || standby_ != nullptr;
  }

  /// `me` is awake, or the standby, which gives up its role.
  void fall_asleep(Member& me) noexcept {
    get_up(me);
    me.rest = Rest::asleep;
    me.next = sleepers_;
    if (sleepers_ != nullptr) sleepers_->previous = &me;
    sleepers_ = &me;
  }
  /// REQUIRES: `me` is awake, and there is no standby.
  void stand_by(Member& me) noexcept {
    BATON_DASSERT(standby_ == nullptr);
    me.rest = Rest::standby;
    standby_ = &me;
  }
  /// `me` stops resting by itself: it was not woken. Does nothing if it is awake.
  void get_up(Member& me) noexcept {
    if (me.rest == Rest::standby) standby_ = nullptr;
    if (me.rest == Rest::asleep) remove(me);
    me.rest = Rest::awake;
  }
  /// REQUIRES: `one` rests. The caller unparks it.
  void wake(Member& one) noexcept {
    get_up(one);
    one.rest = Rest::woken;
    ++coming_;
  }
  /// `me`, which was woken, holds the mutex again.
  void arrived(Member& me) noexcept {
    BATON_ASSERT(coming_ > 0);
    --coming_;
    me.rest = Rest::awake;
  }

 private:
  void remove(Member& one) noexcept {
    (one.previous != nullptr ? one.previous->next : sleepers_) = one.next;
    if (one.next != nullptr) one.next->previous = one.previous;
    one.next = one.previous = nullptr;
  }

  Member* sleepers_ = nullptr;  // last in, first out
  Member* standby_ = nullptr;
  std::uint32_t coming_ = 0;
};

}  // namespace baton
