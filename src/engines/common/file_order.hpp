// FileOrder: counts what is in flight in one direction of a file, and tells what may start next. An
// engine queues an operation that may not start yet, and asks again whenever one ends.
//
// Positional reads and writes have no order and run in parallel. Operations in order
// (Operation::append, and streams) run one at a time. A sync_file covers the writes started before
// it: it starts when none is in flight. Operations started after it are queued behind it until it
// has started, so that a stream of writes cannot delay it for ever. They do not wait for its end.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "baton/operation.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines {

/// Moves bytes, so that a sync has to wait for it; or is a connect, for which a socket waits.
inline bool is_transfer(const Operation& operation) noexcept {
  return operation.kind() != OperationKind::sync_file && operation.kind() != OperationKind::close;
}

/// Two bytes, since every handle has two.
class FileOrder {
 public:
  /// Transfers of one direction in flight at once; more wait for their turn.
  static constexpr std::uint16_t transfers_max = 32'767;

  /// Whether it may start if it is the first of its queue.
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
  /// No transfer is in flight.
  [[nodiscard]] bool idle() const noexcept { return transfers_ == 0; }
  /// No ordered transfer is in flight.
  [[nodiscard]] bool orderly_idle() const noexcept { return ordered_ == 0; }

 private:
  std::uint16_t transfers_ : 15 = 0;
  std::uint16_t ordered_ : 1 = 0;
};
static_assert(sizeof(FileOrder) == 2);

}  // namespace baton::engines
