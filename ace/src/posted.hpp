// Posted: the results that are queued by post_completion, in order: timers, wake-ups, users' own.
//
// Each call of handle_events dispatches one of them at most, so that a wake-up reaches exactly one
// thread. A single operation, the token, stands in Baton's queue while results wait. The thread
// that gets it takes one result, passes the token on for the next, and runs its own. A thread that
// gets it twice in one call gives it back for another thread.
#pragma once

#include <ace/POSIX_Proactor.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "baton/operation.hpp"

namespace baton::ace {

class Bridge;

class Posted {
 public:
  explicit Posted(Bridge& bridge) noexcept;
  ~Posted() { clear(); }
  Posted(const Posted&) = delete;
  Posted& operator=(const Posted&) = delete;

  /// 0 or an errno.
  int push(ACE_POSIX_Asynch_Result& result) noexcept;
  [[nodiscard]] bool empty() const noexcept {
    return count_.load(std::memory_order_relaxed) == 0;  // a hint
  }
  /// Deletes those that nobody has taken.
  void clear() noexcept;

 private:
  void got_token();

  Bridge& bridge_;
  Operation token_;
  std::mutex mutex_;
  std::deque<ACE_POSIX_Asynch_Result*> results_;
  bool token_out_ = false;
  std::atomic<std::size_t> count_{0};
};

}  // namespace baton::ace
