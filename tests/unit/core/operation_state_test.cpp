// The state machine of an operation: every state x every transition, forbidden ones included
// (P-20). A forbidden transition ends the program, so each of them has its own child process.
#include <gtest/gtest.h>

#include <string>

#include "core/access.hpp"

namespace baton {
namespace {

using Access = OperationAccess;
using State = OperationState;

// The call that enters START_ERROR leaves it at once, so no operation stays in it.
constexpr State states[] = {State::initialized,  State::started, State::deferred,
                            State::result_ready, State::posted,  State::completed};

struct Move {
  const char* name;
  void (*make)(Operation& operation);
  State from[3];  // allowed; the first is repeated where there are fewer
  State to;
};

const Move moves[] = {
    {"start",
     [](Operation& operation) { Access::activate(operation, State::started); },
     {State::initialized, State::completed, State::completed},
     State::started},
    {"start deferred",
     [](Operation& operation) { Access::activate(operation, State::deferred); },
     {State::initialized, State::completed, State::completed},
     State::deferred},
    {"post",
     [](Operation& operation) { Access::activate(operation, State::posted); },
     {State::initialized, State::completed, State::completed},
     State::posted},
    {"take the start back",
     [](Operation& operation) { Access::deactivate(operation); },
     {State::started, State::posted, State::posted},
     State::initialized},
    {"defer",
     [](Operation& operation) { Access::defer(operation); },
     {State::started, State::started, State::started},
     State::deferred},
    {"submit the deferred",
     [](Operation& operation) { Access::undefer(operation); },
     {State::deferred, State::deferred, State::deferred},
     State::started},
    {"publish the result",
     [](Operation& operation) { Access::publish(operation); },
     {State::started, State::deferred, State::deferred},
     State::result_ready},
    {"enter the handler",
     [](Operation& operation) { Access::complete(operation); },
     {State::result_ready, State::posted, State::posted},
     State::completed},
};

void bring_to(Operation& operation, State state) {
  switch (state) {
    case State::initialized:
    case State::start_error:
      break;
    case State::started:
    case State::deferred:
    case State::posted:
      Access::activate(operation, state);
      break;
    case State::result_ready:
      Access::activate(operation, State::started);
      Access::publish(operation);
      break;
    case State::completed:
      bring_to(operation, State::result_ready);
      Access::complete(operation);
      break;
  }
}

bool allowed(const Move& move, State state) {
  return state == move.from[0] || state == move.from[1] || state == move.from[2];
}

class EveryState : public testing::TestWithParam<State> {};

TEST_P(EveryState, allows_its_moves) {
  for (const Move& move : moves) {
    if (!allowed(move, GetParam())) continue;
    Operation operation;
    bring_to(operation, GetParam());
    ASSERT_EQ(operation.state(), GetParam());
    move.make(operation);
    EXPECT_EQ(operation.state(), move.to) << move.name;
    Access::abandon(operation);
  }
}

TEST_P(EveryState, forbids_all_others) {
  GTEST_FLAG_SET(death_test_style, "fast");
  for (const Move& move : moves) {
    if (allowed(move, GetParam())) continue;
    Operation operation;
    bring_to(operation, GetParam());
    EXPECT_DEATH(move.make(operation), "") << move.name;
    Access::abandon(operation);
  }
}

// Destroying an operation that the kernel may still write through ends the program.
TEST_P(EveryState, may_be_destroyed_only_at_rest) {
  GTEST_FLAG_SET(death_test_style, "fast");
  const State state = GetParam();
  const auto destroy = [state] {
    Operation operation;
    bring_to(operation, state);
  };
  if (state == State::initialized || state == State::completed) {
    destroy();
  } else {
    EXPECT_DEATH(destroy(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(operation, EveryState, testing::ValuesIn(states),
                         [](const auto& one) { return std::string{to_string(one.param)}; });

TEST(Activation, is_raised_by_every_start_and_post) {
  Operation operation;
  const std::uint32_t before = operation.activation();
  for (const State state : {State::started, State::deferred, State::posted}) {
    Access::activate(operation, state);
    Access::abandon(operation);
  }
  EXPECT_EQ(operation.activation(), before + 3);
}

TEST(Publish, ends_the_deadline_which_was_for_this_activation) {
  Operation operation;
  operation.set_deadline(Deadline::at_ns(1));
  Access::activate(operation, State::started);
  Access::publish(operation);
  EXPECT_TRUE(operation.deadline().is_never());
  Access::complete(operation);
}

}  // namespace
}  // namespace baton
