#include "posted.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>

#include "bridge.hpp"
#include "ending.hpp"
#include "results.hpp"

namespace baton::ace {

Posted::Posted(Bridge& bridge, std::uint32_t lanes, const ACE_Handler& wake_ups)
    : bridge_(bridge),
      wake_ups_(wake_ups),
      lanes_(lanes),
      tokens_(std::make_unique<Token[]>(lanes)) {
  for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
    Token& token = tokens_[lane];
    token.posted = this;
    token.lane = lane;
    token.operation.set_completion(
        [](Operation& operation) {
          auto& got = *static_cast<Token*>(operation.context());
          got.posted->got(got);
        },
        &token);
  }
}

/// REQUIRES: the mutex is held.
std::error_code Posted::send(Token& token) noexcept {
  if (token.out) return {};
  const std::error_code error =
      bridge_.native().post(token.operation, Notify::strong, Home{.lane = token.lane});
  token.out = !error;
  return error;
}

int Posted::push(ACE_POSIX_Asynch_Result& result) noexcept {
  expect_end(true);
  const std::lock_guard guard{mutex_};
  try {
    results_.push_back(&result);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
    if (const std::error_code error = send(tokens_[lane])) {
      results_.pop_back();
      return errno_of(error);
    }
  }
  count_.store(results_.size(), std::memory_order_relaxed);
  ++changes_;
  changed_.notify_all();
  return 0;
}

void Posted::got(Token& token) {
  bridge_.count_own();
  ACE_POSIX_Asynch_Result* result = nullptr;
  {
    std::unique_lock lock{mutex_};
    token.out = false;
    if (results_.empty() || bridge_.is_closed()) return;
    Bridge::Call* const call = Bridge::current();
    const bool of_ace = call != nullptr && call->bridge == &bridge_;
    if (!of_ace) {
      result = take_for_baton();
      // Only wake-ups are left. seq_cst, with the count of results before it: either this thread
      // sees the one that enters handle_events, or that thread sees results and calls resume().
      if (result == nullptr && !bridge_.has_callers()) return;
    } else if (!call->posted) {
      call->posted = true;
      result = take(results_.begin());
    }
    // A refusal means that the proactor stops; clear() then deletes the remaining results.
    if (!results_.empty()) static_cast<void>(send(token));
    if (!of_ace && result == nullptr) leave_to_caller(lock);
  }
  if (result != nullptr) bridge_.dispatch_posted(*result);
}

/// While this thread is in its handler, one that waits takes its place and gets the token. The wait
/// has a limit: the other may be in a handler, or, in per_thread mode, need the lane of this one.
void Posted::leave_to_caller(std::unique_lock<std::mutex>& lock) noexcept {
  const std::uint64_t before = changes_;
  changed_.wait_for(lock, std::chrono::milliseconds{1}, [&] { return changes_ != before; });
}

/// REQUIRES, here and below: the mutex is held.
ACE_POSIX_Asynch_Result* Posted::take(std::deque<ACE_POSIX_Asynch_Result*>::iterator place) {
  ACE_POSIX_Asynch_Result* const result = *place;
  results_.erase(place);
  count_.store(results_.size());
  ++changes_;
  changed_.notify_all();
  return result;
}

/// The first that is no wake-up, or null.
ACE_POSIX_Asynch_Result* Posted::take_for_baton() {
  const auto place = std::ranges::find_if(
      results_, [this](ACE_POSIX_Asynch_Result* each) { return handler_of(*each) != &wake_ups_; });
  if (place != results_.end()) return take(place);
  count_.store(results_.size());
  return nullptr;
}

void Posted::resume() noexcept {
  const std::lock_guard guard{mutex_};
  if (results_.empty()) return;
  for (std::uint32_t lane = 0; lane < lanes_; ++lane) static_cast<void>(send(tokens_[lane]));
}

void Posted::clear() noexcept {
  const std::lock_guard guard{mutex_};
  for (ACE_POSIX_Asynch_Result* const each : results_) delete each;
  results_.clear();
  count_.store(0, std::memory_order_relaxed);
}

}  // namespace baton::ace
