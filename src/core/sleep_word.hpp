// SleepWord: an owner goes to sleep, others leave something for it and wake it if it sleeps. The
// word is GONE, AWAKE, SLEEPING or NOTIFIED. The owner publishes SLEEPING and then looks at what
// was left; a sender leaves something and then looks at the word. All four steps are sequentially
// consistent, so that at least one of the two sees the other (Dekker). Only the sender that changes
// SLEEPING to NOTIFIED has to interrupt, and the interrupt is sticky: it may come before the owner
// really waits.
//
// An owner that leaves for good publishes GONE and then looks once more, in the same way. A sender
// never changes GONE: each of them finds that there is no owner, and looks for one.
//
// A template over what is atomic, as the mailbox is: tests/model/relacy runs both together.
#pragma once

#include <atomic>
#include <cstdint>

namespace baton {

template <template <class> class Atomic = std::atomic>
class BasicSleepWord {
 public:
  /// What a sender has to do about what it has left.
  enum class Needs : std::uint8_t { nothing, interrupt, owner };

  /// Owner: from now on senders interrupt. The owner then looks once more at what was left, and
  /// waits only if there is nothing.
  void fall_asleep() noexcept { word_.store(sleeping, std::memory_order_seq_cst); }
  /// Owner: a sender has interrupted, or is about to.
  [[nodiscard]] bool is_notified() const noexcept {
    return word_.load(std::memory_order_seq_cst) == notified;
  }
  /// Owner, and a thread that becomes the owner. relaxed: it only spares senders an interrupt.
  void wake_up() noexcept { word_.store(awake, std::memory_order_relaxed); }
  /// Owner: it leaves, and looks once more at what was left.
  void go() noexcept { word_.store(gone, std::memory_order_seq_cst); }
  /// Any thread; a hint.
  [[nodiscard]] bool sleeps() const noexcept {
    return word_.load(std::memory_order_relaxed) == sleeping;
  }

  /// Sender, after it has left something.
  [[nodiscard]] Needs notify() noexcept {
    std::uint32_t seen = word_.load(std::memory_order_seq_cst);
    while (seen != gone && seen != notified) {
      if (word_.compare_exchange_weak(seen, notified, std::memory_order_seq_cst,
                                      std::memory_order_seq_cst)) {
        return seen == sleeping ? Needs::interrupt : Needs::nothing;
      }
    }
    return seen == gone ? Needs::owner : Needs::nothing;
  }

 private:
  enum : std::uint32_t { gone, awake, sleeping, notified };
  Atomic<std::uint32_t> word_{gone};
};

using SleepWord = BasicSleepWord<>;

}  // namespace baton
