// SleepWord: an owner goes to sleep, others leave something for it and wake it if it sleeps. The
// word is AWAKE, SLEEPING or NOTIFIED. The owner publishes SLEEPING and then looks at what was
// left; a sender leaves something and then looks at the word. All four steps are sequentially
// consistent, so that at least one of the two sees the other (Dekker). Only the sender that changes
// SLEEPING to NOTIFIED has to interrupt, and the interrupt is sticky: it may come before the owner
// really waits.
//
// A template over what is atomic, as the mailbox is: tests/model/relacy runs both together.
#pragma once

#include <atomic>
#include <cstdint>

namespace baton {

template <template <class> class Atomic = std::atomic>
class BasicSleepWord {
 public:
  /// Owner: from now on senders interrupt. It looks once more at what was left, and only if there
  /// is nothing does it wait.
  void fall_asleep() noexcept { word_.store(sleeping, std::memory_order_seq_cst); }
  /// Owner: somebody has interrupted, or is about to.
  [[nodiscard]] bool is_notified() const noexcept {
    return word_.load(std::memory_order_seq_cst) == notified;
  }
  /// Owner: relaxed, for it only spares senders an interrupt.
  void wake_up() noexcept { word_.store(awake, std::memory_order_relaxed); }

  /// Sender, after it has left something; true: the owner sleeps, and the caller interrupts it.
  [[nodiscard]] bool notify() noexcept {
    return word_.exchange(notified, std::memory_order_seq_cst) == sleeping;
  }

 private:
  enum : std::uint32_t { awake, sleeping, notified };
  Atomic<std::uint32_t> word_{awake};
};

using SleepWord = BasicSleepWord<>;

}  // namespace baton
