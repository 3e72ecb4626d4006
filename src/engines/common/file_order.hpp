// FileOrder: what of one direction of a file is under way, and so what may go next. An engine
// queues what may not go yet, and asks again whenever something ends.
//
// Positional reads and writes promise no order and go side by side. Operations in order
// (Operation::append, and streams) go one at a time. A sync_file covers the writes that were
// started before it: it goes when none is under way, and what is started after it is queued behind
// it, so that a stream of writes cannot hold it up for ever. They wait only until it goes, not
// until it is done.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "baton/operation.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines {

/// Moves bytes, so that a sync has to wait for it.
inline bool is_transfer(const Operation& operation) noexcept {
  return operation.kind() != OperationKind::sync_file &&
         operation.kind() != OperationKind::connect && operation.kind() != OperationKind::close;
}

/// Two bytes, since every handle has two.
class FileOrder {
 public:
  /// Transfers of one direction under way at once; the rest waits its turn.
  static constexpr std::uint16_t transfers_max = 32'767;

  /// May it go, if it is the first of its queue?
  [[nodiscard]] bool admits(const Operation& operation) const noexcept {
    if (operation.kind() == OperationKind::sync_file) return transfers_ == 0;
    if (is_ordered(operation) && ordered_ != 0) return false;
    return transfers_ < transfers_max;
  }
  void began(const Operation& operation) noexcept {
    if (!is_transfer(operation)) return;
    BATON_ASSERT(transfers_ < transfers_max);
    ++transfers_;
    if (is_ordered(operation)) ordered_ = 1;
  }
  void ended(const Operation& operation) noexcept {
    if (!is_transfer(operation)) return;
    BATON_ASSERT(transfers_ > 0);
    --transfers_;
    if (is_ordered(operation)) ordered_ = 0;
  }
  /// No transfer is under way.
  [[nodiscard]] bool idle() const noexcept { return transfers_ == 0; }
  /// None of those in order is.
  [[nodiscard]] bool orderly_idle() const noexcept { return ordered_ == 0; }

 private:
  std::uint16_t transfers_ : 15 = 0;
  std::uint16_t ordered_ : 1 = 0;
};
static_assert(sizeof(FileOrder) == 2);

}  // namespace baton::engines
