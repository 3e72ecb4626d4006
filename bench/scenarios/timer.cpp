// The cost of a timer on a proactor with one thread in run(). The same rounds as
// bench/rivals/raw/floor_timer.cpp, but with everything a proactor owes: a clock, cancellation from
// any thread, and a handler that runs for each timer, cancelled or expired.
//
//   timer [--rounds N] [--mode shared|dedicated|per_thread]
//
// BATON=engine=...,wait=... chooses the rest.
#include <memory>

#include "baton/proactor.hpp"
#include "scenario.hpp"

namespace {

using baton::Deadline;
using baton::Operation;
using baton::Proactor;
using Clock = std::chrono::steady_clock;

constexpr std::size_t many = 200'000;
constexpr std::size_t few = 10'000;
constexpr std::size_t rearm_turns = 10;

struct Rounds {
  Proactor& proactor;
  std::unique_ptr<Operation[]> timers = std::make_unique<Operation[]>(many);
  std::size_t handlers_left = 0;
  std::uint64_t random_state = 7007;
  std::int64_t now_ns = 0;

  explicit Rounds(Proactor& p) : proactor(p) {}

  std::int64_t random_ns() {  // xorshift64, 0 to about 17 s
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return static_cast<std::int64_t>(random_state >> 30);
  }
  // The clock is read once a round, as a program that sets many timers at once would do.
  void look_at_clock() { now_ns = proactor.now().ns(); }
  // An hour away: never due during a round.
  Deadline far() { return Deadline::at_ns(now_ns + 3'600'000'000'000 + random_ns()); }
  // Due at once, each at its own time.
  Deadline past() { return Deadline::at_ns(1'000'000 + random_ns() % 1'000'000); }

  void start(Operation& timer, Deadline when) {
    if (proactor.start_timer(timer, when)) std::abort();
  }
  void move(Operation& timer, Deadline when) {
    if (!proactor.move_deadline(timer, when)) std::abort();
  }
  void cancel(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) proactor.cancel(timers[i]);
  }
  void set_handlers(std::size_t count, baton::CompletionFunction handler) {
    for (std::size_t i = 0; i < count; ++i) timers[i].set_completion(handler, this);
  }
  // Runs `work` in a handler, then the loop until the last of `handlers` handlers has stopped it.
  template <typename Work>
  double run(std::size_t handlers, std::size_t timer_count, Work&& work) {
    handlers_left = handlers;
    proactor.restart();
    Clock::time_point start_time;
    auto begin = [&] {
      start_time = Clock::now();
      look_at_clock();
      work();
    };
    if (proactor.post([&begin] { begin(); })) std::abort();
    proactor.run();
    return baton::bench::ns_since(start_time) / static_cast<double>(timer_count);
  }
};

void count_down(Operation& timer) {
  auto& rounds = *static_cast<Rounds*>(timer.context());
  if (--rounds.handlers_left == 0) rounds.proactor.stop();
}

double create_cancel(Rounds& rounds, std::size_t count) {
  rounds.set_handlers(count, count_down);
  return rounds.run(count, count, [&] {
    for (std::size_t i = 0; i < count; ++i) rounds.start(rounds.timers[i], rounds.far());
    rounds.cancel(count);
  });
}

double create_expire(Rounds& rounds, std::size_t count) {
  rounds.set_handlers(count, count_down);
  return rounds.run(count, count, [&] {
    for (std::size_t i = 0; i < count; ++i) rounds.start(rounds.timers[i], rounds.past());
  });
}

// Moves each of 10,000 pending timers, `rearm_turns` times; starting and ending them is not part
// of the time.
template <typename When>
double move_each(Rounds& rounds, When&& when) {
  rounds.set_handlers(few, count_down);
  double ns = 0;
  rounds.run(few, few, [&] {
    for (std::size_t i = 0; i < few; ++i) rounds.start(rounds.timers[i], rounds.far());
    const auto start_time = Clock::now();
    for (std::size_t turn = 0; turn < rearm_turns; ++turn) {
      for (std::size_t i = 0; i < few; ++i) rounds.move(rounds.timers[i], when());
    }
    ns = baton::bench::ns_since(start_time) / static_cast<double>(few * rearm_turns);
    rounds.cancel(few);
  });
  return ns;
}

// To anywhere, sooner or later.
double rearm(Rounds& rounds) {
  return move_each(rounds, [&rounds] { return rounds.far(); });
}

// As the time-out of a connection with every message: each time behind all others.
double put_off(Rounds& rounds) {
  std::int64_t ahead_ns = std::int64_t{1} << 35;
  return move_each(rounds, [&] {
    ahead_ns += 1'000;
    return Deadline::at_ns(rounds.now_ns + 3'600'000'000'000 + ahead_ns);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const auto mode = baton::bench::option(argc, argv, "--mode", "shared");
  const auto count = baton::bench::option(argc, argv, "--rounds", "7");
  const auto config = baton::bench::one_thread_config(mode);
  if (!config) {
    std::fprintf(stderr, "timer: %s\n", config.error().reason.c_str());
    return 2;
  }
  Proactor proactor{*config};
  Rounds rounds{proactor};
  baton::bench::Report report("timer", std::strtoul(count.c_str(), nullptr, 10));
  report.measure("timer_create_cancel", [&] { return create_cancel(rounds, many); });
  report.measure("timer_create_cancel_10k", [&] { return create_cancel(rounds, few); });
  report.measure("timer_rearm", [&] { return rearm(rounds); });
  report.measure("timer_put_off", [&] { return put_off(rounds); });
  report.measure("timer_create_expire", [&] { return create_expire(rounds, many); });
  report.measure("timer_create_expire_10k", [&] { return create_expire(rounds, few); });
  report.print();
  return 0;
}
