// SlotTable: the operations of the C interface, reserved when the proactor is opened. A slot is
// free, or belongs to one activation from baton_start until its completion has been delivered.
//
// The free slots form a Treiber stack of indices whose head carries a counter against ABA, as in
// BufferPool: freeing must be possible inside a signal handler (baton_poll delivers completions).
//
// The one tricky piece is baton_status, which reads an operation that another thread may be about
// to use again. Reader and taker announce themselves before they check each other: the reader
// increments `readers` and then reads `activation`; the taker clears `activation` and then reads
// `readers`. Both are sequentially consistent, so that either the reader sees that the activation
// is gone, or the taker sees the reader and waits for it (a few loads).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/assert.hpp"
#include "baton.h"
#include "baton/endpoint.hpp"
#include "baton/operation.hpp"
#include "capi/pools.hpp"

namespace baton::capi {

struct alignas(64) Slot {
  Operation operation;
  /// Which activation the slot serves or served last; 0 while it is being prepared.
  std::atomic<baton_activation> activation{0};
  std::atomic<std::uint64_t> tag{0};
  std::atomic<std::uint32_t> readers{0};
  std::atomic<std::uint32_t> next{0};
  std::uint32_t index = 0;
  /// Its request is more than a transfer between a stream and a buffer. Only then the rest has a
  /// meaning.
  bool has_more = false;
  bool adopts = false;
  // The objects that the operation refers to beside its buffers; written by the starter, then by
  // the library.
  Endpoint endpoint;
  std::string_view delimiter;
  baton_endpoint* endpoint_out = nullptr;
  /// The block of a pooled read, until it is delivered.
  baton_pool* pool = nullptr;

  void enter_pool(baton_pool& entered) noexcept {
    pool = &entered;
    // relaxed: a pool may not be closed during a start with it.
    pool->reads.fetch_add(1, std::memory_order_relaxed);
  }
  /// The request is over: this operation takes nothing from its pool, if it has one.
  void end_more() noexcept {
    // release: the thread that closes the pool sees what was done with it.
    if (pool != nullptr) pool->reads.fetch_sub(1, std::memory_order_release);
    pool = nullptr;
    has_more = false;
  }
};

class SlotTable {
 public:
  static constexpr std::uint32_t count_max = 1U << 20;

  /// Throws std::bad_alloc. REQUIRES: count <= count_max.
  explicit SlotTable(std::uint32_t count) : count_(count), slots_(new Slot[count]) { reset(); }

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  /// REQUIRES: index < count(). The array is never null, so nothing is checked.
  [[nodiscard]] Slot& operator[](std::uint32_t index) const noexcept { return slots_.get()[index]; }

  /// All slots free. In a forked child also those whose operation a thread of the parent was
  /// handling, which stays pending there. REQUIRES: the proactor was opened anew; no other thread.
  void reset() noexcept {
    head_.store(head_of(0, end_of_list), std::memory_order_relaxed);
    for (std::uint32_t i = count_; i-- > 0;) {
      slots_[i].activation.store(0, std::memory_order_relaxed);
      slots_[i].readers.store(0, std::memory_order_relaxed);
      baton_pool* const pool = slots_[i].pool;
      slots_[i].end_more();
      if (pool != nullptr) pool->take_over();
      if (slots_[i].operation.is_pending()) slots_[i].operation.abandon();
      slots_[i].index = i;
      give(slots_[i]);
    }
  }

  /// A slot whose activation has no name yet; null when none is free.
  [[nodiscard]] Slot* take() noexcept {
    // acquire: what the last user did with the slot is visible.
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const auto index = static_cast<std::uint32_t>(head);
      if (index == end_of_list) return nullptr;
      Slot& slot = (*this)[index];
      const std::uint32_t next = slot.next.load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, head_of((head >> 32) + 1, next),
                                      std::memory_order_acquire, std::memory_order_acquire)) {
        withdraw(slot);
        return &slot;
      }
    }
  }
  /// Any thread, also inside a signal handler. The activation stays readable until the next take().
  void give(Slot& slot) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      slot.next.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
      // release: see take().
    } while (!head_.compare_exchange_weak(head, head_of((head >> 32) + 1, slot.index),
                                          std::memory_order_release, std::memory_order_relaxed));
  }

  /// The name of the next activation of a taken slot.
  [[nodiscard]] static baton_activation name_next(const Slot& slot) noexcept {
    const std::uint32_t number = slot.operation.activation() + 1;
    return std::uint64_t{number} << 32 | (slot.index + 1);
  }
  /// The slot that an activation names, now or earlier; null for an invalid one.
  [[nodiscard]] Slot* find(baton_activation activation) const noexcept {
    const auto index = static_cast<std::uint32_t>(activation) - 1;
    return index < count_ ? &(*this)[index] : nullptr;
  }
  [[nodiscard]] static std::uint32_t number_of(baton_activation activation) noexcept {
    return static_cast<std::uint32_t>(activation >> 32);
  }

 private:
  static constexpr std::uint32_t end_of_list = 0xffff'ffff;
  static constexpr std::uint64_t head_of(std::uint64_t changes, std::uint32_t index) noexcept {
    return changes << 32 | index;
  }
  static void withdraw(Slot& slot) noexcept {
    // seq_cst, both: see the head of this file.
    slot.activation.store(0, std::memory_order_seq_cst);
    if (BATON_UNLIKELY(slot.readers.load(std::memory_order_seq_cst) != 0)) wait_for_readers(slot);
  }
  static void wait_for_readers(const Slot& slot) noexcept;

  const std::uint32_t count_;
  const std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint64_t> head_{0};
};

/// Holds a slot for a look at one activation; false when that activation is gone.
class SlotReader {
 public:
  SlotReader(Slot& slot, baton_activation activation) noexcept : slot_(slot) {
    // seq_cst, both: see the head of this file.
    slot_.readers.fetch_add(1, std::memory_order_seq_cst);
    valid_ = slot_.activation.load(std::memory_order_seq_cst) == activation;
  }
  // release: the taker writes only after what was read here.
  ~SlotReader() { slot_.readers.fetch_sub(1, std::memory_order_release); }
  SlotReader(const SlotReader&) = delete;
  SlotReader& operator=(const SlotReader&) = delete;
  explicit operator bool() const noexcept { return valid_; }

 private:
  Slot& slot_;
  bool valid_ = false;
};

}  // namespace baton::capi
