// ReactorProgram: the random program of one seed for the Reactor, and its books.
//
// A round is one reactor: a drawn strategy, tuning and number of threads; connections of which both
// ends are registered; handlers that read, write, answer, throw and last; registrations, removals,
// suspensions, changes of interest, notifications and timers by handlers and by the driver, a
// thread outside; ends and restarts. A round ends in a state without undelivered events, or in the
// destructor at any moment.
//
// Each registration, timer and notification has an account of the calls that may come and of those
// that must come. A change takes effect at some moment between its call and its return, and a call
// that had begun then may still come: see Watched::late_call.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "baton/reactor.hpp"
#include "simulation/scenario.hpp"

namespace baton::tools::simulation {

class ReactorProgram final : public Scenario {
 public:
  ReactorProgram() = default;
  ~ReactorProgram() override = default;

  void run(sim::World& world, const ProgramOptions& options) override;
  /// Requests to the reactor and calls of handlers.
  [[nodiscard]] std::uint64_t started() const noexcept override { return done_; }

 private:
  static constexpr std::size_t places_max = 16;  // registrations at once
  static constexpr std::size_t threads_most = 24;

  /// How the threads drive the reactor; drawn for each round.
  enum class Drive : std::uint8_t { run, events, visits };

  /// One event of a registration, by Interest.
  static constexpr std::size_t index_of(Interest one) noexcept {
    return one == Interest::in ? 0 : one == Interest::out ? 1 : 2;
  }

  /// A registration.
  struct Watched final : EventHandler {
    explicit Watched(ReactorProgram& of) : program(of) {}
    Next on_input(NativeHandle descriptor) override {
      return program.called(*this, descriptor, Interest::in);
    }
    Next on_output(NativeHandle descriptor) override {
      return program.called(*this, descriptor, Interest::out);
    }
    Next on_exception(NativeHandle descriptor) override {
      return program.called(*this, descriptor, Interest::urgent);
    }
    void on_close(NativeHandle descriptor, std::error_code why) noexcept override {
      program.closed(*this, descriptor, why);
    }

    /// The expected reasons of its calls.
    [[nodiscard]] Interest wanted() const noexcept {
      return suspended || ending ? Interest::none : interest;
    }

    ReactorProgram& program;
    std::uint32_t number = 0;
    std::size_t place = 0;
    NativeHandle fd = invalid_handle;
    RegistrationKey key;
    bool registered = false;  // add was called, and on_close has not come
    bool own = false;         // changed by its own calls only, which may drop an event
    bool busy = false;        // a call that changes it is running
    Interest interest = Interest::none;
    Interest during = Interest::none;  // what may be called while it is busy
    bool suspended = false;
    bool ending = false;   // it was removed, or a call has answered `remove`
    bool asked = false;    // a call has answered `remove`
    bool removed = false;  // a call of remove has returned
    bool dropped = false;  // a call has dropped an event; later changes could overlap with that
    bool changed = false;  // the program has changed it since its last call
    std::uint32_t inside = 0;
    /// A call may still come that had begun, but not arrived here, when a change took effect.
    bool late_call = false;
    Interest late = Interest::none;       // for one of these
    std::array<std::uint32_t, 3> told{};  // may be called because of notifications
    Interest to_be_told = Interest::none;
    bool again = false;  // its last call has said that there is more
    /// Turns of the others since it became ready.
    std::array<std::uint8_t, places_max> overtaken{};
  };

  /// A handler that is notified itself, of one event at a time.
  struct Told final : EventHandler {
    explicit Told(ReactorProgram& of) : program(of) {}
    Next on_input(NativeHandle fd) override { return program.told(*this, fd, Interest::in); }
    Next on_output(NativeHandle fd) override { return program.told(*this, fd, Interest::out); }
    Next on_exception(NativeHandle fd) override {
      return program.told(*this, fd, Interest::urgent);
    }
    ReactorProgram& program;
    std::array<std::uint32_t, 3> due{};
  };

  struct Alarm final : EventHandler {
    explicit Alarm(ReactorProgram& of) : program(of) {}
    Next on_timeout(TimerKey timer, Deadline due) override {
      return program.rung(*this, timer, due);
    }
    ReactorProgram& program;
    std::uint32_t number = 0;
    TimerKey key;
    bool has_key = false;
    std::int64_t first = 0;
    std::int64_t interval = 0;
    std::int64_t last = 0;      // due of the last call; 0: none
    std::int64_t returned = 0;  // when that call returned
    std::uint32_t inside = 0;
    bool live = false;  // will be called (again)
    bool cancelled = false;
    bool late_call = false;
    std::uint32_t cancels = 0;  // running calls of cancel
  };

  struct Work {
    std::uint32_t by = 0;  // the notifying thread
    bool done = false;
  };

