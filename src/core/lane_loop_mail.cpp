// The mail of a lane: what other threads ask of its leader.
#include "core/lane_loop.hpp"

#include "base/probes.hpp"
#include "core/pending.hpp"
#include "core/runner.hpp"
#include "core/starter.hpp"

namespace baton {

using Access = OperationAccess;

namespace {

// Of a mailed operation: the newest request when it was started (LaneRequests), and the generation
// of its handle, whose record may serve another handle before the mail is read. The engine's
// private state is free until submit.
struct MailedState {
  LaneRequests::Number newest;
  std::uint32_t generation;
};

}  // namespace

bool LaneLoop::mail(Operation& operation) noexcept {
  const Handle* const handle = operation.handle();
  operation.engine_state<MailedState>() = {lane_.requests.newest(),
                                           handle != nullptr ? handle->generation() : 0};
  lane_.mailed.fetch_add(1, std::memory_order_relaxed);
  Mailbox::Pushed pushed = lane_.mailbox.push(operation, false);
  if (BATON_UNLIKELY(pushed == Mailbox::Pushed::refused)) {
    if (!operation.has(Operation::internal)) {
      lane_.mailed.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    pushed = lane_.mailbox.push(operation, true);
  }
  call_attention();
  if (pushed == Mailbox::Pushed::first) wake_or_find_leader();
  return true;
}

void LaneLoop::mail_back(Operation& operation) noexcept {
  const bool first = lane_.returned.push(operation);
  call_attention();
  if (first) wake_or_find_leader();
}

void LaneLoop::ask(LaneRequests::Wish wish) noexcept {
  lane_.requests.ask(wish, system_);
  call_attention();
  wake_or_find_leader();
}

void LaneLoop::ask(Handle& handle, LaneRequests::Asked asked) noexcept {
  lane_.requests.ask(handle, asked, system_);
  call_attention();
  wake_or_find_leader();
}

bool LaneLoop::ask(std::shared_ptr<PendingInquiry> inquiry) noexcept {
  if (!lane_.requests.ask(std::move(inquiry), system_)) return false;
  call_attention();
  wake_or_find_leader();
  return true;
}

void LaneLoop::wake_or_find_leader() noexcept {
  if (wake() == SleepWord::Needs::owner) runner_.lane_needs_leader();
}

SleepWord::Needs LaneLoop::wake() noexcept {
  const SleepWord::Needs needs = sleep_.notify();
  if (needs == SleepWord::Needs::interrupt) {
    BATON_PROBE2(interrupt_sent, own_.front()->index, lane_.index);
    own_.front()->engine->interrupt();
    wakes_sent_.fetch_add(1, std::memory_order_relaxed);
  } else {
    wakes_suppressed_.fetch_add(1, std::memory_order_relaxed);
  }
  return needs;
}

void LaneLoop::stop() noexcept {
  ending_.fetch_or(stop_asked, std::memory_order_seq_cst);
  wake();
}

void LaneLoop::ask_to_regroup() noexcept {
  ending_.fetch_or(regroup_asked, std::memory_order_seq_cst);
  wake();
}

// Its handlers have returned before it is asked whether to go on.
void LaneLoop::stop_in_forked_child() noexcept {
  for (const Inside* inside = inside_chain(); inside != nullptr; inside = inside->outer) {
    inside->loop->ending_.store(stop_asked, std::memory_order_relaxed);
  }
}

void LaneLoop::look_at_mail() noexcept {
  // An exchange, so that either what was left is seen below, or the mark comes again after it.
  lane_.attention.exchange(false, std::memory_order_seq_cst);
  if (ledger_.refusing.load(std::memory_order_seq_cst) != Refusing::nothing) call_attention();
  if (!lane_.returned.empty()) take_returned();
  if (!lane_.mailbox.empty() || lane_.requests.any()) open_mailbox();
}

// Serves requests and mail in order. A request made before an operation was started is served
// before that operation, other requests after it. The number is read first, so all mail that the
// asker sent before its request is in this batch or an earlier one. Later requests wait for the
// next look.
void LaneLoop::open_mailbox() noexcept {
  const InEngines in{*this};
  const LaneRequests::Number newest = lane_.requests.newest();
  Operation* operation = lane_.mailbox.empty() ? nullptr : lane_.mailbox.take_all();
  bool clock_is_set = false;  // this lane may have slept for hours
  while (operation != nullptr) {
    Operation* next = Access::next(*operation);
    Access::next(*operation) = nullptr;
    if (!clock_is_set && Access::state(*operation) != OperationState::posted) {
      lane_.clock.set(system_.monotonic_coarse_ns());
      clock_is_set = true;
    }
    serve_requests(operation->engine_state<MailedState>().newest);
    // Before it counts as outstanding: see Core::start_on_handle.
    lane_.mailed.fetch_sub(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    start_mailed(*operation);
    operation = next;
  }
  serve_requests(newest);
}

void LaneLoop::take_returned() noexcept {
  Operation* operation = lane_.returned.take_all();
  while (operation != nullptr) {
    Operation* next = Access::next(*operation);
    Access::next(*operation) = nullptr;
    const OperationState state = Access::state(*operation);
    if (state == OperationState::result_ready || state == OperationState::posted) {
      // A thread of another proactor has taken it out of a strand.
      if (!operation->has(Operation::internal)) lane_.counters.completed.sub();  // counted again
      lane_.completed.push_back(*operation);
    } else {
      ledger_.take_back(lane_, *operation);
    }
    operation = next;
  }
}

void LaneLoop::start_mailed(Operation& operation) noexcept {
  if (Access::state(operation) == OperationState::posted) {
    lane_.starter->post(lane_, operation, Notify::strong);
    return;
  }
  if (operation.kind() == OperationKind::timer) {
    lane_.starter->start_timer(lane_, operation);
    return;
  }
  Handle& handle = *operation.handle();
  const bool same = handle.generation() == operation.engine_state<MailedState>().generation &&
                    Access::lane(handle) == lane_.index;
  if (operation.kind() == OperationKind::close) {
    if (!same || !ledger_.begin_close(lane_, handle, &operation)) {
      ledger_.refuse_mailed(lane_, operation, errc::handle_closed);
    }
    return;
  }
  if (!same) {
    ledger_.refuse_mailed(lane_, operation, errc::handle_closed);
    return;
  }
  // A request that is left is later than this start, and cancels it. It is never begun then: the
  // number of a borrowed descriptor may name another file by now.
  const std::uint64_t asked = Access::asked(handle).load(std::memory_order_acquire);
  if ((AskedWord::what(asked) & (LaneRequests::cancel | LaneRequests::close_detached)) != 0) {
    Access::want_cancel(operation, operation.activation());
  }
  Processor* processor = ledger_.route(lane_, operation.kind(), handle);
  if (const auto error = lane_.starter->start(lane_, *processor, operation, true)) {
    ledger_.refuse_mailed(lane_, operation, error);
  }
}

void LaneLoop::serve_requests(LaneRequests::Number until) noexcept {
  while (lane_.requests.oldest() <= until) serve(lane_.requests.take(until, system_));
}

void LaneLoop::serve(const LaneRequests::Due& due) noexcept {
  if (due.wishes[LaneRequests::cancel_all]) ledger_.cancel_all(lane_);
  if (due.wishes[LaneRequests::cancel_accepts]) ledger_.cancel_accepts(lane_);
  if (due.wishes[LaneRequests::cancel_timers]) cancel_marked_timers();
  if (due.handle != nullptr) serve(*due.handle, due.what);
  for (const auto& inquiry : due.inquiries) inquiry->answer(ledger_, lane_);
}

void LaneLoop::serve(Handle& handle, std::uint32_t what) noexcept {
  if ((what & LaneRequests::let_go) != 0) {
    ledger_.handles.release(handle);
    return;
  }
  BATON_ASSERT(Access::lane(handle) == lane_.index);
  if ((what & LaneRequests::handler_returned) != 0) {
    std::uint32_t count = Access::returned(handle).exchange(0, std::memory_order_acquire);
    for (; count > 0; --count) ledger_.handler_returned(lane_, &handle);
  }
  if ((what & LaneRequests::cancel_marked) != 0) cancel_marked(handle);
  if ((what & LaneRequests::cancel) != 0) ledger_.cancel(lane_, handle);
  if ((what & LaneRequests::close_detached) != 0) ledger_.begin_close(lane_, handle, nullptr);
}

// One search for all: each of its own would pass the same timers again.
void LaneLoop::cancel_marked_timers() noexcept {
  OperationQueue marked;
  lane_.timers.find_all(marked, [](const Operation& timer) {
    return timer.kind() == OperationKind::timer && Access::cancel_wanted(timer);
  });
  while (!marked.empty()) ledger_.cancel(lane_, marked.pop_front());
}

void LaneLoop::cancel_marked(Handle& handle) noexcept {
  ledger_.for_each(handle, [&](Operation& operation) {
    if (Access::cancel_wanted(operation)) ledger_.cancel(lane_, operation);
  });
}

}  // namespace baton
