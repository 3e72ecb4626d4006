// The combinations, and the fixture.
#include "harness.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

#include "../../support/real_engines.hpp"
#include "../../support/team.hpp"
#include "../selection.hpp"
#include "baton/registry.hpp"

namespace baton::conformance {
namespace {

using namespace std::chrono_literals;

std::string matrix() {
  if (selection().pairwise) return "pairwise";
  const char* chosen = std::getenv("BATON_TEST_MATRIX");
  return chosen != nullptr ? chosen : "full";
}

std::vector<Combination> all() {
  std::vector<Combination> list;
  for (const auto& engine : test::real_engines()) {
    const bool files_only =
        engine.files_only || Selection::has(selection().files_only, engine.name);
    for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
      if (engine.name == "posix_aio") {
        for (const char* const notify : {"suspend", "sigwait", "callback"}) {
          list.push_back({engine.name, "-", "-", mode, "auto", true, notify});
        }
        continue;
      }
      if (!engine.waits_by_strategy) {
        const bool ring = engine.name == "io_uring";
        const bool sockets_only = Selection::has(selection().sockets_only, engine.name);
        list.push_back(
            {engine.name, "-", "-", mode, ring ? "any" : "auto", files_only, "-", sockets_only});
        if (ring) list.push_back({engine.name, "-", "ring", mode, "any"});
        if (ring && mode == Mode::per_thread) {
          list.push_back({engine.name, "-", "-", mode, "pinned"});
          list.push_back({engine.name, "-", "ring", mode, "pinned"});
        }
        continue;
      }
      for (const auto& wait : registry().wait_strategies()) {
        // Refused, as rt_signals_mode.shared_is_refused_with_advice has it.
        if (wait.name == "rt_signals" && mode == Mode::shared) continue;
        for (const auto& interrupt : registry().interrupt_strategies()) {
          list.push_back({engine.name, wait.name, interrupt.name, mode, "auto"});
        }
      }
    }
  }
  return list;
}

// The lines about the parts under test.
std::vector<Combination> selected(std::vector<Combination> list) {
  const Selection& chosen = selection();
  if (chosen.everything()) return list;
  std::erase_if(list, [&](const Combination& one) {
    return !Selection::has(chosen.engines, one.engine) && !chosen.either(one.wait, one.interrupt);
  });
  return list;
}

// What a combination is visited for. Each such part has to be in some combination.
std::vector<std::string> parts_of(const Combination& one, bool in_pairs) {
  const std::string mode = to_string(one.mode);
  std::vector<std::string> parts{one.engine + "/" + one.profile + "/" + mode,
                                 one.engine + "/" + one.notify};
  if (one.wait == "-") {
    parts.push_back(one.engine + "/" + one.interrupt);
  } else if (in_pairs) {
    parts.push_back(one.wait + "/" + one.interrupt);
    parts.push_back(one.wait + "/" + mode);
  } else {
    parts.push_back(one.wait == "epoll" ? one.wait + "/" + mode : one.wait);
    parts.push_back(one.interrupt);
  }
  return parts;
}

// Few combinations that contain every part: the next one is always the one with most new parts.
std::vector<Combination> reduced(const std::vector<Combination>& list, bool in_pairs) {
  std::vector<Combination> kept;
  std::set<std::string> seen;
  for (;;) {
    const Combination* best = nullptr;
    std::ptrdiff_t most = 0;
    for (const Combination& one : list) {
      const auto parts = parts_of(one, in_pairs);
      const auto fresh = std::count_if(parts.begin(), parts.end(),
                                       [&](const auto& part) { return !seen.contains(part); });
      if (fresh <= most) continue;
      most = fresh;
      best = &one;
    }
    if (best == nullptr) return kept;
    for (const std::string& part : parts_of(*best, in_pairs)) seen.insert(part);
    kept.push_back(*best);
  }
}

// Why a combination cannot be opened here; empty if it can. Asked once for each.
const std::string& unavailable(const Combination& combination) {
  static std::map<std::string, std::string> reasons;
  const auto [found, is_new] = reasons.try_emplace(combination.name());
  if (is_new) {
    auto proactor = Proactor::open(combination.config());
    if (!proactor) {
      found->second = proactor.error().reason;
    } else {
      const std::string text = (*proactor)->explain();
      // A replacement would test another combination under this one's name.
      for (const auto& [what, choice] : {std::pair{" engine=", combination.engine},
                                         {" wait=", combination.wait},
                                         {" interrupt=", combination.interrupt}}) {
        if (choice != "-" && text.find(what + choice + " ") == std::string::npos) {
          found->second = text;
        }
      }
    }
  }
  return found->second;
}

}  // namespace

