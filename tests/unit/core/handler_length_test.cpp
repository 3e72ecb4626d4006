// How the dispatcher uses the measured lengths of handlers.
#include "core/handler_length.hpp"

#include <gtest/gtest.h>

namespace baton {
namespace {

HandlerLength after(int handlers, std::int64_t ns) {
  HandlerLength length;
  for (int i = 0; i < handlers; ++i) length.note(ns);
  return length;
}

TEST(HandlerLength, IsShortUntilSomethingElseIsKnown) {
  const HandlerLength length;
  EXPECT_TRUE(length.is_short());
  EXPECT_FALSE(length.lasts());
  EXPECT_FALSE(length.worth_a_thread(1'000'000));
}

TEST(HandlerLength, ShortHandlersAreNeverWorthAThread) {
  const HandlerLength length = after(1'000, 2'900);
  EXPECT_TRUE(length.is_short());
  EXPECT_FALSE(length.worth_a_thread(1'000'000));
}

TEST(HandlerLength, HasToBeLongerWhereTheLeaderWorksForAll) {
  HandlerLength length = after(1'000, 4'500);
  EXPECT_FALSE(length.is_short());
  EXPECT_TRUE(length.worth_a_thread(10));
  length.leader_works_for_all();
  EXPECT_TRUE(length.is_short());
  EXPECT_FALSE(length.worth_a_thread(10));
}

// Every other one does next to nothing: a mean that follows each would pass the limit all the time.
TEST(HandlerLength, IsSteadyWhereHandlersTakeTurns) {
  HandlerLength length;
  for (int i = 0; i < 100; ++i) length.note(i % 2 == 0 ? 200 : 8'800);
  for (int i = 0; i < 100; ++i) {
    length.note(i % 4 < 2 ? 200 : 8'800);
    EXPECT_FALSE(length.is_short()) << i;
  }
}

TEST(HandlerLength, ManyMakeUpForHowShortTheyAre) {
  const HandlerLength length = after(1'000, 10'000);
  EXPECT_FALSE(length.is_short());
  EXPECT_FALSE(length.lasts());
  EXPECT_FALSE(length.worth_a_thread(1));
  EXPECT_TRUE(length.worth_a_thread(4));
}

TEST(HandlerLength, ALongOneIsWorthAThread) {
  const HandlerLength length = after(1'000, 100'000);
  EXPECT_TRUE(length.lasts());
  EXPECT_TRUE(length.worth_a_thread(1));
  EXPECT_FALSE(length.worth_a_thread(0));
}

// Its thread lost its core for a second, which says nothing about the other handlers.
TEST(HandlerLength, OneOutlierIsNotBelieved) {
  HandlerLength length = after(1'000, 1'000);
  length.note(1'000'000'000);
  EXPECT_FALSE(length.lasts());
  EXPECT_FALSE(length.worth_a_thread(1));
}

TEST(HandlerLength, TheFirstOneIsNotBelieved) {
  const HandlerLength length = after(1, 1'000'000'000);
  EXPECT_FALSE(length.lasts());
}

TEST(HandlerLength, ForgetsInBothDirections) {
  HandlerLength length = after(1'000, 100'000);
  for (int i = 0; i < 400; ++i) length.note(500);
  EXPECT_TRUE(length.is_short());
  for (int i = 0; i < 64; ++i) length.note(100'000);
  EXPECT_TRUE(length.lasts());
}

// A clock that went back, as between two cores.
TEST(HandlerLength, NoTimeIsNegative) {
  HandlerLength length;
  length.note(-1'000'000'000);
  for (int i = 0; i < 8; ++i) length.note(100'000);
  EXPECT_TRUE(length.lasts());
}

}  // namespace
}  // namespace baton
