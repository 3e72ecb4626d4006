// A foreign loop: waits on the proactor's descriptor, asks glance(), and calls poll.
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

/// A read of one byte.
struct OneByte {
  explicit OneByte(Handle& handle) {
    operation.set_handler([this](Operation&) { done = true; });
    operation.prepare(OperationKind::read_stream, &handle);
    operation.set_buffer(MutableBuffer{&buffer, 1});
  }
  char buffer = 0;
  Operation operation;
  bool done = false;
};

class Glances : public ::testing::TestWithParam<const char*> {};

TEST_P(Glances, AForeignLoopSeesACompletion) {
  auto opened = Proactor::open(*Config::parse(GetParam(), {}));
  if (!opened) GTEST_SKIP() << opened.error().reason;
  Proactor& proactor = **opened;
  const Pipe pipe;
  auto handle = proactor.adopt(pipe.ends[0], HandleKind::pipe, Ownership::borrowed);
  ASSERT_TRUE(handle);
  OneByte read{**handle};
  ASSERT_FALSE(proactor.start(read.operation));
  EXPECT_NE(proactor.glance(), Glance::something);
  ASSERT_GE(proactor.descriptor(), 0);
  ASSERT_EQ(::write(pipe.ends[1], "x", 1), 1);
  // Readable descriptors are hints, so it may take more than one look.
  while (!read.done) {
    pollfd entry{proactor.descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
    proactor.poll();
  }
  EXPECT_EQ(read.buffer, 'x');
  EXPECT_NE(proactor.glance(), Glance::something);
  proactor.close_detached(**handle);
}

TEST_P(Glances, CompletionsOfARingAreSeenWithoutACall) {
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
  OneByte read{**handle};
  ASSERT_FALSE(proactor.start(read.operation));
  while (read.operation.state() == OperationState::started &&
         proactor.glance() != Glance::something) {
  }
  EXPECT_EQ(proactor.poll(), 1U);
  EXPECT_TRUE(read.done);
  EXPECT_EQ(proactor.glance(), Glance::nothing);
  proactor.close_detached(**handle);
}

// The processor's own thread takes what the descriptor shows: the loop would sleep through it.
TEST_P(Glances, NothingIsShownInModeDedicated) {
  auto config = *Config::parse(GetParam(), {});
  config.processors.front().mode = Mode::dedicated;
  const auto proactor = Proactor::open(config);
  if (!proactor) GTEST_SKIP() << proactor.error().reason;
  EXPECT_EQ((*proactor)->descriptor(), invalid_handle);
  EXPECT_EQ((*proactor)->glance(), Glance::cannot_tell);
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
