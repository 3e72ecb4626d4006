// Debug mode around engines that break their own rules: an engine of the test's own, which does
// what it is told. And what the copies may not change.
#include <errno.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "engines/debug/engine.hpp"
#include "tells.hpp"

namespace baton::engines {
namespace {

/// Keeps what it gets, and gives it back when it is told.
class TamedEngine final : public Engine {
 public:
  TamedEngine() { info_.name = "tamed"; }
  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  Submission submit(Operation& operation) noexcept override {
    inside = &operation;
    return answer;
  }
  CancelAnswer cancel(Operation& operation) noexcept override {
    if (!operation.cancel_asked()) return CancelAnswer::too_late;
    operation.finish(ECANCELED);
    return CancelAnswer::completed;
  }
  void wait(OperationQueue& completed, Deadline) noexcept override {
    if (inside != nullptr) completed.push_back(*inside);
  }
  void interrupt() noexcept override {}

  Operation* inside = nullptr;
  Submission answer = Submission::pending;

 private:
  EngineInfo info_;
};

struct Watched {
  Watched() {
    auto inner = std::make_unique<TamedEngine>();
    tamed = inner.get();
    engine = open_debug(std::move(inner), EngineOptions{});
    operation.prepare(OperationKind::read_stream, nullptr);
    operation.set_buffer(MutableBuffer{buffer});
  }
  void wait() {
    OperationQueue completed;
    engine->wait(completed, Deadline::immediately());
    while (!completed.empty()) completed.pop_front();
  }

  std::array<char, 16> buffer{};
  Operation operation;
  TamedEngine* tamed = nullptr;
  std::unique_ptr<Engine> engine;
};

TEST(DebugEngine, TheEngineInsideNeverSeesTheUsersMemory) {
  Watched watched;
  ASSERT_EQ(watched.engine->submit(watched.operation), Submission::pending);
  EXPECT_NE(watched.tamed->inside, &watched.operation);
  EXPECT_NE(watched.tamed->inside->buffer().data, watched.buffer.data());
  EXPECT_EQ(watched.tamed->inside->buffer().size, watched.buffer.size());
  std::memcpy(watched.tamed->inside->buffer().data, "abc", 3);
  watched.tamed->inside->set_bytes(3);
  watched.wait();
  EXPECT_EQ(std::string(watched.buffer.data(), 4), std::string("abc\0", 4));
  EXPECT_EQ(watched.operation.bytes(), 3U);
}

TEST(DebugEngine, ABusyEngineLeavesTheOperationAsItWas) {
  Watched watched;
  watched.buffer.fill('k');
  watched.tamed->answer = Submission::busy;
  EXPECT_EQ(watched.engine->submit(watched.operation), Submission::busy);
  EXPECT_EQ(std::string(watched.buffer.data(), 16), std::string(16, 'k'));
  std::array<std::byte, limits::engine_state_size> zeros{};
  EXPECT_EQ(std::memcmp(&watched.operation.engine_state<decltype(zeros)>(), &zeros, sizeof(zeros)),
            0);
}

TEST(DebugEngine, ACancelThatCameBeforeTheSubmitIsSeen) {
  Watched watched;
  EXPECT_EQ(watched.engine->cancel(watched.operation), CancelAnswer::too_late);
  ASSERT_EQ(watched.engine->submit(watched.operation), Submission::pending);
  EXPECT_EQ(watched.engine->cancel(watched.operation), CancelAnswer::completed);
  EXPECT_EQ(watched.operation.error_value(), ECANCELED);
  watched.tamed->inside = nullptr;
}

TEST(DebugEngine, WhatComesOutTwiceIsAnEnginesBug) {
  Watched watched;
  static_cast<void>(watched.engine->submit(watched.operation));
  watched.wait();
  EXPECT_DEATH(watched.wait(), test::Tells({"gave an operation back that it does not have",
                                            "given to engine tamed", "a bug of the engine"}));
}

TEST(DebugEngine, ALateWriteIntoABufferIsAnEnginesBug) {
  EXPECT_DEATH(
      {
        Watched watched;
        static_cast<void>(watched.engine->submit(watched.operation));
        auto* late = static_cast<volatile char*>(watched.tamed->inside->buffer().data);
        watched.wait();
        watched.tamed->inside = nullptr;
        late[3] = 'x';
        watched.engine.reset();
      },
      // AddressSanitizer sees it when it happens, the quarantine when it ends.
      test::Tells(
          {"wrote into a buffer after the operation was given back", "a bug of the engine"}));
}

TEST(DebugEngine, AChangeOfAnOperationAfterwardsIsAnEnginesBug) {
  EXPECT_DEATH(
      {
        Watched watched;
        static_cast<void>(watched.engine->submit(watched.operation));
        watched.wait();
        std::exchange(watched.tamed->inside, nullptr)->set_bytes(9);
        watched.engine.reset();
      },
      test::Tells({"changed an operation after it had given it back"}));
}

TEST(DebugEngine, AWriteBeyondTheBufferIsAnEnginesBug) {
  EXPECT_DEATH(
      {
        Watched watched;
        static_cast<void>(watched.engine->submit(watched.operation));
        static_cast<volatile char*>(watched.tamed->inside->buffer().data)[16] = 'x';
        watched.wait();
      },
      "wrote outside the buffer it was given");
}

TEST(DebugEngine, ASecondSubmitOfWhatIsInsideIsAMistake) {
  Watched watched;
  static_cast<void>(watched.engine->submit(watched.operation));
  EXPECT_DEATH(static_cast<void>(watched.engine->submit(watched.operation)),
               "started again while it was inside the engine");
  watched.wait();
}

}  // namespace
}  // namespace baton::engines
