#include "posted.hpp"

#include <cerrno>
#include <new>

#include "bridge.hpp"

namespace baton::ace {

Posted::Posted(Bridge& bridge) noexcept : bridge_(bridge) {
  token_.set_completion(
      [](Operation& operation) { static_cast<Posted*>(operation.context())->got_token(); }, this);
}

int Posted::push(ACE_POSIX_Asynch_Result& result) noexcept {
  const std::lock_guard guard{mutex_};
  try {
    results_.push_back(&result);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  if (!token_out_) {
    if (const std::error_code error = bridge_.native().post(token_)) {
      results_.pop_back();
      return errno_of(error);
    }
    token_out_ = true;
  }
  count_.store(results_.size(), std::memory_order_relaxed);
  return 0;
}

void Posted::got_token() {
  ACE_POSIX_Asynch_Result* result = nullptr;
  {
    const std::lock_guard guard{mutex_};
    Bridge::Call* const call = Bridge::current();
    token_out_ = false;
    if (results_.empty() || bridge_.is_closed()) return;
    if (call != nullptr && !call->posted) {
      call->posted = true;
      result = results_.front();
      results_.pop_front();
      count_.store(results_.size(), std::memory_order_relaxed);
    }
    // A refusal means that the proactor stops; clear() has the rest.
    if (!results_.empty()) token_out_ = !bridge_.native().post(token_);
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
