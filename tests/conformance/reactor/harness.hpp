// The conformance suite of the Reactor: the same tests on every wait strategy of the registry, as
// in reactor.calls_when_readable/poll.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "baton/reactor.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"

namespace baton::test {

std::vector<std::string> reactor_wait_names();

// Lower case: it is part of the tests' names.
class reactor : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Another one over the same strategy. Null, and the test has failed, if it cannot be opened.
  std::unique_ptr<Reactor> opened(ReactorConfig config = {});
  Reactor& loop() { return *reactor_; }
  void replace(ReactorConfig config) { reactor_ = opened(std::move(config)); }

  /// A handler, or several, that the reactor may have until its own end.
  template <class Handlers>
  Handlers& make() {
    auto made = std::make_shared<Handlers>();
    handlers_.push_back(made);
    return *made;
  }

  /// Runs it in this thread until `done`.
  void run_until(const std::function<bool()>& done);
  /// handle_events() without a call; false: not before a time that only a failure reaches.
  bool returns_at_once();
  /// Handles all ready events, without waiting.
  std::size_t run_what_is_there();
  void start_threads(int count);
  /// Ends the reactor and joins them.
  void join_threads();

 private:
  std::vector<std::shared_ptr<void>> handlers_;  // outlive the reactor
  std::unique_ptr<Reactor> reactor_;
  std::vector<std::thread> threads_;
};

/// Waits for another thread.
void wait_for(const std::function<bool()>& condition);

/// Reads the available bytes and counts them; tests override the rest.
struct Reader : EventHandler {
  std::atomic<int> calls{0};
  std::atomic<std::size_t> bytes{0};
  std::atomic<int> closed{0};
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  std::error_code why;
  Next next = Next::keep;
  std::function<void(NativeHandle)> also{};

  Next on_input(NativeHandle fd) override;
  void on_close(NativeHandle, std::error_code error) noexcept override {
    why = error;
    ++closed;
  }
};

}  // namespace baton::test

#define BATON_EVERY_REACTOR()                                                  \
  INSTANTIATE_TEST_SUITE_P(, reactor, testing::ValuesIn(reactor_wait_names()), \
                           [](const auto& parameter) { return parameter.param; })
