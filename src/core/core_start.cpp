// Starts and posts: checked, then carried out or mailed to the lane of their handle.
#include "core/core.hpp"

#include <atomic>
#include <cstdint>
#include <system_error>

#include "baton/strand.hpp"
#include "core/handle_kinds.hpp"
#include "core/visit.hpp"

namespace baton {

using Access = OperationAccess;

std::error_code Proactor::Core::check(const Operation& operation) const noexcept {
  const OperationKind kind = operation.kind();
  const Refusing refusing = ledger_.refusing.load(std::memory_order_acquire);
  if (refusing != Refusing::nothing &&
      (refusing == Refusing::everything || kind == OperationKind::accept)) {
    return errc::stopped;
  }
  if (kind == OperationKind::user || operation.handle() == nullptr) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  if (!knows(*operation.handle(), kind)) return errc::wrong_handle_kind;
  // Without O_APPEND it would be written over what is there, and no read has its place at the end.
  const bool is_append = operation.has(Operation::append);
  if (is_append && (kind == OperationKind::read_file ||
                    (kind == OperationKind::write_file && !operation.handle()->appends()))) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  if (!Starter::is_well_formed(operation)) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  // It would wait for no event, without end.
  if (kind == OperationKind::wait_ready && !operation.has(Operation::readable) &&
      !operation.has(Operation::writable)) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  return {};
}

// Only calls, so that neither path saves registers for the other.
std::error_code Proactor::start(Operation& operation) noexcept {
  Handle* const handle = Starter::handle_of_simple(operation);
  if (BATON_UNLIKELY(handle == nullptr)) return core_->start_less_simple(operation);
  // relaxed: any value other than this thread's lane, or a shared one, leads to the slow path.
  Lane* const lane = Access::route(*handle).load(std::memory_order_relaxed);
  return lane == os::thread_locals.lane ? core_->start_here(*lane, operation, *handle)
                                        : core_->start_elsewhere(lane, operation, *handle);
}

std::error_code Proactor::start_timer(Operation& operation, Deadline when) noexcept {
  if (BATON_UNLIKELY(operation.is_pending())) return errc::operation_in_use;
  operation.prepare(OperationKind::timer, nullptr);
  operation.set_deadline(when);
  const std::error_code* const done = Starter::start_simple_timer(core_->ledger(), operation);
  return BATON_LIKELY(done != nullptr) ? *done : core_->start(operation);
}

std::error_code Proactor::Core::start_here(Lane& lane, Operation& operation,
                                           Handle& handle) noexcept {
  const std::error_code* const done = Starter::start_here(lane, operation, handle);
  return BATON_LIKELY(done != nullptr) ? *done : start(operation);
}

std::error_code Proactor::Core::start_elsewhere(Lane* lane, Operation& operation,
                                                Handle& handle) noexcept {
  const std::error_code* const done = Starter::start_elsewhere(lane, operation, handle);
  return BATON_LIKELY(done != nullptr) ? *done : start(operation);
}

std::error_code Proactor::Core::start_less_simple(Operation& operation) noexcept {
  const std::error_code* const done = Starter::start_less_simple(operation);
  return done != nullptr ? *done : start(operation);
}

std::error_code Proactor::Core::start(Operation& operation) noexcept {
  if (BATON_UNLIKELY(forked())) return errc::after_fork;
  if (BATON_UNLIKELY(operation.state() != OperationState::initialized)) {
    return operation.is_pending() ? errc::operation_in_use : errc::not_prepared;
  }
  const Visit visit{ledger_};
  if (operation.kind() == OperationKind::timer) {
    if (BATON_UNLIKELY(refuses_everything())) return errc::stopped;
    LaneLoop* const here = per_thread_ ? LaneLoop::here(ledger_) : nullptr;
    return start_timer(operation, here != nullptr ? here->lane_index() : home_of(Home{}));
  }
  if (operation.kind() == OperationKind::close && operation.handle() != nullptr) {
    return close(*operation.handle(), operation);
  }
  if (const std::error_code error = check(operation)) return error;
  return start_on_handle(operation);
}

std::error_code Proactor::Core::start_on_handle(Operation& operation) noexcept {
  const Handle& handle = *operation.handle();
  Lane& lane = *lanes_[Access::lane(handle)];
  Processor* const processor = ledger_.route(lane, operation.kind(), handle);
  if (processor == nullptr) return errc::not_supported;
  LaneLoop* const loop = per_thread_ ? loops_[lane.index].get() : nullptr;
  if (loop == nullptr || loop->mine()) {
    if (loop != nullptr) loop->begin_call();
    return starter_->start(lane, *processor, operation, false);
  }
  if (Access::phase(handle) != Access::Phase::open) return errc::handle_closed;
  // This check races with other starters, and with the lane's thread. That thread checks again and
  // completes the operation with an error. In this order no operation is counted twice, so none is
  // refused too early.
  const std::uint64_t outstanding = processor->outstanding_now();
  std::atomic_thread_fence(std::memory_order_acquire);
  if (outstanding + lane.mailed.load(std::memory_order_relaxed) >= processor->operations_max) {
    lane.refused_limit.fetch_add(1, std::memory_order_relaxed);
    return errc::limit_reached;
  }
  Access::activate(operation, OperationState::started);
  return taken_or_stopped(loop->mail(operation), operation);
}

std::error_code Proactor::Core::start_timer(Operation& operation, std::uint32_t lane) noexcept {
  Access::set_processor(operation, static_cast<std::uint16_t>(lane));  // for cancel
  Access::activate(operation, OperationState::started);
  LaneLoop* const loop = per_thread_ ? loops_[lane].get() : nullptr;
  if (loop != nullptr && !loop->mine()) {
    return taken_or_stopped(loop->mail(operation), operation);
  }
  if (loop != nullptr) loop->begin_call();  // an earlier cancel_all must not end this timer
  return taken_or_stopped(starter_->start_timer(*lanes_[lane], operation), operation);
}

std::error_code Proactor::post(Operation& operation, Notify level, Home home) noexcept {
  const std::error_code* const done =
      home.lane == Home::here_or_next ? Starter::post_simple(core_->ledger(), operation) : nullptr;
  return BATON_LIKELY(done != nullptr) ? *done : core_->post(operation, level, home);
}

// The library's own posts finish what has begun, and are never refused. In a stopped proactor they
// wait until it is driven again. A finished one is not: this thread, of another proactor with which
// a task shares its work, runs them, unless it is inside the strand that they need.
std::error_code Proactor::Core::post(Operation& operation, Notify level, Home home) noexcept {
  if (BATON_UNLIKELY(forked())) return errc::after_fork;
  if (BATON_UNLIKELY(operation.is_pending())) return errc::operation_in_use;
  const Visit visit{ledger_};
  if (!operation.has(Operation::internal)) {
    return BATON_UNLIKELY(refuses_everything()) ? errc::stopped
                                                : queue_post(operation, level, home);
  }
  const Strand* const strand = operation.strand();
  const bool runs_here = strand == nullptr || !strand->running_in_this_thread();
  const std::error_code error =
      queue_post(operation, refuses_everything() ? Notify::strong : level, home);
  // seq_cst: see finish().
  if (BATON_UNLIKELY(finishing_.load(std::memory_order_seq_cst)) && runs_here) run_what_is_left();
  return error;
}

std::error_code Proactor::Core::queue_post(Operation& operation, Notify level, Home home) noexcept {
  // It may have been a request on a handle before.
  if (BATON_UNLIKELY(operation.kind() != OperationKind::user)) {
    operation.prepare(OperationKind::user, nullptr, operation.flags() & Operation::cached);
  }
  Access::activate(operation, OperationState::posted);
  if (!per_thread_) {
    return taken_or_stopped(starter_->post(*first_lane_, operation, level), operation);
  }
  LaneLoop* const here = LaneLoop::here(ledger_);
  if (operation.strand() != nullptr && home.lane == Home::here_or_next) {
    // One queue keeps their order. (Another proactor of the strand may have more lanes.)
    home.lane = operation.strand()->lane(home_of(home)) % lanes();
  }
  const bool is_here = here != nullptr && home.lane == Home::here_or_next;
  LaneLoop& loop = is_here ? *here : *loops_[home_of(home)];
  if (!is_here && !loop.mine()) return taken_or_stopped(loop.mail(operation), operation);
  loop.begin_call();
  starter_->post(loop.lane(), operation, level);
  return success_;
}

}  // namespace baton
