// baton_soak: a long life in a short time. Runs sockets, pipes, files, timers, posts, and
// connections that come and go on one configuration, until a number of operations is done; one
// operation in twenty is cancelled. Accounts for every activation and checks every byte. See
// docs/internals/soak.md.
//
// A short round comes first, on the same proactor. After the long round, descriptors and memory
// must be back at the values after the short one.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "actors.hpp"
#include "config_options.hpp"
#include "ledger.hpp"
#include "numbers.hpp"
#include "sampler.hpp"

namespace baton::soak {
namespace {

using SteadyClock = std::chrono::steady_clock;
using tools::grouped;

constexpr int skipped = 77;
constexpr std::uint64_t warm_up_operations = 20'000;
/// Without a single completion for so long - timers are always running - something is lost.
constexpr double patience_s = 60;

struct Options {
  tools::ConfigOptions config;
  std::uint64_t operations = 100'000'000;
  double seconds = 0;
  std::uint64_t seed = 1;
};

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

std::vector<std::unique_ptr<Actor>> make_actors(Ledger& ledger) {
  std::vector<std::unique_ptr<Actor>> actors;
  const auto add = [&actors](auto make, int count) {
    for (int i = 0; i < count; ++i) actors.push_back(make());
  };
  add([&] { return std::make_unique<Link>(ledger, Link::Kind::unix_socket); }, 6);
  add([&] { return std::make_unique<Link>(ledger, Link::Kind::tcp_socket); }, 6);
  add([&] { return std::make_unique<Link>(ledger, Link::Kind::pipe); }, 4);
  add([&] { return std::make_unique<Churn>(ledger, true); }, 1);
  add([&] { return std::make_unique<Churn>(ledger, false); }, 1);
  add([&] { return std::make_unique<Blocks>(ledger); }, 2);
  add([&] { return std::make_unique<Clock>(ledger); }, 8);
  return actors;
}

/// Watches a round from a thread of its own: samples, a line on the terminal, the time limit, and
/// the end of everything when nothing moves any more.
class Watch {
 public:
  Watch(Ledger& ledger, std::uint64_t operations, double seconds)
      : ledger_(ledger),
        operations_(operations),
        seconds_(seconds),
        completed_before_(ledger.totals().completed) {
    thread_ = std::thread([this] { watch(); });
  }
  ~Watch() { finish(); }

  void finish() {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        ended_ = true;
      }
      event_.notify_one();
      thread_.join();
    }
  }

 private:
  struct Sample {
    double seconds = 0;
    std::uint64_t completed = 0;
  };

  void watch() {
    constexpr auto interval = std::chrono::milliseconds(500);
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    std::unique_lock lock(mutex_);
    while (!event_.wait_for(lock, interval, [this] { return ended_; })) {
      const Sample now{seconds_since(begin_), ledger_.totals().completed - completed_before_};
      if (terminal) show(now);
      if (seconds_ > 0 && now.seconds >= seconds_) ledger_.end_soon();
      expect_progress(now);
    }
    if (terminal) fmt::print(stderr, "\r\033[K");
  }
  void show(const Sample& sample) const {
    fmt::print(
        stderr, "\rsoak: {} of {} operations, {}/s, {:.1f} MB, {} descriptors\033[K",
        grouped(sample.completed), grouped(operations_),
        grouped(static_cast<std::uint64_t>(static_cast<double>(sample.completed) / sample.seconds)),
        static_cast<double>(resident_bytes()) / 1e6, count_descriptors());
    std::fflush(stderr);
  }
  void expect_progress(const Sample& sample) {
    if (sample.completed != moved_.completed) moved_ = sample;
    if (sample.seconds - moved_.seconds < patience_s) return;
    fmt::print(stderr, "\nsoak: nothing has completed for {} s. Pending:\n{}", patience_s,
               ledger_.proactor.pending().to_string());
    std::abort();
  }

  Ledger& ledger_;
  const std::uint64_t operations_;
  const double seconds_;
  const std::uint64_t completed_before_;
  const SteadyClock::time_point begin_ = SteadyClock::now();
  std::mutex mutex_;
  std::condition_variable event_;
  bool ended_ = false;  // guarded by mutex_
  Sample moved_;
  std::thread thread_;
};

struct Round {
  double seconds = 0;
  Totals totals;  ///< of this round alone
};

