// A foreign loop: waits by the proactor's descriptor, looks without entering, and calls poll.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>

#include "baton/proactor.hpp"

namespace baton {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    for (const int end : ends) ::close(end);
  }
  std::array<int, 2> ends{};
};

class Glances : public ::testing::TestWithParam<const char*> {};

TEST_P(Glances, AForeignLoopSeesACompletion) {
  auto opened = Proactor::open(*Config::parse(GetParam(), {}));
  if (!opened) GTEST_SKIP() << opened.error().reason;
  Proactor& proactor = **opened;
  const Pipe pipe;
  auto handle = proactor.adopt(pipe.ends[0], HandleKind::pipe, Ownership::borrowed);
  ASSERT_TRUE(handle);
  char buffer = 0;
  Operation read;
  bool done = false;
  read.set_handler([&done](Operation&) { done = true; });
  read.prepare(OperationKind::read_stream, *handle);
  read.set_buffer(MutableBuffer{&buffer, 1});
  ASSERT_FALSE(proactor.start(read));
  EXPECT_NE(proactor.glance(), Glance::something);
  ASSERT_GE(proactor.descriptor(), 0);
  ASSERT_EQ(::write(pipe.ends[1], "x", 1), 1);
  // Readable descriptors are hints, so it may take more than one look.
  while (!done) {
    pollfd entry{proactor.descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
    proactor.poll();
  }
  EXPECT_EQ(buffer, 'x');
  EXPECT_NE(proactor.glance(), Glance::something);
  proactor.close_detached(**handle);
}

TEST_P(Glances, WhatARingHasCompletedIsSeenWithoutACall) {
  auto opened = Proactor::open(*Config::parse(GetParam(), {}));
  if (!opened) GTEST_SKIP() << opened.error().reason;
  Proactor& proactor = **opened;
  if (proactor.glance() == Glance::cannot_tell) {
    GTEST_SKIP() << "only the kernel knows what this engine has completed";
  }
  const Pipe pipe;
  ASSERT_EQ(::write(pipe.ends[1], "x", 1), 1);
  auto handle = proactor.adopt(pipe.ends[0], HandleKind::pipe, Ownership::borrowed);
  ASSERT_TRUE(handle);
  char buffer = 0;
  Operation read;
  bool done = false;
  read.set_handler([&done](Operation&) { done = true; });
  read.prepare(OperationKind::read_stream, *handle);
  read.set_buffer(MutableBuffer{&buffer, 1});
  ASSERT_FALSE(proactor.start(read));
  while (read.state() == OperationState::started && proactor.glance() != Glance::something) {
  }
  EXPECT_EQ(proactor.poll(), 1U);
  EXPECT_TRUE(done);
  EXPECT_EQ(proactor.glance(), Glance::nothing);
  proactor.close_detached(**handle);
}

INSTANTIATE_TEST_SUITE_P(Engines, Glances,
                         ::testing::Values("engine=io_uring", "engine=emulated,wait=epoll"),
                         [](const auto& each) {
                           return std::string{each.param}.find("uring") != std::string::npos
                                      ? "io_uring"
                                      : "emulated";
                         });

}  // namespace
}  // namespace baton
