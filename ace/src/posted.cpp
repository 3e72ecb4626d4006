#include "posted.hpp"

#include <cerrno>
#include <new>

#include "bridge.hpp"
#include "ending.hpp"

namespace baton::ace {

Posted::Posted(Bridge& bridge, std::uint32_t lanes)
    : bridge_(bridge), lanes_(lanes), tokens_(std::make_unique<Token[]>(lanes)) {
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
  return 0;
}

void Posted::got(Token& token) {
  bridge_.count_own();
  ACE_POSIX_Asynch_Result* result = nullptr;
  {
    const std::lock_guard guard{mutex_};
    token.out = false;
    if (results_.empty() || bridge_.is_closed()) return;
    Bridge::Call* const call = Bridge::current();
    if (call != nullptr && !call->posted) {
      call->posted = true;
      result = results_.front();
      results_.pop_front();
      count_.store(results_.size(), std::memory_order_relaxed);
    }
    // A refusal means that the proactor stops; clear() then deletes the remaining results.
    if (!results_.empty()) static_cast<void>(send(token));
  }
  if (result != nullptr) bridge_.dispatch_posted(*result);
}

void Posted::clear() noexcept {
  const std::lock_guard guard{mutex_};
  for (ACE_POSIX_Asynch_Result* const each : results_) delete each;
  results_.clear();
  count_.store(0, std::memory_order_relaxed);
}

}  // namespace baton::ace
