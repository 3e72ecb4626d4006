#include "harness.hpp"

#include <sched.h>
#include <unistd.h>

#include "../selection.hpp"
#include "baton/registry.hpp"

namespace baton::test {

std::vector<std::string> reactor_wait_names() {
  std::vector<std::string> names;
  const conformance::Selection& chosen = conformance::selection();
  for (const auto& entry : registry().wait_strategies()) {
    if (!chosen.everything() && !conformance::Selection::has(chosen.wait_strategies, entry.name)) {
      continue;
    }
    names.push_back(entry.name);
  }
  return names;
}

void reactor::SetUp() {
  reactor_ = opened();
  ASSERT_NE(reactor_, nullptr);
}

void reactor::TearDown() { join_threads(); }

std::unique_ptr<Reactor> reactor::opened(ReactorConfig config) {
  config.wait = GetParam();
  auto made = Reactor::open(config);
  EXPECT_TRUE(made.has_value()) << made.error().reason;
  return made ? std::move(*made) : nullptr;
}

void reactor::run_until(const std::function<bool()>& done) {
  const Deadline limit = at_last();
  while (!done()) {
    const auto ran = reactor_->handle_events(limit);
    ASSERT_TRUE(ran.has_value()) << ran.error().message();
    if (Deadline::after(Duration{0}) > limit) {
      ADD_FAILURE() << "it did not happen";
      return;
    }
  }
}

bool reactor::returns_at_once() {
  const auto too_late = reactor_->schedule([](TimerKey, Deadline) { return Next::keep; },
                                           Deadline::after(patience() / 2));
  const bool without_a_call = reactor_->handle_events(at_last()).value_or(99) == 0;
  return reactor_->cancel(too_late.value()) && without_a_call;
}

std::size_t reactor::run_what_is_there() {
  std::size_t count = 0;
  while (const std::size_t ran = reactor_->handle_events(Deadline::immediately()).value_or(0)) {
    count += ran;
  }
  return count;
}

void reactor::start_threads(int count) {
  for (int i = 0; i < count; ++i) {
    threads_.emplace_back([this] { EXPECT_TRUE(reactor_->run().has_value()); });
  }
}

void reactor::join_threads() {
  if (threads_.empty()) return;
  reactor_->end();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  reactor_->restart();
}

void wait_for(const std::function<bool()>& condition) {
  const Deadline limit = at_last();
  while (!condition()) {
    ::sched_yield();
    if (Deadline::after(Duration{0}) > limit) {
      ADD_FAILURE() << "it did not happen";
      return;
    }
  }
}

Next Reader::on_input(NativeHandle fd) {
  if (inside.fetch_add(1) != 0) overlapped = true;
  char buffer[256];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got > 0) bytes += static_cast<std::size_t>(got);
  ++calls;
  if (also) also(fd);
  --inside;
  return next;
}

}  // namespace baton::test
