// A fixture with a proactor that runs in the background: every engine of the registry in every
// mode, with one thread and with four. It is for layers above the proactor, which has its own
// conformance suite.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "baton/config.hpp"
#include "baton/coro/task.hpp"
#include "baton/proactor.hpp"
#include "real_engines.hpp"
#include "team.hpp"

namespace baton::test {

struct ModeCase {
  std::string engine;
  Mode mode = Mode::shared;
  unsigned threads = 1;
  bool files_only = false;  ///< the engine is one of a team

  [[nodiscard]] std::string name() const {
    return engine + "_" + to_string(mode) + "_" + std::to_string(threads);
  }
  [[nodiscard]] Config config() const {
    Config config;
    ProcessorConfig processor;
    processor.engine = engine;
    processor.mode = mode;
    processor.threads = threads;
    config.processors.push_back(processor);
    if (files_only) make_team(config);
    return config;
  }
};

inline std::vector<ModeCase> mode_cases() {
  std::vector<ModeCase> cases;
  for (const auto& engine : real_engines()) {
    for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
      for (const unsigned threads : {1U, 4U}) {
        // A team serves sockets as its other member alone does, so one test for each mode is
        // enough.
        if (engine.files_only && threads == 1) continue;
        cases.push_back({engine.name, mode, threads, engine.files_only});
      }
    }
  }
  return cases;
}

class WithProactor : public testing::TestWithParam<ModeCase> {
 protected:
  void SetUp() override {
    auto opened = Proactor::open(GetParam().config());
    if (!opened) GTEST_SKIP() << opened.error().reason;
    // A replacement would test another engine under this one's name.
    const std::string text = (*opened)->explain();
    if (text.find("engine=" + GetParam().engine) == std::string::npos) GTEST_SKIP() << text;
    proactor_ = std::move(*opened);
    for (unsigned i = 0; i < GetParam().threads; ++i) {
      threads_.emplace_back([this] { proactor_->run(); });
    }
  }
  void TearDown() override { end(); }

  /// Stops, joins, and destroys the proactor; pending operations complete as cancelled.
  void end() {
    if (proactor_ == nullptr) return;
    proactor_->stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    proactor_.reset();
  }

  Proactor& proactor() { return *proactor_; }

  /// Spawns the task and waits for it: its value, or its exception.
  template <class T>
  T complete(Task<T> task) {
    std::promise<T> promise;
    std::future<T> future = promise.get_future();
    proactor_->spawn(report(std::move(task), std::move(promise)));
    return future.get();
  }

 private:
  template <class T>
  static Task<void> report(Task<T> task, std::promise<T> promise) {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(task);
        promise.set_value();
      } else {
        promise.set_value(co_await std::move(task));
      }
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }

  std::unique_ptr<Proactor> proactor_;
  std::vector<std::thread> threads_;
};

}  // namespace baton::test

#define BATON_EVERY_MODE(Suite)                                                        \
  INSTANTIATE_TEST_SUITE_P(modes, Suite, testing::ValuesIn(baton::test::mode_cases()), \
                           [](const auto& parameter) { return parameter.param.name(); })
