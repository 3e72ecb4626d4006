// The smallest programs that show a bug, run in the simulated machine under many schedules.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "sim/world.hpp"

namespace baton::test {

inline void in_many_schedules(const sim::Faults& faults,
                              const std::function<void(sim::World&)>& scenario) {
  sim::World world;
  sim::Options options;
  options.faults = false;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const sim::Outcome outcome = world.run(seed, options, [&](sim::World& here) {
      here.kernel().begin(faults);
      scenario(here);
    });
    ASSERT_TRUE(outcome.ok()) << outcome.report();
  }
}

/// A thread of the simulated machine; joined at the end of its scope.
class Thread {
 public:
  Thread(sim::World& world, std::function<void()> work) : world_(world), work_(std::move(work)) {
    number_ =
        world.scheduler().start([](void* self) { static_cast<Thread*>(self)->work_(); }, this);
  }
  ~Thread() { world_.scheduler().join(number_); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

 private:
  sim::World& world_;
  std::function<void()> work_;
  std::uint32_t number_ = 0;
};

}  // namespace baton::test
