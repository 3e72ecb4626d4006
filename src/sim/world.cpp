// How a run begins and ends.
#include "sim/world.hpp"

#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "sim/last_words.hpp"

namespace baton::sim {
namespace {
thread_local World* here = nullptr;
}  // namespace

World* World::current() noexcept { return here; }

World::World() { make_anew(); }
World::~World() = default;

// The fibers stopped while they used objects of the scenario and of the kernel, so none of them can
// be destroyed. They are kept where a leak checker finds them.
void World::abandon() {
  struct Abandoned {
    std::unique_ptr<Scheduler> scheduler;
    std::unique_ptr<Kernel> kernel;
  };
  static auto* const all = new std::vector<Abandoned>;
  all->push_back({std::move(scheduler_), std::move(kernel_)});
  make_anew();
}

void World::make_anew() {
  scheduler_ = std::make_unique<Scheduler>(random, history_);
  kernel_ = std::make_unique<Kernel>(random, *scheduler_);
}

void World::enter(void* argument) {
  World& self = *static_cast<World*>(argument);
  self.guarded("the scenario", [&] { (*self.scenario_)(self); });
}

Outcome World::run(std::uint64_t seed, const Options& options,
                   const std::function<void(World&)>& scenario) {
  BATON_ASSERT(here == nullptr);
  random = Random{seed};
  history_.begin(seed, options.verbose);
  traits = {};
  undelivered = unflushed = without_descriptor = in_slow_calls = 0;
  Schedule schedule;
  schedule.points_per_switch = 1U << (1 + random.below(7));
  schedule.point_ns = 10U << random.below(5);
  schedule.starve = random.below(4) == 0 ? 1U << (4 + random.below(8)) : 0;
  Random pauses{~seed};  // the seeds without pauses keep their histories
  schedule.pause = options.faults && pauses.below(4) == 0 ? 1U << (4 + pauses.below(8)) : 0;
  schedule.spurious = random.below(4) == 0 ? 1U << (4 + random.below(8)) : 0;
  const Faults faults = options.faults ? Faults::draw(random) : Faults::none();
  scheduler_->on_idle(nullptr, nullptr);
  kernel_->begin(faults);
  scenario_ = &scenario;
  seed_ = seed;
  replay_ = options.replay;
  const LastWords words;
  here = this;
  scheduler_->run(schedule, options.points_max, enter, this);
  here = nullptr;
  Outcome outcome;
  outcome.seed = seed;
  outcome.hash = history_.hash();
  outcome.events = history_.count();
  outcome.violation = scheduler_->violation();
  if (!outcome.ok()) {
    outcome.last_events = history_.last();
    abandon();
  } else {
    kernel_->begin(Faults::none());  // what the scenario left open is closed
  }
  return outcome;
}

std::string Outcome::report() const {
  if (ok()) return {};
  return "seed " + std::to_string(seed) + ": " + violation + "\nlast events:\n" + last_events;
}

}  // namespace baton::sim
