// Every scenario on every combination of parts, with each call and each allocation failing in turn.
// Checks after each run: no crash and no hang; each accepted start completed once; correct bytes; a
// failure only where the fault may be seen; everything works afterwards; no memory, descriptor,
// thread or mapping is left behind.
//
// BATON_FAULTS=full: each n of each call and error, until the scenario does not reach it any more.
// Otherwise a part of them, a different one for each scenario and combination, so that all together
// cover everything. BATON_FAULTS_SCENARIO: one scenario by name.
// See docs/internals/faults.md.
#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>

#include "../support/failing_system.hpp"
#include "allocations.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

using conformance::Combination;
using test::FailingCalls;
using test::Held;

/// Runs of one scenario on one combination, if not full.
constexpr std::size_t part_calls = 6;
constexpr std::size_t part_allocations = 4;
/// A longer shortage of memory. It ends: a thread that needs memory for its first wait tries again
/// until it gets some.
constexpr std::size_t allocations_long = 20;
constexpr std::size_t nth_max = 2'000;  // a scenario that never gets past its fault is a bug

struct Fault {
  enum class Of : unsigned char { none, call, allocation };
  Of of = Of::none;
  std::size_t call = 0;
  std::size_t nth = 0;
  int error = 0;
  std::size_t times = 1;

  [[nodiscard]] std::string text() const {
    if (of == Of::none) return "no fault";
    std::string what = "allocation";
    if (of == Of::call) what = test::failing_calls()[call].name;
    what += " " + std::to_string(nth);
    if (times > 1) what += " and " + std::to_string(times - 1) + " later";
    return of == Of::call ? what + ": " + test::name_of_fault(error) : what + " fails";
  }
  [[nodiscard]] std::string_view name() const {
    return of == Of::call ? test::failing_calls()[call].name : "";
  }
};

/// Whether an operation may end, or an object not be made, because of it. Faults that are not
/// listed here have to be invisible.
bool may_be_seen(const Fault& fault) {
  if (fault.of == Fault::Of::allocation) return true;
  if (fault.error < 0) return false;  // a shorter transfer, a wait that ends early
  const std::string_view call = fault.name();
  if (call == "ppoll" && fault.error == ENOMEM) return true;  // the look of wait_ready
  // An accept stays pending (contract.md, rule 11), waits are tried again.
  for (const char* const hidden :
       {"accept4", "ppoll", "pselect", "epoll_pwait", "io_uring_enter", "io_submit", "io_getevents",
        "io_cancel", "aio_suspend", "sigtimedwait", "kill_thread"}) {
    if (call == hidden) return false;
  }
  switch (fault.error) {
    case EINTR:
    case EOPNOTSUPP:
      return false;
    case EAGAIN:  // no thread; the others wait for readiness, or for room
      return call == "thread_start" || call.starts_with("aio_");
    default:
      return true;
  }
}

bool explains(const Fault& fault, std::error_code error) {
  if (fault.of == Fault::Of::allocation) {
    return error == std::errc::not_enough_memory || error == make_error_code(errc::no_free_handles);
  }
  // An operation for which no thread can be started ends with ENOMEM. EAGAIN of aio_write(3) says
  // so when it lasts while nothing is in flight (PosixAioEngine::lacks_threads).
  if (fault.error == EAGAIN) return error == std::errc::not_enough_memory;
  return error.value() == fault.error;
}

/// The target of the last fault.
struct Outcome {
  bool hit = false;
  std::array<std::size_t, 64> calls{};
  std::size_t allocations = 0;
};

