// The walk over pending operations, and Proactor::pending().
#include "core/pending.hpp"

#include <algorithm>
#include <utility>

#include "core/coarse_clock.hpp"
#include "core/core.hpp"

namespace baton {

using Access = OperationAccess;

namespace {

/// Handles visited per locking of the mutex: about ten microseconds.
constexpr std::uint32_t handles_per_look = 1'024;
/// Timers visited at most: a queue may hold a million, and the walk cannot be interrupted and
/// resumed.
constexpr std::size_t timers_looked_at_max = 8'192;

bool older(const PendingOperation& a, const PendingOperation& b) noexcept { return a.age > b.age; }

}  // namespace

// -- one domain -----------------------------------------------------------------------------------

PendingShare::PendingShare(const PendingQuery& query, std::uint32_t now)
    : age_(query.age),
      kinds_(query.kinds),
      shown_(std::clamp<std::size_t>(query.shown, 1, limits::pending_shown_max)),
      now_(now) {
  oldest_.reserve(shown_);
}

void PendingShare::offer(const Operation& operation, const Handle* handle,
                         const Lane& lane) noexcept {
  if (!wants(operation.kind())) return;
  const Duration age = CoarseClock::age(Access::started_tick(operation), now_);
  if (age < age_) return;
  ++matching_;
  if (oldest_.size() == shown_) {
    if (age <= oldest_.front().age) return;
    std::pop_heap(oldest_.begin(), oldest_.end(), older);
    oldest_.pop_back();
  }
  PendingOperation& found = oldest_.emplace_back();
  found.kind = operation.kind();
  found.state = Access::state(operation);
  found.cancel_asked = operation.cancel_asked();
  found.age = age;
  if (handle != nullptr) {
    found.native = handle->native();
    found.handle = handle->index();
    found.generation = handle->generation();
    found.processor = Access::processor(operation);
  }
  found.lane = lane.index;
  found.bytes = operation.bytes();
  found.tag = operation.tag();
  found.handler = Access::completion(operation);
  std::push_heap(oldest_.begin(), oldest_.end(), older);
}

void PendingShare::give(PendingReport& report) {
  std::move(oldest_.begin(), oldest_.end(), std::back_inserter(report.operations));
  oldest_.clear();
  report.matching += matching_;
  report.queued += queued_;
  report.timers_unseen += timers_unseen_;
}

void offer_handles(Ledger& ledger, const Lane& lane, std::uint32_t first, std::uint32_t last,
                   PendingShare& share) noexcept {
  ledger.handles.for_each_in(first, last, [&](Handle& handle) {
    if (Access::lane(handle) != lane.index) return;
    ledger.for_each(handle, [&](Operation& operation) { share.offer(operation, &handle, lane); });
    // A close that the program waits for. The library's own closes carry no stamp.
    const Operation* closing = Access::closing(handle);
    if (closing != nullptr && !closing->has(Operation::internal)) {
      share.offer(*closing, &handle, lane);
    }
  });
}

void offer_rest(const Lane& lane, PendingShare& share) noexcept {
  share.count_queued(lane.completed.size());
  if (!share.wants(OperationKind::timer)) return;
  const std::size_t seen = lane.timers.for_each(timers_looked_at_max, [&](const auto& operation) {
    // The others are deadlines of operations that were offered with their handle.
    if (operation.kind() != OperationKind::timer || operation.has(Operation::internal)) return;
    share.offer(operation, nullptr, lane);
  });
  share.count_unseen(lane.timers.size() - seen);
}

// -- all lanes ------------------------------------------------------------------------------------

PendingInquiry::PendingInquiry(const PendingQuery& query, std::uint32_t lanes,
                               std::int64_t now_ns) {
  for (std::uint32_t i = 0; i < lanes; ++i) {
    answers_.push_back(std::make_unique<Answer>(PendingShare{query, CoarseClock::tick_of(now_ns)}));
  }
}

void PendingInquiry::answer(Ledger& ledger, const Lane& lane) noexcept {
  Answer& mine = *answers_[lane.index];
  offer_handles(ledger, lane, 0, ledger.handles.used(), mine.share);
  offer_rest(lane, mine.share);
  // release: a thread that sees it complete sees its contents.
  mine.complete.store(true, std::memory_order_release);
  count_.fetch_add(1, std::memory_order_release);
  ledger.system().futex_wake(&count_, 1);
}

void PendingInquiry::wait(const os::System& system, std::uint32_t asked,
                          Deadline deadline) noexcept {
  for (;;) {
    const std::uint32_t seen = count_.load(std::memory_order_acquire);
    if (seen >= asked) return;
    if (!system.futex_wait(&count_, seen, deadline.ns())) return;
  }
}

bool PendingInquiry::give(std::uint32_t lane, PendingReport& report) {
  Answer& its = *answers_[lane];
  // acquire: pairs with answer(). An incomplete answer may be being written at this moment.
  if (!its.complete.load(std::memory_order_acquire)) return false;
  its.share.give(report);
  return true;
}

// -- the call -------------------------------------------------------------------------------------

PendingReport Proactor::Core::pending(const PendingQuery& query) {
  PendingReport report;
  if (forked()) return report;
  if (per_thread_) {
    ask_lanes(query, report);
  } else {
    look_under_the_mutex(query, report);
  }
  std::sort(report.operations.begin(), report.operations.end(), older);
  const std::size_t shown = std::clamp<std::size_t>(query.shown, 1, limits::pending_shown_max);
  if (report.operations.size() > shown) report.operations.resize(shown);
  const os::LockGuard lock{names_mutex_, system_};
  for (PendingOperation& operation : report.operations) {
    const auto name = tag_names_.find(operation.tag);
    if (name != tag_names_.end()) operation.name = name->second;
  }
  return report;
}

// Unlocks the mutex now and then, so that no thread waits for the whole table. The report is not a
// snapshot of one instant, but each operation in it was pending when it was visited.
void Proactor::Core::look_under_the_mutex(const PendingQuery& query, PendingReport& report) {
  PendingShare share{query, CoarseClock::tick_of(system_.monotonic_ns())};
  const std::uint32_t end = ledger_.handles.used();
  for (std::uint32_t first = 0; first < end; first += handles_per_look) {
    const os::LockGuard lock{ledger_.mutex(), system_};
    offer_handles(ledger_, *first_lane_, first, std::min(end, first + handles_per_look), share);
  }
  {
    const os::LockGuard lock{ledger_.mutex(), system_};
    offer_rest(*first_lane_, share);
  }
  share.give(report);
}

void Proactor::Core::ask_lanes(const PendingQuery& query, PendingReport& report) {
  const std::int64_t now = system_.monotonic_ns();
  const auto inquiry = std::make_shared<PendingInquiry>(query, lanes(), now);
  std::uint32_t asked = 0;
  for (const auto& loop : loops_) {
    if (const bool mine = loop->mine(); mine || loop->claim_loaned()) {
      inquiry->answer(ledger_, loop->lane());
      if (!mine) loop->loan();
      ++asked;
    } else if (loop->driven() && loop->ask(inquiry)) {
      ++asked;
    }
  }
  inquiry->wait(system_, asked, Deadline::after(query.patience, Deadline::at_ns(now)));
  for (const auto& loop : loops_) {
    const std::uint16_t lane = loop->lane().index;
    if (!inquiry->give(lane, report)) report.silent.push_back({lane, loop->driven()});
  }
}

bool Proactor::Core::name_tag(std::uint32_t tag, std::string_view name) {
  const os::LockGuard lock{names_mutex_, system_};
  if (tag_names_.size() >= limits::tag_names_max && !tag_names_.contains(tag)) return false;
  tag_names_[tag] = name.substr(0, limits::tag_name_size_max);
  return true;
}

}  // namespace baton
