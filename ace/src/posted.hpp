// Posted: the results that post_completion has queued, in order: timers, wake-ups, users' own.
//
// Each call of handle_events dispatches at most one of them, so that a wake-up reaches exactly one
// thread. While results wait, an operation, the token, is in Baton's queue. Each lane has a token
// of its own, because a lane may have no thread. A thread that gets a token takes one result, posts
// the token again for the next one, and runs its own result. A thread that gets a token twice in
// one call gives it back, for another thread or for its own next call.
//
// A thread in the loop of Baton's own proactor (native().run()) takes every result except the
// wake-ups, which are for threads in handle_events. If there is one, the thread posts its token
// again and lets that one take it. Otherwise it keeps its token, and the next call of handle_events
// posts it again.
#pragma once

#include <ace/POSIX_Proactor.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>

#include "baton/operation.hpp"

namespace baton::ace {

class Bridge;

class Posted {
 public:
  Posted(Bridge& bridge, std::uint32_t lanes, const ACE_Handler& wake_ups);
  ~Posted() { clear(); }
  Posted(const Posted&) = delete;
  Posted& operator=(const Posted&) = delete;

  /// 0 or an errno.
  int push(ACE_POSIX_Asynch_Result& result) noexcept;
  [[nodiscard]] bool empty() const noexcept {
    return count_.load() == 0;  // a hint; seq_cst: see got()
  }
  /// Posts the tokens that threads in Baton's own loop have kept.
  void resume() noexcept;
  /// Deletes the results that no thread has taken.
  void clear() noexcept;

 private:
  struct Token {
    Operation operation;
    Posted* posted = nullptr;
    std::uint32_t lane = 0;
    bool out = false;
  };

  void got(Token& token);
  void leave_to_caller(std::unique_lock<std::mutex>& lock) noexcept;
  ACE_POSIX_Asynch_Result* take(std::deque<ACE_POSIX_Asynch_Result*>::iterator place);
  ACE_POSIX_Asynch_Result* take_for_baton();
  std::error_code send(Token& token) noexcept;

  Bridge& bridge_;
  const ACE_Handler& wake_ups_;  // compared only; it may be gone
  const std::uint32_t lanes_;
  const std::unique_ptr<Token[]> tokens_;
  std::mutex mutex_;
  std::condition_variable changed_;  // a result has come or gone
  std::uint64_t changes_ = 0;
  std::deque<ACE_POSIX_Asynch_Result*> results_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace baton::ace
