// Baton's reactor in the arena of the fairness programs.
#include <fmt/format.h>

#include <memory>

#include "bench/arena.hpp"
#include "bench/fairness.hpp"
#include "output.hpp"

namespace baton::tools {
namespace {

class Reader final : public EventHandler {
 public:
  Reader(std::size_t chunk, fairness::Counter& counter) : chunk_(chunk), counter_(counter) {}
  Next on_input(NativeHandle fd) override {
    return fairness::read_chunk(fd, chunk_, counter_) ? Next::keep : Next::remove;
  }

 private:
  std::size_t chunk_;
  fairness::Counter& counter_;
};

std::string facts(const Reactor& reactor, const std::string& variant) {
  const ReactorStatistics seen = reactor.statistics();
  return fmt::format(
      "\"wait\": \"{}\", \"variant\": \"{}\", \"waits\": {}, \"suspended\": {}, "
      "\"resumed_late\": {}, \"resumed_now\": {}, \"resume_notices\": {}, \"interrupts\": {}, "
      "\"leads_taken\": {}, ",
      reactor.info().name, variant, seen.waits, seen.suspended, seen.resumed_late, seen.resumed_now,
      seen.resume_notices, seen.interrupts, seen.leads_taken);
}

}  // namespace

int run_fairness_alone(const FairnessOptions& options) {
  ReactorConfig config;
  config.wait = options.waits.front();
  tuning_of(options.variant, config.tuning);
  fairness::Arena arena(options.connections);
  std::vector<fairness::Counter> counters(options.connections);
  std::vector<std::unique_ptr<Reader>> readers;  // outlive the reactor
  auto reactor = Reactor::open(config);
  if (!reactor) {
    note("baton: {}\n", reactor.error().reason);
    return 1;
  }
  for (std::size_t i = 0; i < options.connections; ++i) {
    readers.push_back(std::make_unique<Reader>(options.chunk, counters[i]));
    const auto key = (*reactor)->add(arena.sockets[i], Interest::in, *readers[i]);
    if (key) continue;
    note("baton: socket {}: {}\n", i, key.error().message());
    return 1;
  }
  fairness::Options plain;
  plain.connections = options.connections;
  plain.threads = options.threads;
  plain.seconds = options.seconds;
  plain.chunk = options.chunk;
  std::string more;
  fairness::run(
      "baton", plain, arena, counters, [&](std::size_t) { static_cast<void>((*reactor)->run()); },
      [&] {
        (*reactor)->end();
        more = facts(**reactor, options.variant);
      },
      more);
  return 0;
}

}  // namespace baton::tools
