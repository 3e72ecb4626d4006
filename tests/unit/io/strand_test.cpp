// Strand: driven by hand, as the dispatcher does, and under a proactor with several threads.
#include "baton/strand.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "baton/deadline.hpp"
#include "baton/proactor.hpp"
#include "core/runner.hpp"
#include "support/child.hpp"
#include "support/modes.hpp"

namespace baton::test {
namespace {

class Runner final : public HandlerRunner {
 public:
  using HandlerRunner::HandlerRunner;
  using HandlerRunner::overtake_in_a_strand;
  void requeue(Lane&, Operation&) noexcept override {}
  void brought_back(Operation&) noexcept override {}
  void lane_is_quiet(Lane&) noexcept override {}
  void lane_needs_leader() noexcept override {}
  void returned_elsewhere(Handle&) noexcept override {}
};

class StrandByHand : public testing::Test {
 protected:
  StrandByHand() {
    for (Operation& each : operations_) OperationAccess::runner(each) = &runner_;
    for (Operation* const each : {&foreign_, &foreign_behind_}) {
      OperationAccess::runner(*each) = &other_runner_;
    }
  }

  Proactor proactor_;
  Ledger ledger_{proactor_.system(), 1, false};
  Runner runner_{ledger_};
  Runner other_runner_{ledger_};
  std::array<Operation, 4> operations_;
  Operation foreign_;
  Operation foreign_behind_;
};

TEST_F(StrandByHand, one_at_a_time_in_order_of_arrival) {
  Strand strand{proactor_};
  EXPECT_FALSE(strand.running_in_this_thread());
  ASSERT_TRUE(strand.enter(operations_[0]));
  EXPECT_TRUE(strand.running_in_this_thread());
  EXPECT_FALSE(strand.enter(operations_[1]));
  EXPECT_FALSE(strand.enter(operations_[2]));
  Operation* const next = strand.leave();
  ASSERT_EQ(next, &operations_[1]);
  EXPECT_FALSE(strand.running_in_this_thread());
  EXPECT_FALSE(strand.enter(operations_[3])) << "still taken, by the next";
  EXPECT_FALSE(strand.enter(operations_[0])) << "used again, behind the others";
  std::thread([&] {
    EXPECT_TRUE(strand.enter(*next));
    EXPECT_TRUE(strand.running_in_this_thread());
    for (Operation* const each : {&operations_[2], &operations_[3], &operations_[0]}) {
      EXPECT_EQ(strand.leave(), each);
      EXPECT_TRUE(strand.enter(*each));
    }
    EXPECT_EQ(strand.leave(), nullptr);
  }).join();
  EXPECT_TRUE(strand.enter(*next)) << "like any other again";
  EXPECT_EQ(strand.leave(), nullptr);
  EXPECT_FALSE(strand.running_in_this_thread());
}

TEST_F(StrandByHand, retires_when_the_last_one_leaves) {
  Strand::retire(nullptr);
  Strand::retire(std::make_unique<Strand>(proactor_));  // idle: at once
  auto strand = std::make_unique<Strand>(proactor_);
  Strand& inside = *strand;
  ASSERT_TRUE(inside.enter(operations_[0]));
  Strand::retire(std::move(strand));
  EXPECT_TRUE(inside.running_in_this_thread()) << "alive until its handler returns";
  EXPECT_EQ(inside.leave(), nullptr);  // the sanitizers check that it is destroyed once
}

TEST_F(StrandByHand, one_overtakes_another_proactors_that_has_not_come) {
  Strand strand{proactor_};
  ASSERT_TRUE(strand.enter(operations_[0]));
  EXPECT_FALSE(strand.enter(foreign_));
  EXPECT_FALSE(strand.enter(operations_[1]));
  EXPECT_FALSE(strand.enter(operations_[2]));
  EXPECT_EQ(strand.overtake(runner_), nullptr) << "a handler runs";
  ASSERT_EQ(strand.leave(), &foreign_);
  EXPECT_EQ(strand.overtake(other_runner_), nullptr) << "none waits behind another's";
  ASSERT_EQ(strand.overtake(runner_), &operations_[1]);
  EXPECT_EQ(strand.overtake(other_runner_), nullptr) << "one at a time";
  ASSERT_TRUE(strand.enter(operations_[1]));
  EXPECT_EQ(strand.leave(), nullptr) << "it is the other's turn, which knows";
  ASSERT_EQ(strand.overtake(runner_), &operations_[2]);
  EXPECT_FALSE(strand.enter(operations_[0]));
  EXPECT_FALSE(strand.enter(foreign_)) << "it comes too late, and is first again";
  ASSERT_TRUE(strand.enter(operations_[2]));
  ASSERT_EQ(strand.leave(), &foreign_);
  ASSERT_TRUE(strand.enter(foreign_));
  ASSERT_EQ(strand.leave(), &operations_[0]);
  ASSERT_TRUE(strand.enter(operations_[0]));
  EXPECT_EQ(strand.leave(), nullptr);
  // None waits any more: the runners would look for a strand in each that does.
  runner_.overtake_in_a_strand();
  other_runner_.overtake_in_a_strand();
}

// One place keeps the turn of the first. A second overtaken one would be lost.
TEST_F(StrandByHand, one_that_has_overtaken_is_not_overtaken) {
  Strand strand{proactor_};
  ASSERT_TRUE(strand.enter(operations_[0]));
  for (Operation* const each : {&foreign_, &operations_[1], &foreign_behind_}) {
    EXPECT_FALSE(strand.enter(*each));
  }
  ASSERT_EQ(strand.leave(), &foreign_);
  ASSERT_EQ(strand.overtake(runner_), &operations_[1]);
  EXPECT_EQ(strand.overtake(other_runner_), nullptr);
  ASSERT_TRUE(strand.enter(operations_[1]));
  EXPECT_EQ(strand.leave(), nullptr) << "the turn of the first, which comes by itself";
  ASSERT_TRUE(strand.enter(foreign_));
  ASSERT_EQ(strand.leave(), &foreign_behind_);
  ASSERT_TRUE(strand.enter(foreign_behind_));
  EXPECT_EQ(strand.leave(), nullptr);
}

// A handler runs in another thread, and one waits behind it.
TEST_F(StrandByHand, one_that_is_destroyed_with_a_queue_ends_the_program_with_the_advice) {
  const auto destroy = [this] {
    Strand strand{proactor_};
    std::thread([&] {
      EXPECT_TRUE(strand.enter(operations_[0]));
      EXPECT_FALSE(strand.enter(operations_[1]));
    }).join();
    ::alarm(60);  // else it would wait for the handler for ever
  };
  EXPECT_DEATH(destroy(), "a strand was .*FinishAtEnd");
}

// The thread in the handler does not exist in the child, and what waits belongs to the parent.
TEST_F(StrandByHand, one_of_the_parent_may_be_destroyed_in_a_child) {
  auto strand = std::make_unique<Strand>(proactor_);
  std::thread([&] { ASSERT_TRUE(strand->enter(operations_[0])); }).join();
  ASSERT_FALSE(strand->enter(operations_[1]));
  EXPECT_EQ(status_of_child([&] {
              strand.reset();
              return 0;
            }),
            0);
  ASSERT_EQ(strand->leave(), &operations_[1]);
  ASSERT_TRUE(strand->enter(operations_[1]));
  EXPECT_EQ(strand->leave(), nullptr);
}

// A thread of the parent is in enter(), with the mutex of the strand.
TEST_F(StrandByHand, one_of_the_parent_may_be_retired_in_a_child) {
  static std::atomic<bool> inside;
  static std::atomic<bool> forked;
  inside = forked = false;
  os::System system = os::real_system();
  system.lock_point = [] {
    inside = true;
    while (!forked) std::this_thread::yield();
  };
  Ledger ledger{system, 1, false};
  Runner runner{ledger};
  auto strand = std::make_unique<Strand>(proactor_);
  ASSERT_TRUE(strand->enter(operations_[0]));
  OperationAccess::runner(operations_[1]) = &runner;
  std::thread waits([&] { EXPECT_FALSE(strand->enter(operations_[1])); });
  while (!inside) std::this_thread::yield();
  const pid_t child = start_child([&] {
    Strand::retire(std::move(strand));
    return 0;
  });
  forked = true;
  waits.join();
  EXPECT_EQ(status_of(child), 0);
  ASSERT_EQ(strand->leave(), &operations_[1]);
  ASSERT_TRUE(strand->enter(operations_[1]));
  EXPECT_EQ(strand->leave(), nullptr);
}

// A handler has forked, and ends the strand in which it runs.
TEST_F(StrandByHand, one_of_the_parent_may_be_destroyed_in_its_handler_in_a_child) {
  auto strand = std::make_unique<Strand>(proactor_);
  ASSERT_TRUE(strand->enter(operations_[0]));
  EXPECT_EQ(status_of_child([&] {
              strand.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(strand->leave(), nullptr);
}

// One proactor looks whose turn it is, and later a thread of the other one takes that operation.
// Nothing orders the two, so that ThreadSanitizer sees what they share.
TEST(StrandOfTwo, is_overtaken_by_one_that_ends_before_the_other_comes) {
  Proactor going_on;
  Proactor ending;
  Strand strand{going_on};
  struct Shared {
    std::atomic<bool> inside{false};
    std::atomic<bool> over{false};
    std::atomic<int> ended{0};
  } shared;
  std::array<Operation, 3> operations;
  for (Operation& each : operations) {
    each.set_strand(&strand);
    each.set_handler([&shared](Operation&) { ++shared.ended; });
  }
  operations[0].set_handler([&shared](Operation&) {
    shared.inside = true;
    while (!shared.over) std::this_thread::yield();
  });
  ASSERT_FALSE(going_on.post(operations[0]));
  std::thread first([&] { going_on.run_one(); });
  while (!shared.inside) std::this_thread::yield();
  ASSERT_FALSE(going_on.post(operations[1]));
  ASSERT_FALSE(ending.post(operations[2]));
  EXPECT_EQ(going_on.poll(), 0U);  // both wait in the strand
  EXPECT_EQ(ending.poll(), 0U);
  std::atomic<bool> has_ended{false};
  std::thread second([&] {
    while (!has_ended.load(std::memory_order_relaxed)) std::this_thread::yield();
    going_on.run_one();
  });
  shared.over = true;
  first.join();
  ending.finish();
  EXPECT_EQ(shared.ended, 1);
  has_ended.store(true, std::memory_order_relaxed);
  second.join();
  EXPECT_EQ(shared.ended, 2);
}

class StrandUnderLoad : public WithProactor {};

// Whether it expires or is cancelled; started by a handler, which in per_thread mode is a way of
// its own.
TEST_P(StrandUnderLoad, a_timer_is_entered_in_its_strand) {
  struct Case {
    Strand strand;
    Operation timer;
    std::promise<bool> entered;
    explicit Case(Proactor& p) : strand(p) {}
  };
  Case expires{proactor()};
  Case cancelled{proactor()};
  for (Case* each : {&expires, &cancelled}) {
    each->timer.set_strand(&each->strand);
    each->timer.set_handler(
        [each](Operation&) { each->entered.set_value(each->strand.running_in_this_thread()); });
  }
  ASSERT_FALSE(proactor().post([&] {
    const auto soon = Deadline::after(std::chrono::milliseconds{1});
    EXPECT_FALSE(proactor().start_timer(expires.timer, soon));
    const auto late = Deadline::after(std::chrono::minutes{10});
    EXPECT_FALSE(proactor().start_timer(cancelled.timer, late));
    static_cast<void>(proactor().cancel(cancelled.timer));
  }));
  EXPECT_TRUE(expires.entered.get_future().get());
  EXPECT_TRUE(cancelled.entered.get_future().get());
  end();
}

// More in a row than the dispatcher runs at once, from several threads, with handlers that start
// again.
TEST_P(StrandUnderLoad, handlers_never_overlap_and_none_is_lost) {
  static constexpr int operations = 64, rounds = 300;
  struct Work {
    Strand strand;
    Proactor& proactor;
    std::atomic<int> inside{0};
    std::atomic<int> left{operations};
    std::promise<void> all;
    long plain = 0;  // guarded by the strand alone
    std::array<Operation, operations> posted;
    std::array<int, operations> rounds_left;
    explicit Work(Proactor& p) : strand(p), proactor(p) { rounds_left.fill(rounds); }

    void run(Operation& operation) {
      EXPECT_EQ(inside.fetch_add(1), 0);
      EXPECT_TRUE(strand.running_in_this_thread());
      ++plain;
      const auto index = static_cast<std::size_t>(&operation - posted.data());
      const bool again = --rounds_left[index] > 0;
      inside.fetch_sub(1);
      if (again) {
        EXPECT_FALSE(proactor.post(operation));
      } else if (left.fetch_sub(1) == 1) {
        all.set_value();
      }
    }
  };
  auto work = std::make_unique<Work>(proactor());
  for (Operation& operation : work->posted) {
    operation.prepare(OperationKind::user, nullptr);
    operation.set_strand(&work->strand);
    operation.set_handler([w = work.get()](Operation& self) { w->run(self); });
    ASSERT_FALSE(proactor().post(operation));
  }
  work->all.get_future().get();
  EXPECT_EQ(work->plain, long{operations} * rounds);
  end();  // the last handler may still be on its way out of the strand
}

BATON_EVERY_MODE(StrandUnderLoad);

}  // namespace
}  // namespace baton::test
