// SleepWord: lets an owner sleep while others leave work for it and wake it only if it sleeps. The
// word is GONE, AWAKE, NOTED, SLEEPING or NOTIFIED. The owner stores SLEEPING and then checks for
// work. A sender leaves work and then reads the word. All four steps are sequentially consistent,
// so at least one of the two sees the other (Dekker). Only the sender that changes SLEEPING to
// NOTIFIED interrupts the owner. The interrupt is sticky: it may come before the owner really
// waits. NOTED is AWAKE after a sender.
//
// An owner that leaves for good stores GONE and then checks once more, in the same way. Senders
// never change GONE: each of them finds that there is no owner, and looks for one.
//
// The atomic is a template parameter, as in the mailbox: tests/model/relacy runs both together.
#pragma once

#include <atomic>
#include <cstdint>

namespace baton {

template <template <class> class Atomic = std::atomic>
class BasicSleepWord {
 public:
  /// What a sender must do after it has left work.
  enum class Needs : std::uint8_t { nothing, interrupt, owner };

  /// Owner: from now on senders interrupt. The owner then checks for work once more and waits only
  /// if there is none.
  void fall_asleep() noexcept { word_.store(sleeping, std::memory_order_seq_cst); }
  /// Owner: a sender has interrupted, or is about to.
  [[nodiscard]] bool is_notified() const noexcept {
    return word_.load(std::memory_order_seq_cst) == notified;
  }
  /// Owner, or a thread that becomes the owner. relaxed: a late store costs senders
  /// only a needless interrupt or search.
  void wake_up() noexcept { word_.store(awake, std::memory_order_relaxed); }
  /// Owner: between fall_asleep() and wake_up(). Only a signal handler sees that.
  [[nodiscard]] bool in_wait() const noexcept {
    return word_.load(std::memory_order_relaxed) >= sleeping;
  }
  /// Owner: it leaves, and then checks for work once more.
  void go() noexcept { word_.store(gone, std::memory_order_seq_cst); }
  /// Any thread. Only a hint.
  [[nodiscard]] bool sleeps() const noexcept {
    return word_.load(std::memory_order_relaxed) == sleeping;
  }

  /// Sender: call after leaving work.
  [[nodiscard]] Needs notify() noexcept {
    std::uint32_t seen = word_.load(std::memory_order_seq_cst);
    while (seen == awake || seen == sleeping) {
      const std::uint32_t next = seen == sleeping ? notified : noted;
      if (word_.compare_exchange_weak(seen, next, std::memory_order_seq_cst,
                                      std::memory_order_seq_cst)) {
        return seen == sleeping ? Needs::interrupt : Needs::nothing;
      }
    }
    return seen == gone ? Needs::owner : Needs::nothing;
  }

 private:
  enum : std::uint32_t { gone, awake, noted, sleeping, notified };
  Atomic<std::uint32_t> word_{gone};
};

using SleepWord = BasicSleepWord<>;

}  // namespace baton
