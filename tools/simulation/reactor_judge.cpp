// The calls of a reactor's program, and whether they are allowed.
#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>

#include "simulation/reactor_program.hpp"

namespace baton::tools::simulation {

namespace {

constexpr std::int64_t slow_most_ns = 10'000'000;
constexpr std::int64_t quiet_output_ns = 50'000;
/// Turns of others between two turns of a ready registration: the rest of a queue that it came too
/// late for, and one place before it in the next.
constexpr std::uint8_t turns_most = 2;

}  // namespace

// -- registrations --------------------------------------------------------------------------------

void ReactorProgram::judge_call(Watched& one, NativeHandle fd, Interest what) {
  about_ = &one;
  check(one.registered, "a call after on_close");
  check(fd == one.fd, "a call for another descriptor");
  check(one.inside == 0, "two calls of one registration at once");
  std::uint32_t& told = one.told[index_of(what)];
  const bool wanted = any(one.wanted() & what) || (one.busy && any(one.during & what));
  // Calls begun before a change come before those of notifications.
  const bool began_before = one.late_call && any(one.late & what);
  if (!wanted && !began_before && told != 0 && !one.ending) {
    --told;
  } else if (!wanted) {
    check(began_before || !one.removed, "a call after its removal");
    check(began_before || !one.ending, "a call after the one whose result ended the registration");
    check(began_before || !one.suspended, "a call of a suspended registration");
    check(began_before, "a call for an interest that is not watched");
  } else if (what == Interest::in && no_vain_call_ && !one.busy) {
    check(one.again || one.late_call || told != 0 || readable(one),
          "a call for input without input");
  }
  one.to_be_told = one.to_be_told - what;
  one.late_call = false;
  about_ = nullptr;
}

// The other ready registrations that are not being changed have waited for one turn more.
void ReactorProgram::judge_turns(Watched& one) {
  for (Watched* const other : open_) {
    if (other == &one || !waits_for_input(*other) || other->again) continue;
    check(++other->overtaken[one.place] <= turns_most,
          "one registration had many turns while another ready one had none");
  }
  for (Watched* const other : open_) {
    if (!waits_for_input(*other)) other->overtaken = {};
  }
}

Next ReactorProgram::called(Watched& one, NativeHandle fd, Interest what) {
  ++done_;
  ++calls_;
  const std::shared_ptr<Watched> kept = watched_[one.number - 1];
  const Inside handler(in_handler_);
  const Inside loud(quiet_ ? quiet_calls_ : loud_calls_);
  world_->note(sim::Event::complete, one.number, static_cast<std::int64_t>(what));
  // Notifications and resumes of the program add to that.
  const bool told = one.told[index_of(Interest::in)] != 0;
  judge_call(one, fd, what);
  if (what == Interest::in && counts_turns_ && !told && !one.changed) judge_turns(one);
  // The first reason of a turn with several may be output.
  if (what == Interest::in) {
    one.overtaken = {};
    one.changed = false;
  }
  const Inside here(one.inside);
  Next next = Next::keep;
  if (what == Interest::in) {
    one.again = false;
    next = read_some(one);
  } else if (what == Interest::out) {
    if (quiet_) {
      world_->scheduler().work(quiet_output_ns);
    } else {
      write_to(fd);
      if (!one.own && world_->random.coin() && !one.busy && !one.ending) {
        change(one, one.interest - Interest::out);
      }
    }
  }
  const sim::Node* const node = world_->kernel().find(fd);
  constexpr std::uint32_t bad = sim::Kernel::broken;
  if (what != Interest::in && node != nullptr && (sim::Kernel::ready(*node) & bad) != 0) {
    next = Next::remove;
  }
  besides(&one);
  return answer(one, what, next);
}

Next ReactorProgram::read_some(Watched& one) {
  sim::Random& random = world_->random;
  std::array<char, 64> buffer;
  const bool partly = random.chance(partly_);
  for (;;) {
    const std::size_t size = partly ? 1 + random.below(16) : buffer.size();
    const ssize_t got = sim::system().read(one.fd, buffer.data(), size);
    if (got == 0) return Next::remove;  // the other end is closed
    if (got < 0) {
      if (errno == EINTR) continue;
      const bool later = errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
      return later ? Next::keep : Next::remove;
    }
    if (partly) return random.coin() ? Next::again : Next::keep;
  }
}

Next ReactorProgram::answer(Watched& one, Interest what, Next next) {
  sim::Random& random = world_->random;
  if (!quiet_ && next != Next::remove) {
    if (random.below(200) == 0) next = Next::remove;
    const bool drops = what == Interest::out ? random.coin() : random.below(100) == 0;
    if (one.own && next == Next::keep && drops) next = Next::drop;
  }
  if (next == Next::again) one.again = true;
  if (next == Next::remove) {
    one.ending = one.asked = true;
    one.to_be_told = Interest::none;
    one.late_call = false;
  }
  if (next == Next::drop) {
    one.dropped = true;
    one.interest = one.interest - what;
    // After one call for several events the others may still come.
    if (!any(one.interest)) {
      one.ending = one.asked = true;
      one.to_be_told = Interest::none;
      begin_change(one, Interest::all);
    }
  }
  return next;
}

// A handler's other actions.
void ReactorProgram::besides(Watched* one) {
  sim::Random& random = world_->random;
  if (random.chance(slow_)) world_->scheduler().work(random.between(1000, slow_most_ns));
  if (quiet_) return;
  if (random.chance(throwing_)) throw std::runtime_error("a handler's");
  const std::uint32_t acts = random.below(3);
  for (std::uint32_t i = 0; i < acts && done_ < round_end_; ++i) act(one);
}

void ReactorProgram::closed(Watched& one, NativeHandle fd, std::error_code why) {
  const std::shared_ptr<Watched> kept = watched_[one.number - 1];
  world_->note(sim::Event::complete, one.number, -1);
  about_ = &one;
  check(one.registered, "on_close comes twice");
  check(fd == one.fd, "on_close of another descriptor");
  check(one.inside == 0, "on_close while a call runs");
  check(one.ending || closing_ || why, "on_close of a registration that was not ended");
  check(!why || watch_fails_ != 0, "a registration cannot be watched any more");
  about_ = nullptr;
  one.registered = false;
  one.to_be_told = Interest::none;
  places_[one.place] = false;
  std::erase(open_, &one);
  if (closing_ || world_->random.coin()) {
    static_cast<void>(sim::system().close(fd));
  } else {
    to_close_.push_back(fd);
  }
}

// -- notifications --------------------------------------------------------------------------------

Next ReactorProgram::told(Told& one, NativeHandle fd, Interest what) {
  ++done_;
  ++calls_;
  const Inside handler(in_handler_);
  const Inside loud(quiet_ ? quiet_calls_ : loud_calls_);
  world_->note(sim::Event::complete, 0, static_cast<std::int64_t>(what));
  check(fd == invalid_handle, "a handler that was notified directly is called with a descriptor");
  std::uint32_t& due = one.due[index_of(what)];
  check(due != 0, "a handler is called more often than it was notified");
  --due;
  --told_due_;
  ++told_begun_;
  besides(nullptr);
  return Next::keep;
}

void ReactorProgram::worked(std::size_t number) {
  ++done_;
  ++calls_;
  const Inside handler(in_handler_);
  const Inside loud(quiet_ ? quiet_calls_ : loud_calls_);
  Work& work = works_[number];
  check(!work.done, "work is run twice");
  work.done = true;
  --told_due_;
  ++told_begun_;
  if (threads_ == 1 && work.by < threads_most) {
    check(last_work_[work.by] <= number, "work of one thread is run out of order");
    last_work_[work.by] = number;
  }
  besides(nullptr);
}

// -- timers ---------------------------------------------------------------------------------------

Next ReactorProgram::rung(Alarm& one, TimerKey timer, Deadline due) {
  ++done_;
  ++calls_;
  const std::shared_ptr<Alarm> kept = alarms_[one.number - 1];
  const Inside handler(in_handler_);
  const Inside loud(quiet_ ? quiet_calls_ : loud_calls_);
  world_->note(sim::Event::complete, one.number, due.ns());
  check(one.inside == 0, "two calls of one timer at once");
  const Inside here(one.inside);
  check(!one.cancelled || one.late_call, "a timer comes after its cancellation");
  check(one.live || one.late_call, "a timer fires once too often");
  check(!one.has_key || timer == one.key, "a timer fires with another timer's key");
  check(now() >= due.ns(), "a timer is early");
  const std::int64_t from_first = due.ns() - one.first;
  if (one.interval == 0) {
    check(from_first == 0, "a timer fires for another time");
    one.live = false;
  } else {
    check(from_first >= 0 && from_first % one.interval == 0, "a timer fires out of its period");
    check(one.last == 0 || due.ns() > one.last, "a timer fires twice for one time");
  }
  one.last = due.ns();
  one.late_call = false;
  besides(nullptr);
  one.returned = now();
  if (one.interval == 0 || world_->random.below(8) != 0) return Next::keep;
  one.live = false;
  return Next::remove;
}

}  // namespace baton::tools::simulation
