// The least cost of a timer: a 4-ary heap of (deadline, timer) pairs, each timer knowing its
// place, no lock and no clock. Four children a node halve the depth of a binary heap, and the four
// lie in one cache line.
//
//   floor_timer [--rounds N]
//
// timer_create_cancel: start 200,000 timers, then cancel all. timer_rearm: move one of 10,000, to
// anywhere. timer_put_off: the same, each time behind all others, as the time-out of a connection
// with every message. timer_create_expire: start 200,000, then take all in order. With _10k at its
// end: the same with 10,000, which fit the nearer caches.
// Prints one line of JSON: nanoseconds per timer, median and least of the rounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rounds.hpp"

namespace {

struct Timer {
  std::size_t index = 0;
};

class Heap {
 public:
  void reserve(std::size_t count) { entries_.reserve(count); }
  bool empty() const { return entries_.empty(); }

  void add(Timer* timer, std::uint64_t deadline) {
    entries_.push_back({deadline, timer});
    up(entries_.size() - 1, {deadline, timer});
  }

  void remove(Timer* timer) {
    const Entry last = entries_.back();
    entries_.pop_back();
    if (timer->index < entries_.size()) settle(timer->index, last);
  }

  void move(Timer* timer, std::uint64_t deadline) { settle(timer->index, {deadline, timer}); }

  Timer* pop() {
    Timer* const timer = entries_.front().timer;
    remove(timer);
    return timer;
  }

 private:
  struct Entry {
    std::uint64_t deadline;
    Timer* timer;
  };

  void place(std::size_t index, Entry entry) {
    entries_[index] = entry;
    entry.timer->index = index;
  }

  void settle(std::size_t index, Entry entry) {
    if (index > 0 && entry.deadline < entries_[(index - 1) / 4].deadline) {
      up(index, entry);
    } else {
      down(index, entry);
    }
  }

  void up(std::size_t index, Entry entry) {
    while (index > 0) {
      const std::size_t parent = (index - 1) / 4;
      if (entries_[parent].deadline <= entry.deadline) break;
      place(index, entries_[parent]);
      index = parent;
    }
    place(index, entry);
  }

  void down(std::size_t index, Entry entry) {
    for (;;) {
      const std::size_t first = index * 4 + 1;
      if (first >= entries_.size()) break;
      const std::size_t end = std::min(first + 4, entries_.size());
      std::size_t least = first;
      for (std::size_t i = first + 1; i < end; ++i) {
        if (entries_[i].deadline < entries_[least].deadline) least = i;
      }
      if (entries_[least].deadline >= entry.deadline) break;
      place(index, entries_[least]);
      index = least;
    }
    place(index, entry);
  }

  std::vector<Entry> entries_;
};

constexpr std::size_t many = 200'000;
constexpr std::size_t few = 10'000;

std::uint64_t random_deadline() { return rival::random_number() >> 20; }

double create_cancel(std::size_t count) {
  Heap heap;
  heap.reserve(count);
  std::vector<Timer> timers(count);
  return rival::ns_each(count, [&] {
    for (Timer& timer : timers) heap.add(&timer, random_deadline());
    for (Timer& timer : timers) heap.remove(&timer);
  });
}

template <typename When>
double move_each(When&& when) {
  Heap heap;
  heap.reserve(few);
  std::vector<Timer> timers(few);
  for (Timer& timer : timers) heap.add(&timer, random_deadline());
  return rival::ns_each(few * 10, [&] {
    for (int turn = 0; turn < 10; ++turn) {
      for (Timer& timer : timers) heap.move(&timer, when());
    }
  });
}

double rearm() { return move_each(random_deadline); }

double put_off() {
  std::uint64_t deadline = std::uint64_t{1} << 45;
  return move_each([&deadline] { return deadline += 1'000; });
}

double create_expire(std::size_t count) {
  Heap heap;
  heap.reserve(count);
  std::vector<Timer> timers(count);
  return rival::ns_each(count, [&] {
    for (Timer& timer : timers) heap.add(&timer, random_deadline());
    while (!heap.empty()) heap.pop();
  });
}

}  // namespace

int main(int argc, char** argv) {
  rival::Report report("floor_timer", argc, argv, 7);
  report.measure("timer_create_cancel", [] { return create_cancel(many); });
  report.measure("timer_create_cancel_10k", [] { return create_cancel(few); });
  report.measure("timer_rearm", rearm);
  report.measure("timer_put_off", put_off);
  report.measure("timer_create_expire", [] { return create_expire(many); });
  report.measure("timer_create_expire_10k", [] { return create_expire(few); });
  return 0;
}
