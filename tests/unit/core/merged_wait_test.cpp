// One thread that waits in several engines (model rows C1, C2): by descriptors, and in slices for
// engines without one.
#include "core/merged_wait.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace baton {
namespace {

using namespace std::chrono_literals;
const os::System& real = os::real_system();
bool never_asked() { return false; }

// Finishes one operation for each interrupt.
class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(bool with_descriptor) : with_descriptor_(with_descriptor) {}
  ~FakeEngine() override { ::close(event_); }
  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  Submission submit(Operation&, void*) noexcept override { return Submission::busy; }
  CancelAnswer cancel(Operation&) noexcept override { return CancelAnswer::too_late; }
  void wait(OperationQueue& completed, Deadline deadline) noexcept override {
    ++waits;
    pollfd one{event_, POLLIN, 0};
    const auto left =
        deadline.is_never() ? 60'000'000'000 : deadline.remaining(Deadline::after(0ns)).count();
    const timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
    if (real.ppoll(&one, 1, &timeout, nullptr) <= 0) return;
    std::uint64_t count = 0;
    EXPECT_EQ(::read(event_, &count, sizeof(count)), 8);
    completed.push_back(operation_);
  }
  // As a ring that has to be entered: operations that a poll restarted finish only after a flush.
  void flush() noexcept override {
    if (std::exchange(unflushed, false)) interrupt();
  }
  void interrupt() noexcept override { EXPECT_EQ(::eventfd_write(event_, 1), 0); }
  [[nodiscard]] NativeHandle descriptor() const noexcept override {
    return with_descriptor_ ? event_ : invalid_handle;
  }
  [[nodiscard]] Deadline due() noexcept override { return due_at; }
  int waits = 0;
  bool unflushed = false;
  Deadline due_at = Deadline::never();

 private:
  const bool with_descriptor_;
  const int event_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  EngineInfo info_;
  Operation operation_;
};

class MergedWait : public testing::Test {
 protected:
  FakeEngine& add(bool with_descriptor) {
    auto engine = std::make_unique<FakeEngine>(with_descriptor);
    FakeEngine& answer = *engine;
    const auto index = static_cast<std::uint16_t>(processors_.size());
    processors_.push_back(
        std::make_unique<Processor>(std::move(engine), ProcessorConfig{}, Mode::shared, index));
    list_.push_back(processors_.back().get());
    return answer;
  }
  void wait(Deadline until, const std::function<bool()>& asked = never_asked) {
    merged_wait(list_, std::span{batches_, list_.size()}, until, asked, real);
  }
  std::size_t brought(std::size_t i) {
    std::size_t count = 0;
    for (; !batches_[i].empty(); ++count) batches_[i].pop_front();
    return count;
  }
  std::vector<std::unique_ptr<Processor>> processors_;
  std::vector<Processor*> list_;
  OperationQueue batches_[limits::processors_max];
};

TEST_F(MergedWait, of_one_engine_is_its_own_wait) {
  FakeEngine& only = add(false);
  const Deadline until = Deadline::after(20ms);
  wait(until);
  EXPECT_GE(Deadline::after(0ns), until);
  EXPECT_EQ(only.waits, 1);
}

TEST_F(MergedWait, brings_what_any_of_them_finishes_and_does_not_spin) {
  FakeEngine& first = add(true);
  FakeEngine& second = add(true);
  std::thread later{[&] { second.interrupt(); }};
  while (batches_[1].empty()) wait(Deadline::never());
  later.join();
  EXPECT_EQ(brought(0), 0U);
  EXPECT_EQ(brought(1), 1U);
  EXPECT_LE(first.waits, 4);
  EXPECT_LE(second.waits, 4);
}

TEST_F(MergedWait, ends_at_the_deadline_and_not_before) {
  add(true);
  add(true);
  const Deadline until = Deadline::after(20ms);
  wait(until);
  EXPECT_GE(Deadline::after(0ns), until);
}

TEST_F(MergedWait, an_engine_without_a_descriptor_is_waited_for_in_slices) {
  FakeEngine& sliced = add(false);
  FakeEngine& other = add(true);
  const Deadline until = Deadline::after(20ms);
  while (Deadline::after(0ns) < until) wait(until);
  EXPECT_LE(sliced.waits, 40) << "slices of 2 ms";
  EXPECT_LE(other.waits, 40);
  std::thread later{[&] { other.interrupt(); }};
  while (batches_[1].empty()) wait(Deadline::never());
  later.join();
  EXPECT_EQ(brought(1), 1U);
}

// An operation that backs off was polled every 2 ms: an accept without descriptors cost a thread
// with two processors a thousand looks in two seconds.
TEST_F(MergedWait, sleeps_until_a_back_off_is_due) {
  FakeEngine& rests = add(true);
  FakeEngine& other = add(true);
  rests.due_at = Deadline::after(20ms);
  wait(Deadline::never());
  EXPECT_GE(Deadline::after(0ns), rests.due_at);
  EXPECT_EQ(rests.waits, 2);
  EXPECT_EQ(other.waits, 2);
}

// The second half of a short read was prepared by the look and never given to the kernel: one
// thread with two shared processors slept for ever.
TEST_F(MergedWait, gives_to_the_kernel_what_the_look_has_begun) {
  FakeEngine& first = add(true);
  FakeEngine& second = add(true);
  second.unflushed = true;
  wait(Deadline::after(10s));
  EXPECT_EQ(brought(1), 1U);
  EXPECT_FALSE(second.unflushed);
  EXPECT_EQ(first.waits, 2);
}

// The poll has consumed the interrupt: only its mark is left.
TEST_F(MergedWait, does_not_sleep_when_it_was_asked_not_to) {
  FakeEngine& first = add(true);
  add(true);
  wait(Deadline::never(), [] { return true; });
  EXPECT_EQ(first.waits, 1);
}

int poll_error = 0;

// A limit of descriptors, or no memory: a wait that fails each time at once would spin.
TEST_F(MergedWait, a_poll_that_is_refused_is_no_sleep) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.ppoll = [](pollfd*, nfds_t, const timespec*, const sigset_t*) {
      return errno = poll_error, -1;
    };
    return made;
  }();
  FakeEngine& first = add(true);
  FakeEngine& second = add(true);
  Engine* const engines[] = {&first, &second};
  for (const int error : {EINVAL, ENOMEM}) {
    poll_error = error;
    EXPECT_EQ(sleep_by_descriptors(engines, Deadline::never(), system), 0U) << error;
  }
  poll_error = EINTR;
  EXPECT_EQ(sleep_by_descriptors(engines, Deadline::never(), system), 2U);
}

}  // namespace
}  // namespace baton
