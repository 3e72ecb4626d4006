// Dekker's handshake, twice: two threads that make themselves known before they look at each other.
// All four steps are sequentially consistent, so that at least one of the two sees the other.
//
// Templates over what is atomic: tests/model/relacy runs them.
#pragma once

#include <atomic>

namespace baton {

/// A thread that works for a few instructions at a time, and others that stop it.
template <template <class> class Atomic = std::atomic>
class BasicTakingGate {
 public:
  // By the owner. After `enter`, whatever it says, `leave`.
  /// False: closed. The owner leaves everything alone.
  [[nodiscard]] bool enter() noexcept {
    taking_.store(true, std::memory_order_seq_cst);
    return !closed_.load(std::memory_order_seq_cst);
  }
  /// release: who has closed the gate sees what was done inside.
  void leave() noexcept { taking_.store(false, std::memory_order_release); }

  // By others, one at a time. After `close`, and once the gate is not `busy`, the owner is outside.
  void close() noexcept { closed_.store(true, std::memory_order_seq_cst); }
  [[nodiscard]] bool busy() const noexcept { return taking_.load(std::memory_order_seq_cst); }
  /// REQUIRES: the owner is told in another way that it may enter again.
  void open() noexcept { closed_.store(false, std::memory_order_relaxed); }

 private:
  Atomic<bool> taking_{false};
  Atomic<bool> closed_{false};
};

using TakingGate = BasicTakingGate<>;

/// Readers of something that has a name, and a thread that takes the name away and waits for them.
/// False: it does not have this name. Whatever it says, end_look follows.
template <class Name, class Count, class Value>
[[nodiscard]] bool begin_look(const Name& name, Count& readers, Value wanted) noexcept {
  readers.fetch_add(1, std::memory_order_seq_cst);
  return name.load(std::memory_order_seq_cst) == wanted;
}
/// release: who waits for the readers writes only after what they have read.
template <class Count>
void end_look(Count& readers) noexcept {
  readers.fetch_sub(1, std::memory_order_release);
}
/// From now on nobody begins; who has begun is seen by `is_looked_at`.
template <class Name>
void withdraw_name(Name& name) noexcept {
  name.store(0, std::memory_order_seq_cst);
}
template <class Count>
[[nodiscard]] bool is_looked_at(const Count& readers) noexcept {
  return readers.load(std::memory_order_seq_cst) != 0;
}

}  // namespace baton
