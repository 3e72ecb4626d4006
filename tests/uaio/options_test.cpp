// The variable UAIO: a part that is not understood changes nothing.
#include "options.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

namespace uaio {
namespace {

TEST(Options, LeaveOutSignalsThatNoHandlerGets) {
  EXPECT_EQ(parse_options("signal=10").signal, 10);
  for (const int signal : {SIGKILL, SIGSTOP, 32, 33, 65}) {
    const std::string part = "signal=" + std::to_string(signal);
    const Options options = parse_options(part);
    EXPECT_EQ(options.signal, 0) << part;
    EXPECT_EQ(options.mistake, part);
  }
}

TEST(Options, LeaveOutADepthOutOfRange) {
  EXPECT_TRUE(parse_options("depth=4").depth_is_given);
  EXPECT_FALSE(parse_options("depth=0").depth_is_given);
  EXPECT_TRUE(parse_options("depth=4,depth=x").depth_is_given);
}

TEST(Options, LeaveOutAWaitThatNoEngineHas) {
  EXPECT_EQ(parse_options("wait=poll").wait, "poll");
  const Options options = parse_options("wait=never");
  EXPECT_EQ(options.wait, "");
  EXPECT_EQ(options.mistake, "wait=never");
}

}  // namespace
}  // namespace uaio
