#include "test_reactor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace baton::test {

using demux::Watch;

TestReactor::TestReactor(const demux::Options& options, std::uint32_t handlers_max)
    : slots_(handlers_max) {
  demux::Options own = options;
  own.descriptors_max = handlers_max;
  auto opened = demux::Demultiplexer::open(own);
  EXPECT_TRUE(opened.has_value()) << opened.error().reason;
  demux_ = std::move(*opened);
  for (std::uint32_t index = handlers_max; index-- > 0;) free_.push_back(index);
}

TestReactor::~TestReactor() {
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index].handler != nullptr) demux_->detach(index);
  }
}

Result<TestReactor::Registration> TestReactor::add(NativeHandle fd, Interest interest,
                                                   Handler handler) {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return unexpected{make_error_code(errc::no_free_handles)};
  const std::uint32_t index = free_.back();
  if (const std::error_code error = demux_->attach(index, fd)) return unexpected{error};
  std::error_code error;
  const Watch answer = demux_->watch(index, interest, error);
  if (answer == Watch::failed) {
    demux_->detach(index);
    return unexpected{error};
  }
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.interest = interest;
  slot.handler = std::make_shared<Handler>(std::move(handler));
  if (answer == Watch::try_now) {
    again_.push_back({{index, slot.serial}, interest});
    demux_->interrupt();  // the dispatching thread may be inside the wait
  }
  return Registration{index, slot.serial};
}

bool TestReactor::remove(Registration registration) {
  std::shared_ptr<Handler> last;  // destroyed without the lock: it may own anything
  const std::scoped_lock lock(mutex_);
  Slot& slot = slots_[registration.index];
  if (slot.serial != registration.serial || slot.handler == nullptr) return false;
  demux_->detach(registration.index);
  last = std::move(slot.handler);
  slot.handler = nullptr;
  ++slot.serial;
  free_.push_back(registration.index);
  return true;
}

std::size_t TestReactor::dispatch(Deadline deadline) {
  collect(deadline);
  std::size_t called = 0;
  for (const Report& report : std::exchange(batch_, {})) {
    Interest ready = report.ready;
    std::uint32_t serial = report.token.generation;
    // A handler earlier in this batch may have removed this one, or put another in its place.
    const std::shared_ptr<Handler> handler = take(report.token.index, ready, serial);
    if (handler == nullptr) continue;
    (*handler)(ready);
    ++called;
    watch_again(report.token.index, serial, ready);
  }
  return called;
}

// One round of reports, together with descriptors that are ready without one. Reports carry the
// Demultiplexer's generation; from here on the token carries the slot's serial instead.
void TestReactor::collect(Deadline deadline) {
  {
    const std::scoped_lock lock(mutex_);
    batch_ = std::exchange(again_, {});
  }
  if (!batch_.empty()) deadline = Deadline::immediately();
  std::array<Report, 16> reports;
  bool interrupted = false;
  const std::size_t count = demux_->wait(reports, deadline, interrupted);
  const std::scoped_lock lock(mutex_);
  for (Report report : std::span(reports).first(count)) {
    report.token.generation = slots_[report.token.index].serial;
    batch_.push_back(report);
  }
  batch_.insert(batch_.end(), again_.begin(), again_.end());
  again_.clear();
}

std::shared_ptr<TestReactor::Handler> TestReactor::take(std::uint32_t index, Interest& ready,
                                                        std::uint32_t& serial) {
  const std::scoped_lock lock(mutex_);
  const Slot& slot = slots_[index];
  if (slot.serial != serial) return nullptr;
  ready = ready & slot.interest;
  return any(ready) ? slot.handler : nullptr;
}

// Edge and one-shot strategies must be armed again; for a level one this reads one word.
void TestReactor::watch_again(std::uint32_t index, std::uint32_t serial, Interest ready) {
  const std::scoped_lock lock(mutex_);
  if (slots_[index].serial != serial || slots_[index].handler == nullptr) return;
  std::error_code error;
  const Watch answer = demux_->watch(index, ready, error);
  EXPECT_FALSE(error) << error.message();
  if (answer == Watch::try_now) again_.push_back({{index, serial}, ready});
}

}  // namespace baton::test