/// All actors, from their begin to their end.
Round run_round(Ledger& ledger, std::uint64_t operations, double seconds, std::uint32_t threads) {
  const Totals before = ledger.totals();
  auto actors = make_actors(ledger);
  ledger.set_budget(operations);
  const auto begin = SteadyClock::now();
  Watch watch(ledger, operations, seconds);
  // One part more, so that no actor's early end stops it.
  ledger.part_begins();
  for (const auto& actor : actors) actor->begin();
  std::vector<std::thread> runners;
  for (std::uint32_t i = 0; i < threads; ++i) {
    runners.emplace_back([&ledger] { ledger.proactor.run(); });
  }
  ledger.part_ended();
  for (std::thread& runner : runners) runner.join();
  watch.finish();
  Round round{seconds_since(begin), {}};
  for (const auto& actor : actors) actor->expect_balanced();
  actors.clear();  // this checks whether each entry has completed
  ledger.proactor.restart();
  round.totals = ledger.totals();
  round.totals -= before;
  return round;
}

std::string config_name(const Config& config) {
  std::string name;
  for (const ProcessorConfig& processor : config.processors) {
    if (!name.empty()) name += '+';
    name += processor.engine.empty() ? "auto" : processor.engine;
    if (!processor.wait.empty()) name += "-" + processor.wait;
    name += fmt::format("-{}", to_string(processor.mode));
  }
  return name;
}

void expect_books_closed(Ledger& ledger, std::size_t descriptors_before) {
  const Totals totals = ledger.totals();
  if (totals.started != totals.completed) ledger.violation("starts and completions differ");
  const std::size_t descriptors = count_descriptors();
  if (descriptors != descriptors_before) {
    ledger.violation(fmt::format("{} descriptors are open, before there were {}", descriptors,
                                 descriptors_before));
  }
  const Statistics statistics = ledger.proactor.statistics();
  if (statistics.pending != 0 || statistics.handles != 0) {
    ledger.violation(fmt::format("the proactor still has {} operations and {} handles",
                                 statistics.pending, statistics.handles));
  }
}

int report(const Options& options, const Ledger& ledger, const Round& round, const Growth& growth) {
  const Totals& totals = round.totals;
  const std::uint64_t rate =
      static_cast<std::uint64_t>(static_cast<double>(totals.completed) / round.seconds);
  fmt::print("{} operations in {:.1f} s ({}/s), {} cancelled, {} bytes\n",
             grouped(totals.completed), round.seconds, grouped(rate), grouped(totals.cancelled),
             grouped(totals.bytes));
  fmt::print("memory: {:+.0f} bytes behind the warm-up, {:+.3f} for each operation\n", growth.bytes,
             growth.bytes_per_operation());
  const bool good = ledger.violations() == 0;
  fmt::print(
      "soak config {} seed {} operations {} completed {} cancels {} cancelled {} bytes {} "
      "seconds {:.1f} "
      "bytes_per_operation {:.3f} resident_bytes {} descriptors {} violations {} verdict {}\n",
      config_name(ledger.proactor.config()), options.seed, totals.started, totals.completed,
      totals.cancels, totals.cancelled, totals.bytes, round.seconds, growth.bytes_per_operation(),
      resident_bytes(), count_descriptors(), ledger.violations(), good ? "good" : "bad");
  return good ? 0 : 1;
}

int soak(const Options& options) {
  const auto config = tools::make_config(options.config);
  if (!config) return tools::report_failure("soak", config.error());
  auto opened = Proactor::open(*config);
  if (!opened) {
    fmt::print("skipped: {}\n", opened.error().reason);
    return opened.error().code == errc::engine_unavailable ? skipped : 1;
  }
  Ledger ledger(**opened, options.seed);
  const std::uint32_t threads = options.config.threads.value_or(1);
  run_round(ledger, warm_up_operations, 0, threads);
  const std::size_t descriptors = count_descriptors();
  const std::uint64_t allocated = allocated_bytes();
  const Round round = run_round(ledger, options.operations, options.seconds, threads);
  expect_books_closed(ledger, descriptors);
  const Growth growth{static_cast<double>(allocated_bytes()) - static_cast<double>(allocated),
                      static_cast<double>(round.totals.completed)};
  if (!growth.flat()) {
    ledger.violation(fmt::format("memory grows by {:.3f} bytes for each operation",
                                 growth.bytes_per_operation()));
  }
  return report(options, ledger, round, growth);
}

}  // namespace
}  // namespace baton::soak

int main(int count, char** arguments) {
  CLI::App app{"Keeps a proactor busy with everything at once, and its books.", "baton_soak"};
  baton::soak::Options options;
  options.config.threads = 2;
  baton::tools::add_config_options(app, options.config);
  baton::tools::add_threads_option(app, options.config);
  app.add_option("--operations", options.operations, "Ends after about so many")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Ends after this time, if that is earlier; 0: never")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "Of sizes, delays and cancels")->capture_default_str();
  CLI11_PARSE(app, count, arguments);
  return baton::soak::soak(options);
}
