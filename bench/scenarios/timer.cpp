// What a timer costs on a proactor with one thread in run(). The same rounds as
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
constexpr std::size_t rearmed = 10'000;
constexpr std::size_t rearm_turns = 10;

struct Rounds {
  Proactor& proactor;
  std::unique_ptr<Operation[]> timers = std::make_unique<Operation[]>(many);
  std::size_t handlers_left = 0;
  std::uint64_t random_state = 7007;

  explicit Rounds(Proactor& p) : proactor(p) {}

  std::int64_t random_ns() {  // xorshift64, 0 to about 17 s
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return static_cast<std::int64_t>(random_state >> 30);
  }
  // An hour away: never due during a round.
  Deadline far() { return Deadline::at_ns(proactor.now().ns() + 3'600'000'000'000 + random_ns()); }
  // Due at once, each at its own time.
  Deadline past() { return Deadline::at_ns(1'000'000 + random_ns() % 1'000'000); }

  void start(Operation& timer, Deadline when) {
    if (proactor.start_timer(timer, when)) std::abort();
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

double create_cancel(Rounds& rounds) {
  rounds.set_handlers(many, count_down);
  return rounds.run(many, many, [&rounds] {
    for (std::size_t i = 0; i < many; ++i) rounds.start(rounds.timers[i], rounds.far());
    rounds.cancel(many);
  });
}

double create_expire(Rounds& rounds) {
  rounds.set_handlers(many, count_down);
  return rounds.run(many, many, [&rounds] {
    for (std::size_t i = 0; i < many; ++i) rounds.start(rounds.timers[i], rounds.past());
  });
}

// Every timer is started again in its handler, and when all of a turn are, all are cancelled again.
// The last turn only ends them, which the very first starts make up for.
void restart_timer(Operation& timer) {
  auto& rounds = *static_cast<Rounds*>(timer.context());
  const std::size_t left = --rounds.handlers_left;
  if (left >= rearmed) rounds.start(timer, rounds.far());
  if (left == 0) {
    rounds.proactor.stop();
  } else if (left % rearmed == 0) {
    rounds.cancel(rearmed);
  }
}

double rearm(Rounds& rounds) {
  rounds.set_handlers(rearmed, restart_timer);
  return rounds.run(rearmed * rearm_turns, rearmed * rearm_turns, [&rounds] {
    for (std::size_t i = 0; i < rearmed; ++i) rounds.start(rounds.timers[i], rounds.far());
    rounds.cancel(rearmed);
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
  report.measure("timer_create_cancel", [&] { return create_cancel(rounds); });
  report.measure("timer_rearm", [&] { return rearm(rounds); });
  report.measure("timer_create_expire", [&] { return create_expire(rounds); });
  report.print();
  return 0;
}