std::string Combination::name() const {
  std::string text = engine;
  if (wait != "-") text += "_" + wait;
  if (interrupt != "-") text += "_" + interrupt;
  if (profile != "auto") text += "_" + profile;
  if (team()) text += "_team";
  if (notify != "-") text += "_" + notify;
  return text + "_" + to_string(mode);
}

Config Combination::config() const {
  Config config;
  ProcessorConfig processor;
  processor.engine = engine;
  if (wait != "-") processor.wait = wait;
  if (interrupt != "-") processor.interrupt = interrupt;
  processor.mode = mode;
  processor.profile = profile;
  processor.threads = 1;
  processor.debug = std::getenv("BATON_TEST_DEBUG") != nullptr;
  if (with_troubles()) {
    // Troubles that no test of the contract may detect: delays, and another order.
    processor.inner = std::exchange(processor.engine, "chaos");
    processor.chaos_short = 0;
    processor.chaos_error = 0;
  }
  config.processors.push_back(processor);
  if (notify != "-") config.processors.front().notify = notify;
  if (files_only) test::make_team(config);
  if (sockets_only) test::make_team_for_files(config);
  return config;
}

bool with_troubles() { return std::getenv("BATON_TEST_CHAOS") != nullptr; }

// Once for all suites: under the sanitizers it would take most of a test's time.
const std::vector<Combination>& combinations() {
  static const std::vector<Combination> list = [] {
    std::vector<Combination> every = selected(all());
    const bool in_pairs = matrix() == "pairwise";
    return in_pairs || matrix() == "single" ? reduced(every, in_pairs) : every;
  }();
  return list;
}

std::vector<Combination> of_sockets() {
  std::vector<Combination> list = combinations();
  // A program's own engine is judged by all suites.
  if (selection().everything()) std::erase_if(list, [](const auto& one) { return one.files_only; });
  return list;
}

Runners::Runners(Proactor& proactor, unsigned count) : proactor_(proactor) {
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { proactor_.run(); });
}

Runners::~Runners() { stop(); }

void Runners::stop() {
  proactor_.stop();
  join();
}

void Runners::join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

SocketPair::SocketPair() {
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) != 0) std::abort();
}

SocketPair::~SocketPair() {
  for (const int one : fd) {
    if (one >= 0) ::close(one);
  }
}

void Conformance::SetUp() {
  const std::string& reason = unavailable(GetParam());
  if (!reason.empty()) GTEST_SKIP() << GetParam().name() << " is not available: " << reason;
}

std::unique_ptr<Proactor> Conformance::open(unsigned threads,
                                            const std::function<void(Config&)>& change) {
  Config config = GetParam().config();
  for (ProcessorConfig& processor : config.processors) processor.threads = threads;
  if (change) change(config);
  auto proactor = Proactor::open(std::move(config));
  if (!proactor) {
    ADD_FAILURE() << proactor.error().reason;
    return nullptr;
  }
  return std::move(*proactor);
}

void Conformance::run_until(Proactor& proactor, const std::function<bool()>& done) {
  const Deadline end = test::at_last();
  bool is_done = false;  // a second call might answer something else
  while (!(is_done = done()) && proactor.now() < end) {
    proactor.handle_events(Deadline::after(100ms, proactor.now()));
  }
  ASSERT_TRUE(is_done) << "nothing came\n" << proactor.statistics().to_string();
}

void Conformance::wait_until(const std::function<bool()>& done) {
  const Deadline end = test::at_last();
  bool is_done = false;
  while (!(is_done = done()) && Deadline::after(0ns) < end) std::this_thread::yield();
  ASSERT_TRUE(is_done) << "nothing came";
}

}  // namespace baton::conformance
