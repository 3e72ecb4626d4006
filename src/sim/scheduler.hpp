// Scheduler: runs the threads of a simulated program one at a time, on virtual time. A point is a
// lock, a system call, a futex or a yield. At each point the scheduler may switch to another
// thread, by chance, so that it explores how threads interfere. The seed alone determines the
// choices.
//
// Each point takes a drawn time. A thread may also be delayed for long, as by a busy machine, while
// time passes for the others. When no thread can run, time jumps to the next event or timeout. If
// there is neither, every thread sleeps for ever: a lost wake-up, which is a violation.
//
// Events come from outside the program: bytes arrive, a disk request ends. They fire when their
// time comes, on the stack of the running thread. They only wake threads and record; they never
// switch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/fiber.hpp"
#include "sim/history.hpp"
#include "sim/random.hpp"

namespace baton::sim {

/// The receiver of events. It outlives its events, or its owner calls Scheduler::forget.
class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;
  virtual void fire(std::uint32_t what) noexcept = 0;

 private:
  friend class Scheduler;
  std::uint32_t events_ = 0;  // not fired yet
};

/// How threads are switched; drawn for each seed.
struct Schedule {
  std::uint32_t points_per_switch = 8;  ///< on average
  std::uint32_t point_ns = 50;          ///< the time of a point
  std::uint32_t starve = 0;             ///< of 65,536 switches: the thread does not run for long
  std::uint32_t pause = 0;  ///< of 65,536 switches: the thread is delayed, though no other can run
  std::uint32_t spurious = 0;  ///< of 65,536 sleeps: a spurious wake-up
};

class Scheduler {
 public:
  static constexpr std::int64_t never = INT64_MAX;
  /// Threads of one run, with those that have ended and were not joined.
  static constexpr std::size_t threads_max = 4096;

  Scheduler(Random& random, History& history);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // -- from outside -------------------------------------------------------------------------------

  /// Runs entry(argument) as thread 1 until it returns. False: a violation has ended the run.
  /// Threads may then have stopped anywhere, and this scheduler must not be used again.
  bool run(const Schedule& schedule, std::uint64_t points_max, void (*entry)(void*),
           void* argument);
  /// The promise that was broken; empty: none.
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }
  /// `look` is called before time jumps to `until` because no thread can run. It checks what must
  /// not be true while all threads sleep, and returns null or the violation. `until` is `never` if
  /// there is no event, which is a violation in any case. It is not called while a thread is put
  /// off.
  void on_idle(const char* (*look)(void*, std::int64_t until), void* context) noexcept {
    idle_look_ = look;
    idle_context_ = context;
  }

  // -- for the running thread ---------------------------------------------------------------------

  [[nodiscard]] std::int64_t now() const noexcept { return now_; }
  /// Whether a thread was delayed since the last call: what had to be done may have waited for it.
  bool was_disturbed() noexcept { return std::exchange(disturbed_, false); }
  [[nodiscard]] std::uint32_t self() const noexcept { return current_->number; }
  /// Whether the address is in the guard below the running thread's stack. May be called in signal
  /// handlers.
  [[nodiscard]] bool overflowed(const void* address) const noexcept {
    return current_->fiber.overflowed(address);
  }
  /// May switch to another thread.
  void point() noexcept {
    now_ += schedule_.point_ns;
    if (now_ >= next_due_) [[unlikely]]
      fire_due();
    if (--until_switch_ == 0) [[unlikely]]
      switch_by_chance();
  }
  void yield() noexcept;
  /// Sleeps until wake(key) or the deadline; true when woken, perhaps spuriously.
  bool sleep(const void* key, std::int64_t deadline_ns) noexcept;
  /// The same for a lock. If the lock is free (0) while all threads sleep, its release lacked a
  /// wake.
  bool sleep_for_lock(const std::atomic<std::uint32_t>& word, std::int64_t deadline_ns) noexcept;
  /// Wakes up to `count` threads that sleep for `key`, chosen by chance; returns how many.
  std::uint32_t wake(const void* key, std::uint32_t count) noexcept;
  /// Lets the running thread work for this time.
  void work(std::int64_t span_ns) noexcept;

  /// Starts a thread and returns its number. 0: no memory, or threads_max is reached.
  std::uint32_t start(void (*entry)(void*), void* argument) noexcept;
  void join(std::uint32_t number) noexcept;

  void at(std::int64_t when_ns, Target& target, std::uint32_t what) noexcept;
  /// Cancels all events of the target.
  void forget(Target& target) noexcept;
  /// Whether the target has events that have not fired.
  [[nodiscard]] static bool expected(const Target& target) noexcept { return target.events_ != 0; }

  /// Ends the run: a promise is broken.
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
    const std::atomic<std::uint32_t>* lock = nullptr;  ///< the key, if it is a lock
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
    bool operator<(const Due& other) const noexcept {  // for the heap: the latest is the smallest
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  static void thread_main(void* thread) noexcept;
  void switch_by_chance() noexcept;
  void draw_switch() noexcept;
  void put_off(std::int64_t span_ns) noexcept;
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
  std::int64_t next_deadline_ = never;  // no sleeping thread has an earlier one
  std::uint32_t until_switch_ = 1;
  std::uint32_t put_off_ = 0;  // threads
  bool disturbed_ = false;
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
