// Very many timers: what one more costs while so many are pending, against none; and whether any of
// so many that expire is early, and how late they are.
//
//   timers [--pending N] [--spread MS] [--rounds N] [--mode shared|dedicated|per_thread]
//
// BATON=engine=...,wait=... chooses the rest, but no pinned ring: its thread leaves run() between
// the parts, and would end what is pending. The N timers of the second part expire at random
// within --spread milliseconds. Prints one line of JSON; exit status 1 if a timer was early or did
// not come.
#include <memory>

#include "baton/proactor.hpp"
#include "scenario.hpp"

namespace {

using baton::Deadline;
using baton::Operation;
using baton::Proactor;

constexpr std::size_t pairs = 100'000;
constexpr std::int64_t far_ns = 3'600'000'000'000;

struct Timer : Operation {
  Deadline due;
};

struct Run {
  Proactor& proactor;
  std::unique_ptr<Timer[]> timers;
  std::size_t count;
  Timer one;
  std::uint64_t random_state = 7007;
  std::uint64_t early = 0;
  std::uint64_t expired = 0;
  std::size_t left = 0;
  std::vector<std::int64_t> late_ns;

  Run(Proactor& p, std::size_t n)
      : proactor(p), timers(std::make_unique<Timer[]>(n)), count(n), late_ns(n) {}

  std::int64_t random_ns(std::int64_t end) {  // xorshift64
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return static_cast<std::int64_t>(random_state >> 1) % end;
  }
  void start(Timer& timer, Deadline when) {
    timer.due = when;
    const std::error_code error = proactor.start_timer(timer, when);
    if (!error) return;
    std::fprintf(stderr, "timers: a start was refused: %s\n", error.message().c_str());
    std::exit(2);
  }
  // Runs `work` in a handler; it, or a handler of its timers, stops the proactor.
  template <typename Work>
  void run(Work&& work) {
    proactor.restart();
    auto begin = [&work] { work(); };
    if (proactor.post([&begin] { begin(); })) std::abort();
    proactor.run();
  }
};

void count_down(Operation& timer) {
  auto& run = *static_cast<Run*>(timer.context());
  if (--run.left == 0) run.proactor.stop();
}

void look_at(Operation& operation) {
  auto& run = *static_cast<Run*>(operation.context());
  auto& timer = static_cast<Timer&>(operation);
  const std::int64_t late = run.proactor.now().ns() - timer.due.ns();
  if (late < 0) ++run.early;
  run.late_ns[run.expired++] = late;
  if (--run.left == 0) run.proactor.stop();
}

/// Insert and cancel, in nanoseconds for a pair. A cancelled timer is out only when its handler
/// has run, so that a batch takes turns with the loop.
double pair_ns(Run& run) {
  constexpr std::size_t batch = 1'000;
  auto some = std::make_unique<Timer[]>(batch);
  for (std::size_t i = 0; i < batch; ++i) some[i].set_completion(count_down, &run);
  double total = 0;
  for (std::size_t done = 0; done < pairs; done += batch) {
    run.left = batch;
    run.run([&] {
      const auto begin = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < batch; ++i) {
        run.start(some[i],
                  Deadline::at_ns(run.proactor.now().ns() + far_ns + run.random_ns(far_ns)));
        run.proactor.cancel(some[i]);
      }
      total += baton::bench::ns_since(begin);
    });
  }
  return total / static_cast<double>(pairs);
}

double median_pair_ns(Run& run, std::size_t rounds) {
  std::vector<double> times;
  pair_ns(run);
  for (std::size_t i = 0; i < rounds; ++i) times.push_back(pair_ns(run));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void start_far(Run& run) {
  for (std::size_t i = 0; i < run.count; ++i) {
    run.timers[i].set_completion(count_down, &run);
    run.start(run.timers[i],
              Deadline::at_ns(run.proactor.now().ns() + far_ns + run.random_ns(far_ns)));
  }
}

void cancel_far(Run& run) {
  run.left = run.count;
  run.run([&run] {
    for (std::size_t i = 0; i < run.count; ++i) run.proactor.cancel(run.timers[i]);
  });
}

void expire_all(Run& run, std::int64_t spread_ns) {
  run.left = run.count;
  run.run([&run, spread_ns] {
    for (std::size_t i = 0; i < run.count; ++i) {
      run.timers[i].set_completion(look_at, &run);
      run.start(run.timers[i], Deadline::at_ns(run.proactor.now().ns() + run.random_ns(spread_ns)));
    }
  });
  std::sort(run.late_ns.begin(), run.late_ns.begin() + static_cast<std::ptrdiff_t>(run.expired));
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](const char* name, const char* otherwise) {
    return std::strtoull(baton::bench::option(argc, argv, name, otherwise).c_str(), nullptr, 10);
  };
  const std::size_t pending = std::max<std::size_t>(number("--pending", "1000000"), 1);
  const auto spread_ns = static_cast<std::int64_t>(number("--spread", "5000")) * 1'000'000;
  const std::size_t rounds = std::max<std::size_t>(number("--rounds", "7"), 1);
  auto config =
      baton::bench::one_thread_config(baton::bench::option(argc, argv, "--mode", "shared"));
  if (!config) {
    std::fprintf(stderr, "timers: %s\n", config.error().reason.c_str());
    return 2;
  }
  for (auto& processor : config->processors) {
    processor.operations_max = static_cast<std::uint32_t>(2 * pending + 10'000);
  }
  Proactor proactor{*config};
  Run run{proactor, pending};
  const double alone = median_pair_ns(run, rounds);
  run.run([&run] {
    start_far(run);
    run.proactor.stop();
  });
  const double among = median_pair_ns(run, rounds);
  cancel_far(run);
  expire_all(run, spread_ns);
  const auto late_us = [&run](std::size_t percent) {
    return static_cast<double>(run.late_ns[(run.count - 1) * percent / 100]) / 1e3;
  };
  std::printf(
      "{\"program\": \"timers\", \"pending\": %zu, \"pair_alone_ns\": %.1f, \"pair_among_ns\": "
      "%.1f, \"ratio\": %.2f, \"expired\": %llu, \"early\": %llu, \"late_median_us\": %.1f, "
      "\"late_99_us\": %.1f}\n",
      pending, alone, among, among / alone, static_cast<unsigned long long>(run.expired),
      static_cast<unsigned long long>(run.early), late_us(50), late_us(99));
  baton::bench::write_out();
  return run.early == 0 && run.expired == run.count ? 0 : 1;
}