class Faults : public testing::TestWithParam<Combination> {
 protected:
  void SetUp() override {
    World world(GetParam(), 1, {});
    const std::string reason = world.open_as_named();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  static int failures() {
    return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  }

  /// One run. It checks everything; a leak of memory needs a second run to confirm it, because
  /// caches of the process may have grown once.
  Outcome run(const Scenario& scenario, const Fault& fault) {
    Outcome outcome;
    const Held before = test::held_now();
    {
      World world(GetParam(), scenario.threads, scenario.change);
      const std::string reason = world.open();
      EXPECT_EQ(reason, "");
      if (!reason.empty()) return outcome;
      world.run();
      std::error_code failure;
      bool thrown = false;
      {
        FailingAllocations allocations(fault.of == Fault::Of::allocation ? fault.nth : 0,
                                       fault.times);
        FailingCalls calls(FailingCalls::Whose::everybody,
                           fault.of == Fault::Of::call ? fault.call : outcome.calls.size() - 1,
                           fault.nth, fault.error, fault.times);
        try {
          scenario.body(world);
        } catch (const std::bad_alloc&) {
          thrown = true;  // the unwound objects have ended their operations
        }
        world.end();
        allocations.end();
        calls.end();
        outcome.hit = calls.hit() || allocations.hit();
        for (std::size_t i = 0; i < outcome.calls.size(); ++i) outcome.calls[i] = calls.count(i);
        outcome.allocations = allocations.count();
        failure = world.first_failure();
      }
      if (failure) {
        EXPECT_TRUE(outcome.hit && may_be_seen(fault) && (thrown || explains(fault, failure)))
            << "failed with " << failure.message();
      }
      if (world.is_open()) {
        world.expect_works();
        world.expect_balanced();
      }
    }
    Held after = test::held_now();
    after.blocked_signals = before.blocked_signals;  // strategies by signal block theirs for good
    EXPECT_EQ(after, before) << "left behind";
    return outcome;
  }

  Outcome try_with(const Scenario& scenario, const Fault& fault) {
    const std::string what = GetParam().name() + ", " + scenario.name + ", " + fault.text();
    SCOPED_TRACE(what);
    now_trying(what);
    Outcome outcome;
    expect_no_leak([&] { outcome = run(scenario, fault); });
    return outcome;
  }

  /// Visits what `faults` lists: all of it, or the part that is this combination's.
  template <class Visit>
  void visit(const Scenario& scenario, const std::vector<Fault>& faults, std::size_t part,
             Visit&& attempt) {
    const std::size_t stride = full() ? 1 : std::max<std::size_t>(faults.size() / part, 1);
    const std::size_t first = hash(GetParam().name() + scenario.name) % stride;
    // A failing scenario would fail many times more; the others give new information.
    const int failed_before = failures();
    for (std::size_t i = first; i < faults.size() && failures() == failed_before; i += stride) {
      attempt(faults[i]);
    }
  }

  template <class Visit>
  static void each_scenario(Visit&& attempt) {
    static const char* const one = std::getenv("BATON_FAULTS_SCENARIO");
    for (const Scenario& scenario : scenarios()) {
      if (one == nullptr || std::string_view{one} == scenario.name) attempt(scenario);
    }
  }
};

TEST_P(Faults, each_call_fails_in_turn) {
  each_scenario([this](const Scenario& scenario) {
    const Outcome usual = try_with(scenario, {});
    std::vector<Fault> faults;
    for (std::size_t call = 0; call < test::failing_calls().size(); ++call) {
      for (const int error : test::failing_calls()[call].running) {
        for (std::size_t nth = 1; nth <= usual.calls[call]; ++nth) {
          for (const std::size_t times : {std::size_t{1}, std::size_t{5}}) {
            faults.push_back({Fault::Of::call, call, nth, error, times});
          }
        }
      }
    }
    visit(scenario, faults, part_calls, [&](Fault fault) {
      // A run may make more calls than the counted one, so this goes on until the run has no n-th
      // call.
      const bool last = fault.nth == usual.calls[fault.call];
      while (try_with(scenario, fault).hit && last && full() && ++fault.nth < nth_max) {
      }
    });
  });
}

TEST_P(Faults, each_allocation_fails_in_turn) {
  each_scenario([this](const Scenario& scenario) {
    const Outcome usual = try_with(scenario, {});
    std::vector<Fault> faults;
    for (std::size_t nth = 1; nth <= usual.allocations; ++nth) {
      for (const std::size_t times : {std::size_t{1}, allocations_long}) {
        faults.push_back({Fault::Of::allocation, 0, nth, 0, times});
      }
    }
    visit(scenario, faults, part_allocations, [&](Fault fault) {
      const bool last = fault.nth == usual.allocations;
      while (try_with(scenario, fault).hit && last && full() && ++fault.nth < nth_max) {
      }
    });
  });
}

// For scripts/faults --list, too.
TEST(Scenarios, have_names_of_their_own) {
  std::set<std::string_view> names;
  for (const Scenario& scenario : scenarios()) {
    std::printf("scenario %s\n", scenario.name);
    EXPECT_TRUE(names.insert(scenario.name).second) << scenario.name;
  }
  EXPECT_GE(names.size(), 30U);
}

INSTANTIATE_TEST_SUITE_P(every, Faults, testing::ValuesIn(conformance::combinations()),
                         conformance::combination_name);

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> list = [] {
    std::vector<Scenario> all;
    add_streams(all);
    add_connections(all);
    add_files(all);
    add_ends(all);
    add_others(all);
    return all;
  }();
  return list;
}

}  // namespace baton::faults
