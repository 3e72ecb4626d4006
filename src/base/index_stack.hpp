// IndexStack: free places, by their indices, taken and given without a lock by any thread, also by
// one in a signal handler. A Treiber stack. Its head carries a counter that every change raises, so
// that a thread whose look at the head is old fails to exchange it even if the same index is on top
// again (the ABA problem). The links belong to the user: `link_of(index)` is an atomic 32-bit word.
//
// A template over what is atomic: tests/model/relacy runs it.
#pragma once

#include <atomic>
#include <cstdint>

namespace baton {

template <template <class> class Atomic = std::atomic>
class BasicIndexStack {
 public:
  /// Instead of an index: there is none. No place may have this one.
  static constexpr std::uint32_t nothing = 0xffff'ffff;

  /// Begins with this index on top. REQUIRES: no other thread.
  void reset(std::uint32_t top) noexcept {
    head_.store(head_of(0, top), std::memory_order_relaxed);
  }

  /// The index on top, which is the caller's now; or nothing.
  template <class LinkOf>
  [[nodiscard]] std::uint32_t take(LinkOf&& link_of) noexcept {
    // acquire: pairs with the release in give(), so that the giver's last use of the place, and the
    // link it stored, are visible to the taker.
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const auto index = static_cast<std::uint32_t>(head);
      if (index == nothing) return nothing;
      // May be the link of a place that somebody else took meanwhile; then the counter in the head
      // has moved, and the exchange fails.
      const std::uint32_t next = link_of(index).load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, head_of((head >> 32) + 1, next),
                                      std::memory_order_acquire, std::memory_order_acquire)) {
        return index;
      }
    }
  }
  /// REQUIRES: the index is the caller's.
  template <class LinkOf>
  void give(std::uint32_t index, LinkOf&& link_of) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      link_of(index).store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
      // release: see take().
    } while (!head_.compare_exchange_weak(head, head_of((head >> 32) + 1, index),
                                          std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  static constexpr std::uint64_t head_of(std::uint64_t changes, std::uint32_t index) noexcept {
    return changes << 32 | index;
  }

  Atomic<std::uint64_t> head_{head_of(0, nothing)};
};

using IndexStack = BasicIndexStack<>;

}  // namespace baton
