// Scheduler: the threads of a simulated program, one at a time, on virtual time. At every point -
// a lock, a system call, a futex, a yield - it may go on with another thread, by chance; so what
// two threads do to each other is explored, and the seed alone tells how.
//
// Time passes by points (a drawn cost each), and jumps when nobody can run: to the next event or
// the next time-out. When there is neither, every thread sleeps for ever: a lost wake-up, which is
// a violation.
//
// Events are what the world outside does: bytes arrive, a disk is done. They fire at their moment,
// on the stack of whoever is running, and only wake and record; they never switch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/fiber.hpp"
#include "sim/history.hpp"
#include "sim/random.hpp"

namespace baton::sim {

/// What an event is for. Whoever owns one outlives its events, or forgets them.
class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;
  virtual void fire(std::uint32_t what) noexcept = 0;

 private:
  friend class Scheduler;
  std::uint32_t events_ = 0;  // waiting for their moment
};

/// How threads are switched; drawn for each seed.
struct Schedule {
  std::uint32_t points_per_switch = 8;  ///< on average
  std::uint32_t point_ns = 50;          ///< what a point costs
  std::uint32_t starve = 0;             ///< of 65,536 switches: the thread is left alone for long
  std::uint32_t spurious = 0;           ///< of 65,536 sleeps: ends without a reason
};

class Scheduler {
 public:
  static constexpr std::int64_t never = INT64_MAX;
  /// Of one run, those included that have ended and were not joined.
  static constexpr std::size_t threads_max = 4096;

  Scheduler(Random& random, History& history);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // -- from outside -------------------------------------------------------------------------------

  /// Runs entry(argument) as thread 1 until it returns. False: a violation ended it before; then
  /// threads may be stuck in the middle of anything, and this scheduler must never be used again.
  bool run(const Schedule& schedule, std::uint64_t points_max, void (*entry)(void*),
           void* argument);
  /// Empty, or what was violated.
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }
  /// Called, if set, before time jumps to `until` because nobody can run: the place for what must
  /// not be true while all sleep. `never` is no event at all, a violation in any case. Returns
  /// null, or the violation.
  void on_idle(const char* (*look)(void*, std::int64_t until), void* context) noexcept {
    idle_look_ = look;
    idle_context_ = context;
  }

  // -- for whoever runs ---------------------------------------------------------------------------

  [[nodiscard]] std::int64_t now() const noexcept { return now_; }
  [[nodiscard]] std::uint32_t self() const noexcept { return current_->number; }
  /// The address lies below the stack of the thread that runs. Also for signal handlers.
  [[nodiscard]] bool overflowed(const void* address) const noexcept {
    return current_->fiber.overflowed(address);
  }
  /// Another thread may go on from here.
  void point() noexcept {
    now_ += schedule_.point_ns;
    if (now_ >= next_due_) [[unlikely]]
      fire_due();
    if (--until_switch_ == 0) [[unlikely]]
      switch_by_chance();
  }
  void yield() noexcept;
  /// Sleeps until wake(key) or the deadline; true when woken. May wake for nothing.
  bool sleep(const void* key, std::int64_t deadline_ns) noexcept;
  /// The same, for a lock: one that is free (0) while all sleep was given back without a wake-up.
  bool sleep_for_lock(const std::atomic<std::uint32_t>& word, std::int64_t deadline_ns) noexcept;
  /// Wakes up to `count` of those who sleep for `key`, by chance whom; how many it were.
  std::uint32_t wake(const void* key, std::uint32_t count) noexcept;
  /// Time passes for the thread that runs: it does something long.
  void work(std::int64_t span_ns) noexcept;

  /// A thread; its number. 0: no memory, or threads_max.
  std::uint32_t start(void (*entry)(void*), void* argument) noexcept;
  void join(std::uint32_t number) noexcept;

  void at(std::int64_t when_ns, Target& target, std::uint32_t what) noexcept;
  /// No event fires for it any more.
  void forget(Target& target) noexcept;
  /// Events wait for it.
  [[nodiscard]] static bool expected(const Target& target) noexcept { return target.events_ != 0; }

  /// The simulated program has broken a promise: the run ends here.
  [[noreturn]] void violated(std::string what) noexcept;

  void note(Event event, std::int64_t a = 0, std::int64_t b = 0) noexcept {
    history_.add(now_, current_ != nullptr ? current_->number : 0, event, a, b);
  }

 private:
  enum class State : std::uint8_t { pooled, ready, sleeping, ended };
  struct Thread {
    Thread(Scheduler& of, std::uint32_t index);
    Scheduler& scheduler;
    const std::uint32_t number;
    State state = State::pooled;
    bool woken = false;
    const void* key = nullptr;
    const std::atomic<std::uint32_t>* lock = nullptr;  ///< what the key is, if it is one
    std::int64_t deadline = never;
    std::int64_t starved_until = 0;
    void (*entry)(void*) = nullptr;
    void* argument = nullptr;
    Fiber fiber;
  };
  struct Due {
    std::int64_t when;
    std::uint64_t order;
    Target* target;
    std::uint32_t what;
    bool operator<(const Due& other) const noexcept {  // for the heap: the latest is the least
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  static void thread_main(void* thread) noexcept;
  void switch_by_chance() noexcept;
  void draw_switch() noexcept;
  void go_on() noexcept;
  [[nodiscard]] const char* wrong_while_all_sleep(std::int64_t until) const noexcept;
  Thread* pick() noexcept;
  Thread* take_from_pool() noexcept;
  void go_to(Thread& next) noexcept;
  void fire_due() noexcept;
  void expire() noexcept;
  void make_ready(Thread& thread) noexcept;
  void reset() noexcept;
  [[noreturn]] void leave() noexcept;

  Random& random_;
  History& history_;
  Schedule schedule_;
  std::int64_t now_ = 0;
  std::int64_t next_due_ = never;
  std::int64_t next_deadline_ = never;  // of those who sleep, at the latest
  std::uint32_t until_switch_ = 1;
  std::uint64_t switches_left_ = 0;
  Thread* current_ = nullptr;
  Thread* main_ = nullptr;
  Fiber root_;
  std::vector<std::unique_ptr<Thread>> threads_;  // by number - 1; kept for the next run
  std::vector<Thread*> ready_;
  std::vector<Thread*> sleeping_;
  std::vector<Due> events_;  // a heap
  std::uint64_t order_ = 0;
  std::string violation_;
  const char* (*idle_look_)(void*, std::int64_t) = nullptr;
  void* idle_context_ = nullptr;
};

}  // namespace baton::sim
