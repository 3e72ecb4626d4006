// The actions of a reactor's program, the same for handlers and the driver.
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "simulation/reactor_program.hpp"

namespace baton::tools::simulation {

namespace {
constexpr std::int64_t ms = 1'000'000;

bool is_no_such(std::error_code error) { return error == std::errc::no_such_file_or_directory; }

}  // namespace

void ReactorProgram::draw_mixture() {
  mixture_sum_ = 0;
  for (std::uint32_t& weight : mixture_) {
    weight = world_->random.below(4) == 0 ? 0 : 1 + world_->random.below(10);
    mixture_sum_ += weight;
  }
  mixture_[0] += 10;  // bytes are needed for most events
  mixture_[1] += 3;
  mixture_sum_ += 13;
}

// `caller`: the registration whose call this is; null: outside of calls.
void ReactorProgram::act(Watched* caller) {
  sim::Random& random = world_->random;
  std::uint32_t drawn = random.below(mixture_sum_);
  std::uint32_t chosen = 0;
  while (drawn >= mixture_[chosen]) drawn -= mixture_[chosen++];
  ++done_;
  world_->note(sim::Event::act, chosen, caller != nullptr ? caller->number : 0);
  constexpr Interest some[] = {Interest::in,   Interest::in,     Interest::both,
                               Interest::none, Interest::out,    Interest::in | Interest::urgent,
                               Interest::all,  Interest::urgent, Interest::both};
  Watched* const one = any_watched(caller);
  switch (chosen) {
    case 0:
      if (!open_.empty()) {
        write_to(open_[random.below(static_cast<std::uint32_t>(open_.size()))]->fd);
      }
      return;
    case 1:
      close_later_ones();
      return open_pair();
    case 2:
      if (one != nullptr) change(*one, random.one_of(some));
      return;
    case 3:
      if (one != nullptr) suspend(*one);
      return;
    case 4:
      if (one != nullptr) resume(*one);
      return;
    case 5: {
      if (one == nullptr || random.below(3) != 0) return try_what_has_ended();
      // Two handlers must not wait for each other, nor one for itself.
      const bool wait = caller == nullptr || (waiting_removers_ == 0 && one != caller);
      return remove(*one, wait && random.coin());
    }
    case 6: {
      Watched* const any_one = any_watched(caller, true);
      constexpr Interest as[] = {Interest::in, Interest::in, Interest::out, Interest::urgent,
                                 Interest::both};
      if (any_one != nullptr) notify_registration(*any_one, random.one_of(as));
      return;
    }
    case 7:
      return notify_handler();
    case 8:
      return notify_work();
    case 9:
      return random.below(3) == 0 ? purge() : schedule();
    case 10:
      return random.coin() ? cancel() : schedule();
    default:
      if (random.coin()) {
        wake_asked_ = true;
        reactor_->wake();
      } else if (random.chance(ending_)) {
        ++changing_;
        reactor_->end();
        --changing_;
      }
  }
}

ReactorProgram::Watched* ReactorProgram::any_watched(const Watched* caller, bool others_too) {
  const auto size = static_cast<std::uint32_t>(open_.size());
  if (size == 0) return nullptr;
  const std::uint32_t begin = world_->random.below(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    Watched& one = *open_[(begin + i) % size];
    if (one.ending || one.key == RegistrationKey{}) continue;
    if (others_too) return &one;
    if (one.busy || (one.own && (&one != caller || one.dropped))) continue;
    return &one;
  }
  return nullptr;
}

// -- registrations --------------------------------------------------------------------------------

void ReactorProgram::open_pair() {
  if (open_.size() + 2 > places_max) return;
  int fds[2];
  if (sim::system().socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0) return;
  watch(fds[0]);
  watch(fds[1]);
}

void ReactorProgram::watch(NativeHandle fd) {
  sim::Random& random = world_->random;
  // Another thread may have taken the last place meanwhile.
  const auto place = std::ranges::find(places_, false);
  if (place == places_.end()) return static_cast<void>(sim::system().close(fd));
  *place = true;
  watched_.push_back(std::make_shared<Watched>(*this));
  const std::shared_ptr<Watched> made = watched_.back();
  Watched& one = *made;
  one.number = static_cast<std::uint32_t>(watched_.size());
  one.place = static_cast<std::size_t>(place - places_.begin());
  for (Watched* other : open_) other->overtaken[one.place] = 0;
  one.fd = fd;
  one.own = random.below(3) == 0;
  constexpr Interest some[] = {Interest::in, Interest::in, Interest::in, Interest::both,
                               Interest::none};
  one.interest = random.one_of(some);
  one.registered = true;
  one.busy = true;
  one.during = one.interest;
  open_.push_back(&one);
  const auto key = random.coin()
                       ? reactor_->add(fd, one.interest, one)
                       : reactor_->add(fd, one.interest, std::shared_ptr<EventHandler>(made));
  one.busy = false;
  if (key) {
    one.key = *key;
    return;
  }
  check(one.registered, "on_close of a refused registration");
  // A closed registration has left the list here before its place in the reactor is free.
  const bool full = key.error() == errc::no_free_handles && config_.handles_max < places_max;
  check(full || (watch_fails_ != 0 && key.error() == std::errc::not_enough_memory),
        "a registration is refused");
  one.registered = false;
  places_[one.place] = false;
  std::erase(open_, &one);
  static_cast<void>(sim::system().close(fd));
}

void ReactorProgram::close_later_ones() {
  while (!to_close_.empty()) {
    const NativeHandle fd = to_close_.back();
    to_close_.pop_back();
    static_cast<void>(sim::system().close(fd));
  }
}

// Writes to the other end, where a handler reads it.
void ReactorProgram::write_to(NativeHandle fd) {
  static constexpr std::array<char, 96> bytes{};
  static_cast<void>(sim::system().write(fd, bytes.data(), 1 + world_->random.below(96)));
}

void ReactorProgram::begin_change(Watched& one, Interest during) {
  world_->note(sim::Event::act, 100, one.number);
  one.busy = true;
  one.during = during;
}

// The reasons that a call may have if it had begun when the change took effect.
void ReactorProgram::end_change(Watched& one, Interest before) {
  world_->note(sim::Event::act, 101, one.number);
  one.busy = false;
  one.changed = true;
  one.overtaken = {};
  if (!one.late_call) one.late = Interest::none;
  one.late = one.late | before;
  for (const Interest each : {Interest::in, Interest::out, Interest::urgent}) {
    if (one.told[index_of(each)] != 0) one.late = one.late | each;
  }
  one.late_call = one.inside == 0;
}

void ReactorProgram::judge_error(const Watched& one, std::error_code error) {
  if (is_no_such(error)) {
    const bool ended = one.ending || !one.registered;
    check(ended || watch_fails_ != 0, "a registration is unknown, but was not ended");
    return;
  }
  check(watch_fails_ != 0 && error == std::errc::not_enough_memory, "a change fails");
}

void ReactorProgram::change(Watched& one, Interest next) {
  const Interest before = one.wanted();
  begin_change(one, one.suspended ? Interest::none : before | next);
  const std::error_code error = reactor_->change(one.key, next);
  if (!error) {
    one.interest = next;
  } else {
    judge_error(one, error);
  }
  end_change(one, before);
}

void ReactorProgram::suspend(Watched& one) {
  const Interest before = one.wanted();
  begin_change(one, before);
  const std::error_code error = reactor_->suspend(one.key);
  if (!error) {
    one.suspended = true;
  } else {
    judge_error(one, error);
  }
  end_change(one, before);
}

void ReactorProgram::resume(Watched& one) {
  const Interest before = one.wanted();
  begin_change(one, one.interest);
  const std::error_code error = reactor_->resume(one.key);
  if (!error) {
    one.suspended = false;
  } else {
    judge_error(one, error);
  }
  end_change(one, before);
}

void ReactorProgram::remove(Watched& one, bool wait) {
  const std::uint32_t waits = wait ? 1U : 0U;
  const bool was_ending = one.ending;
  begin_change(one, Interest::all);
  one.ending = true;
  waiting_removers_ += waits;
  const Reactor::Removal removal =
      wait ? reactor_->remove_and_wait(one.key) : reactor_->remove(one.key);
  waiting_removers_ -= waits;
  if (wait) check(!one.registered, "remove_and_wait has returned before on_close");
  if (removal == Reactor::Removal::done) {
    check(!one.registered, "a removal is done, but on_close was not called");
  }
  if (removal == Reactor::Removal::unknown) {
    check(was_ending || one.asked || !one.registered || watch_fails_ != 0,
          "a registration is unknown, but was not ended");
  }
  one.to_be_told = Interest::none;
  end_change(one, Interest::all);
  one.told = {};
  one.late_call = one.late_call && removal == Reactor::Removal::when_it_returns && one.registered;
  one.removed = true;
}

void ReactorProgram::try_what_has_ended() {
  if (watched_.empty()) return;
  const Watched& one = *watched_[world_->random.below(static_cast<std::uint32_t>(watched_.size()))];
  if (!one.removed || one.busy) return;
  switch (world_->random.below(5)) {
    case 0:
      return check(is_no_such(reactor_->change(one.key, Interest::in)),
                   "an ended registration is changed");
    case 1:
      return check(is_no_such(reactor_->suspend(one.key)), "an ended registration is suspended");
    case 2:
      return check(is_no_such(reactor_->resume(one.key)), "an ended registration is resumed");
    case 3:
      return check(is_no_such(reactor_->notify(one.key, Interest::in)),
                   "an ended registration is notified");
    default:
      return check(reactor_->remove(one.key) == Reactor::Removal::unknown,
                   "an ended registration is removed");
  }
}

// -- notifications --------------------------------------------------------------------------------

// The handler may be called before the call returns.
void ReactorProgram::notify_registration(Watched& one, Interest as) {
  one.to_be_told = one.to_be_told | as;
  for (const Interest each : {Interest::in, Interest::out, Interest::urgent}) {
    if (any(as & each)) ++one.told[index_of(each)];
  }
  const bool was_ending = one.ending;
  const std::error_code error = reactor_->notify(one.key, as);
  if (!error) {
    check(!was_ending || !one.removed, "an ended registration is notified");
    ++told_accepted_;
  } else {
    judge_error(one, error);
    one.to_be_told = Interest::none;
  }
}

// Refused only if the queue is full. Calls that have begun since may have made room.
void ReactorProgram::judge_notify(std::error_code error, std::uint64_t begun_before) {
  if (!error) {
    ++told_accepted_;
    check(reactor_->notifications() <= config_.notifications_max,
          "more notifications wait than the limit allows");
    return;
  }
  check(error == errc::limit_reached, "a notification fails");
  if (begun_before == told_begun_) {
    check(told_due_ > config_.notifications_max, "a notification is refused, but there is room");
  }
  --told_due_;
}

void ReactorProgram::notify_handler() {
  constexpr Interest as[] = {Interest::in, Interest::out, Interest::urgent};
  Told& one = *told_[world_->random.below(static_cast<std::uint32_t>(told_.size()))];
  const Interest what = world_->random.one_of(as);
  const std::uint64_t begun = told_begun_;
  ++told_due_;
  ++one.due[index_of(what)];
  const std::error_code error = reactor_->notify(one, what);
  if (error) --one.due[index_of(what)];
  judge_notify(error, begun);
}

void ReactorProgram::notify_work() {
  const std::size_t number = works_.size();
  works_.push_back({.by = world_->scheduler().self()});
  const std::uint64_t begun = told_begun_;
  ++told_due_;
  const std::error_code error = reactor_->notify([this, number] { worked(number); });
  judge_notify(error, begun);
}

void ReactorProgram::purge() {
  Told& one = *told_[world_->random.below(static_cast<std::uint32_t>(told_.size()))];
  constexpr Interest some[] = {Interest::in, Interest::out, Interest::urgent};
  const Interest which = world_->random.one_of(some);
  const std::size_t purged = reactor_->purge(&one, which);
  std::uint32_t& due = one.due[index_of(which)];
  check(purged <= due, "more notifications are purged than were made");
  due -= static_cast<std::uint32_t>(purged);
  told_due_ -= purged;
  told_begun_ += purged;
}

// -- timers ---------------------------------------------------------------------------------------

void ReactorProgram::schedule() {
  sim::Random& random = world_->random;
  alarms_.push_back(std::make_shared<Alarm>(*this));
  const std::shared_ptr<Alarm> made = alarms_.back();
  Alarm& one = *made;
  one.number = static_cast<std::uint32_t>(alarms_.size());
  one.first = now() + random.between(-ms, (2 * ms) << random.below(4));
  one.interval = random.below(3) == 0 ? random.between(ms / 10, 5 * ms) : 0;
  one.live = true;
  const Deadline first = Deadline::at_ns(one.first);
  const Duration interval{one.interval};
  const auto key = random.coin()
                       ? reactor_->schedule(one, first, interval)
                       : reactor_->schedule(std::shared_ptr<EventHandler>(made), first, interval);
  if (key) {
    one.key = *key;
    one.has_key = true;
    check(reactor_->timers() <= config_.timers_max, "there are more timers than the limit allows");
    return;
  }
  check(key.error() == errc::limit_reached && one.last == 0, "a timer is refused");
  one.live = false;
}

void ReactorProgram::cancel() {
  if (alarms_.empty()) return;
  const std::shared_ptr<Alarm> kept =
      alarms_[world_->random.below(static_cast<std::uint32_t>(alarms_.size()))];
  Alarm& one = *kept;
  if (!one.has_key || one.cancelled) return;
  const bool lived = one.live;
  ++one.cancels;
  const bool cancelled =
      world_->random.below(4) == 0 ? reactor_->cancel_timers(one) == 1 : reactor_->cancel(one.key);
  const bool others_cancel = --one.cancels != 0;
  if (cancelled) {
    check(one.interval != 0 || one.last == 0, "a timer is cancelled, but its call has begun");
    one.cancelled = true;
    one.late_call = one.interval != 0 && one.inside == 0;
    return;
  }
  // A timer that is not periodic: its call has begun. Or another thread has cancelled it, without
  // an answer yet.
  check(!lived || one.interval == 0 || !one.live || one.cancelled || others_cancel,
        "a timer is unknown");
}

}  // namespace baton::tools::simulation
