// EndedInHandler: whether a proactor or a reactor was ended inside one of its own handlers, usually
// by exit(). Then it is left as it is, and no thread returns from its turn.
#pragma once

#include <unistd.h>

#include <atomic>
#include <thread>

#include "baton/misuse.hpp"

namespace baton {

class EndedInHandler {
 public:
  void set() noexcept {
    by_ = std::this_thread::get_id();
    ended_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool is_set() const noexcept { return ended_.load(std::memory_order_acquire); }

  /// Called by a thread whose turn has ended. The thread whose handler called set() prints
  /// `sentence` and ends the program. REQUIRES: is_set().
  [[noreturn]] void refuse_to_go_on(const char* sentence) const noexcept {
    if (by_ == std::this_thread::get_id()) detail::misused(sentence);
    // Outside run() the thread could use objects that exit() has destroyed, or call exit() as well.
    for (;;) ::pause();
  }

 private:
  std::atomic<bool> ended_{false};
  std::thread::id by_;  // is set before ended_
};

}  // namespace baton