  // Rounds: reactor_program.cpp
  bool round(std::uint32_t operations);
  bool open_reactor();
  void drive();
  static void enter_thread(void* self);
  void thread_loop();
  void turn_once();
  void glance();
  void come_to_rest();
  void look_at_idleness();
  void check_books();
  static const char* look_idle(void* self, std::int64_t until);
  [[nodiscard]] const char* missed(std::int64_t until);
  [[nodiscard]] const char* what_waits() const;
  [[nodiscard]] bool readable(const Watched& one) const;
  [[nodiscard]] bool writable(const Watched& one) const;
  [[nodiscard]] bool waits_for_input(const Watched& one) const;
  [[noreturn]] void wrong(const std::string& what);
  void check(bool fact, const char* what) {
    if (!fact) [[unlikely]]
      wrong(what);
  }
  template <class Done>
  void wait_until(Done&& done, const char* what);

  // Acting: reactor_act.cpp
  void draw_mixture();
  void act(Watched* caller);
  Watched* any_watched(const Watched* caller, bool others_too = false);
  void open_pair();
  void watch(NativeHandle fd);
  void close_later_ones();
  void write_to(NativeHandle fd);
  void change(Watched& one, Interest next);
  void suspend(Watched& one);
  void resume(Watched& one);
  void remove(Watched& one, bool wait);
  void try_what_has_ended();
  void begin_change(Watched& one, Interest during);
  void end_change(Watched& one, Interest before);
  void judge_error(const Watched& one, std::error_code error);
  void notify_registration(Watched& one, Interest as);
  void notify_handler();
  void notify_work();
  void judge_notify(std::error_code error, std::uint64_t begun_before);
  void purge();
  void schedule();
  void cancel();

  // Being called: reactor_judge.cpp
  Next called(Watched& one, NativeHandle fd, Interest what);
  void closed(Watched& one, NativeHandle fd, std::error_code why);
  Next told(Told& one, NativeHandle fd, Interest what);
  void worked(std::size_t number);
  Next rung(Alarm& one, TimerKey timer, Deadline due);
  void judge_call(Watched& one, NativeHandle fd, Interest what);
  void judge_turns(Watched& one);
  Next read_some(Watched& one);
  Next answer(Watched& one, Interest what, Next next);
  void besides(Watched* one);

  [[nodiscard]] std::int64_t now() const noexcept { return world_->scheduler().now(); }

  sim::World* world_ = nullptr;
  ProgramOptions options_;
  std::uint64_t done_ = 0;
  std::uint64_t round_end_ = 0;
  Reactor* reactor_ = nullptr;

  // Drawn for the round
  ReactorConfig config_;
  std::uint32_t threads_ = 1;
  Drive drive_ = Drive::run;
  bool glances_ = false;  // visits do not wait
  std::uint32_t slow_ = 0;
  std::uint32_t throwing_ = 0;
  std::uint32_t ending_ = 0;
  std::uint32_t partly_ = 0;  // reads that leave some bytes
  std::uint32_t watch_fails_ = 0;
  std::int64_t far_ns_ = 0;  // work must not wait for so long
  bool counts_turns_ = false;
  bool no_vain_call_ = false;
  std::array<std::uint32_t, 12> mixture_{};
  std::uint32_t mixture_sum_ = 0;

  // The state of the round
  std::uint32_t in_run_ = 0;
  std::uint32_t in_handler_ = 0;
  std::uint32_t loud_calls_ = 0;        // of these, begun before it was quiet
  std::uint32_t quiet_calls_ = 0;       // and since
  std::uint32_t waiting_removers_ = 0;  // handlers that wait for another's end
  std::uint32_t changing_ = 0;          // running calls of end or restart
  std::uint64_t calls_ = 0;
  std::uint64_t calls_seen_ = 0;
  std::int64_t neglected_since_ = 0;
  std::uint32_t vain_glances_ = 0;  // in a row, while something waited
  std::int64_t vain_since_ = 0;     // the end of the first of them
  std::int64_t lingers_since_ = 0;
  bool wake_asked_ = false;  // and no thread has returned since
  std::int64_t unheard_since_ = 0;
  bool quiet_ = false;    // nothing new is started
  bool closing_ = false;  // the destructor runs
  bool leave_ = false;    // the threads must return

  const Watched* about_ = nullptr;  // the subject of the violation

  // The books
  std::vector<std::shared_ptr<Watched>> watched_;  // of the round, also those that have ended
  std::vector<Watched*> open_;
  std::array<bool, places_max> places_{};
  std::vector<NativeHandle> to_close_;
  std::array<std::unique_ptr<Told>, 3> told_;
  std::vector<Work> works_;
  std::array<std::size_t, threads_most> last_work_{};  // by thread: of its works, the last that ran
  std::vector<std::shared_ptr<Alarm>> alarms_;
  std::uint64_t told_due_ = 0;    // accepted, or about to be, and not begun
  std::uint64_t told_begun_ = 0;  // or purged
  std::uint64_t told_accepted_ = 0;
};

}  // namespace baton::tools::simulation
