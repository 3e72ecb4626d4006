// How a report of pending operations is made while the threads go on.
//
// Operations are read in their own domain, because only there they are sure to be alive. In shared
// and dedicated mode the asking thread reads them with the mutex held, a part of the handle table
// at a time. In per_thread mode each lane's own thread reads them when it finds the inquiry in its
// request list. A lane that is in a handler answers when the handler returns. The asker may have
// given up by then (`patience`), so both share ownership of the inquiry.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "baton/pending.hpp"
#include "core/ledger.hpp"

namespace baton {

/// The oldest operations of one domain: a heap with the youngest on top. Allocates only when it is
/// constructed.
class PendingShare {
 public:
  PendingShare(const PendingQuery& query, std::uint32_t now);

  /// `handle` null: a timer.
  void offer(const Operation& operation, const Handle* handle, const Lane& lane) noexcept;
  [[nodiscard]] bool wants(OperationKind kind) const noexcept {
    return kinds_.empty() || kinds_.has(kind);
  }
  void count_queued(std::size_t count) noexcept { queued_ += count; }
  void count_unseen(std::size_t timers) noexcept { timers_unseen_ += timers; }
  /// Adds the result to a report, in no order.
  void give(PendingReport& report);

 private:
  const Duration age_;
  const OperationKinds kinds_;
  const std::size_t shown_;
  const std::uint32_t now_;
  std::vector<PendingOperation> oldest_;
  std::uint64_t matching_ = 0;
  std::uint64_t queued_ = 0;
  std::uint64_t timers_unseen_ = 0;
};

/// Offers the operations pending on the handles [first, last) of `lane`. REQUIRES: the lane's
/// domain.
void offer_handles(Ledger& ledger, const Lane& lane, std::uint32_t first, std::uint32_t last,
                   PendingShare& share) noexcept;
/// Offers the timers and counts queued results. REQUIRES: the lane's domain.
void offer_rest(const Lane& lane, PendingShare& share) noexcept;

/// An inquiry to all lanes of a per_thread proactor.
class PendingInquiry {
 public:
  PendingInquiry(const PendingQuery& query, std::uint32_t lanes, std::int64_t now_ns);

  /// Called once by the lane's thread.
  void answer(Ledger& ledger, const Lane& lane) noexcept;
  /// Waits until `asked` lanes have answered, or until the deadline.
  void wait(const os::System& system, std::uint32_t asked, Deadline deadline) noexcept;
  /// Adds a lane's answer to the report. False if the lane has not answered.
  bool give(std::uint32_t lane, PendingReport& report);

 private:
  struct Answer {
    explicit Answer(PendingShare empty) : share(std::move(empty)) {}
    PendingShare share;
    std::atomic<bool> complete{false};
  };
  std::vector<std::unique_ptr<Answer>> answers_;
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace baton
