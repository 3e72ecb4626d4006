// SlotTable: the operations of the C interface, reserved when the proactor is opened. A slot is
// free, or belongs to one activation from baton_start until its completion has been brought.
//
// The free slots are in an IndexStack: freeing must be possible inside a signal handler (baton_poll
// brings completions).
//
// The one tricky piece is baton_status, which reads an operation that somebody else may be about
// to use again. Reader and taker make themselves known before they look at each other: the reader
// raises `readers` and then reads `activation`; the taker clears `activation` and then reads
// `readers`. Both are sequentially consistent, so that either the reader sees that the activation
// is gone, or the taker sees the reader and waits for it (a few loads).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/assert.hpp"
#include "base/handshake.hpp"
#include "base/index_stack.hpp"
#include "baton.h"
#include "baton/endpoint.hpp"
#include "baton/operation.hpp"

namespace baton::capi {

struct alignas(64) Slot {
  Operation operation;
  /// Which activation the slot serves or served last; 0 while it is being prepared.
  std::atomic<baton_activation> activation{0};
  std::atomic<std::uint64_t> tag{0};
  std::atomic<std::uint32_t> readers{0};
  std::atomic<std::uint32_t> next{0};
  // What the operation refers to beside its buffers; the starter writes them, then the library.
  Endpoint endpoint;
  std::string_view delimiter;
  baton_endpoint* endpoint_out = nullptr;
};

class SlotTable {
  // First, for its type is deduced.
  [[nodiscard]] auto link_of() const noexcept {
    return
        [this](std::uint32_t index) -> std::atomic<std::uint32_t>& { return slots_[index].next; };
  }

 public:
  static constexpr std::uint32_t count_max = 1U << 20;

  /// Throws std::bad_alloc. REQUIRES: count <= count_max.
  explicit SlotTable(std::uint32_t count) : count_(count), slots_(new Slot[count]) { reset(); }

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] Slot& operator[](std::uint32_t index) const noexcept { return slots_[index]; }

  /// All slots free but those whose operation is lost in the parent process. REQUIRES: no other
  /// thread.
  void reset() noexcept {
    free_.reset(IndexStack::nothing);
    for (std::uint32_t i = count_; i-- > 0;) {
      slots_[i].activation.store(0, std::memory_order_relaxed);
      slots_[i].readers.store(0, std::memory_order_relaxed);
      if (!slots_[i].operation.is_pending()) give(slots_[i]);
    }
  }

  /// A slot whose activation nobody can name; null when none is free.
  [[nodiscard]] Slot* take() noexcept {
    const std::uint32_t index = free_.take(link_of());
    if (index == IndexStack::nothing) return nullptr;
    withdraw(slots_[index]);
    return &slots_[index];
  }
  /// Any thread, also inside a signal handler. The activation stays readable until the next take().
  void give(Slot& slot) noexcept {
    const auto index = static_cast<std::uint32_t>(&slot - slots_.get());
    BATON_DASSERT(index < count_);
    free_.give(index, link_of());
  }

  /// The name of the next activation of a taken slot.
  [[nodiscard]] baton_activation name_next(const Slot& slot) const noexcept {
    const auto index = static_cast<std::uint64_t>(&slot - slots_.get());
    const std::uint32_t number = slot.operation.activation() + 1;
    return std::uint64_t{number} << 32 | (index + 1);
  }
  /// The slot that an activation names, now or earlier; null for nonsense.
  [[nodiscard]] Slot* find(baton_activation activation) const noexcept {
    const auto index = static_cast<std::uint32_t>(activation) - 1;
    return index < count_ ? &slots_[index] : nullptr;
  }
  [[nodiscard]] static std::uint32_t number_of(baton_activation activation) noexcept {
    return static_cast<std::uint32_t>(activation >> 32);
  }

 private:
  static void withdraw(Slot& slot) noexcept;

  const std::uint32_t count_;
  const std::unique_ptr<Slot[]> slots_;
  IndexStack free_;
};

/// Holds a slot for a look at one activation; false when that activation is gone.
class SlotReader {
 public:
  SlotReader(Slot& slot, baton_activation activation) noexcept : slot_(slot) {
    valid_ = begin_look(slot_.activation, slot_.readers, activation);
  }
  ~SlotReader() { end_look(slot_.readers); }
  SlotReader(const SlotReader&) = delete;
  SlotReader& operator=(const SlotReader&) = delete;
  explicit operator bool() const noexcept { return valid_; }

 private:
  Slot& slot_;
  bool valid_ = false;
};

}  // namespace baton::capi
