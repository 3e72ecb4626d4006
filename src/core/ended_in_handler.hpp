// EndedInHandler: whether a proactor or a reactor was ended inside one of its own handlers, usually
// by exit(). It is left as it is then, and no thread comes out of its turn.
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

  /// A thread comes out of a turn. `sentence` is for the thread whose handler did that. REQUIRES:
  /// is_set().
  [[noreturn]] void refuse_to_go_on(const char* sentence) const noexcept {
    if (by_ == std::this_thread::get_id()) detail::misused(sentence);
    // Outside run() the thread could use objects that exit() has destroyed, or call exit() as well.
    for (;;) ::pause();
  }

 private:
  std::atomic<bool> ended_{false};
  std::thread::id by_;  // is set before
};

}  // namespace baton
