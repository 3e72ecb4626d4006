// What a timer costs when nothing stands between: a 4-ary heap of (deadline, timer) pairs, each
// timer knowing its place, no lock and no clock. Four children a node halve the depth of a binary
// heap, and the four lie in one cache line.
//
//   floor_timer [--rounds N]
//
// timer_create_cancel: start 200,000 timers, then cancel all. timer_rearm: move one of 10,000.
// timer_create_expire: start 200,000, then take all in order.
// Prints one line of JSON: nanoseconds per timer, median and least of the rounds.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

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
constexpr std::size_t rearmed = 10'000;

std::uint64_t random_state = 7007;

std::uint64_t random_deadline() {  // xorshift64: the same row in every run
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state >> 20;
}

template <typename Work>
double ns_each(std::size_t count, Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const auto spent = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::nano>(spent).count() / static_cast<double>(count);
}

double create_cancel() {
  Heap heap;
  heap.reserve(many);
  std::vector<Timer> timers(many);
  return ns_each(many, [&] {
    for (Timer& timer : timers) heap.add(&timer, random_deadline());
    for (Timer& timer : timers) heap.remove(&timer);
  });
}

double rearm() {
  Heap heap;
  heap.reserve(rearmed);
  std::vector<Timer> timers(rearmed);
  for (Timer& timer : timers) heap.add(&timer, random_deadline());
  return ns_each(rearmed * 10, [&] {
    for (int turn = 0; turn < 10; ++turn) {
      for (Timer& timer : timers) heap.move(&timer, random_deadline());
    }
  });
}

double create_expire() {
  Heap heap;
  heap.reserve(many);
  std::vector<Timer> timers(many);
  return ns_each(many, [&] {
    for (Timer& timer : timers) heap.add(&timer, random_deadline());
    while (!heap.empty()) heap.pop();
  });
}

void measure(const char* name, const char* separator, std::size_t rounds, double (*scenario)()) {
  std::vector<double> times;
  scenario();
  for (std::size_t i = 0; i < rounds; ++i) times.push_back(scenario());
  std::sort(times.begin(), times.end());
  std::printf("\"%s\": {\"median_ns\": %.2f, \"least_ns\": %.2f}%s", name, times[times.size() / 2],
              times.front(), separator);
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t rounds = 7;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--rounds") rounds = std::strtoul(argv[i + 1], nullptr, 10);
  }
  rounds = std::max<std::size_t>(rounds, 1);
  std::printf("{\"program\": \"floor_timer\", ");
  measure("timer_create_cancel", ", ", rounds, create_cancel);
  measure("timer_rearm", ", ", rounds, rearm);
  measure("timer_create_expire", "}\n", rounds, create_expire);
  return 0;
}
