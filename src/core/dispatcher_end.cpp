// The ends of handles, cancels, threads and engines; and the threads of dedicated processors.
#include "core/dispatcher.hpp"

#include <errno.h>

#include <algorithm>

#include "core/runner.hpp"

namespace baton {

// -- closing, stopping ----------------------------------------------------------------------------

bool Dispatcher::close_handles() {
  bool was_free = false;
  while (Handle* handle = ledger_.next_closable(lane_)) {
    if (ledger_.submit_close(lane_, *handle)) continue;
    int error = 0;
    if (handle->owned()) {
      // Not under the mutex: close(2) wakes the peer and may take a while. No other thread has the
      // handle.
      const NativeHandle native = handle->native();
      was_free = true;
      ledger_.mutex().unlock(system_);
      if (system_.close(native) != 0 && errno != EINTR) error = errno;
      ledger_.mutex().lock(system_);
    }
    ledger_.closed(lane_, *handle, error);
  }
  return was_free || unled();
}

// A leader that is awake may be in the engine, too: it polls, or closes handles before its wait.
// One in a handler serves the cancels before it enters the engine again.
void Dispatcher::wait_for_cancels() {
  for (const Processor* processor : processors_) {
    const Seat& seat = processor->seat;
    const std::uint32_t served = processor->cancels_served;
    while (BATON_UNLIKELY(processor->cancelling) && processor->cancels_served == served &&
           (seat.is(SeatState::awake) || seat.is(SeatState::waiting))) {
      ledger_.mutex().unlock(system_);
      system_.yield();
      ledger_.mutex().lock(system_);
    }
  }
}

void Dispatcher::stop_locked() noexcept {
  stopped_.store(true, std::memory_order_release);
  ++stops_;
  while (wake_follower()) continue;
  for (Processor* processor : processors_) {
    if (processor->mode != Mode::dedicated) interrupt_leader(*processor);
  }
}

void Dispatcher::restart() noexcept { stopped_.store(false, std::memory_order_release); }

// -- dedicated processors -------------------------------------------------------------------------

int Dispatcher::start_threads(Deliver deliver, void* context) {
  deliver_ = deliver;
  deliver_context_ = context;
  for (Processor* processor : processors_) {
    if (processor->mode != Mode::dedicated) continue;
    // Listed before it is started, because a thread that is not listed would never be joined.
    DedicatedThread& thread = *threads_.emplace_back(std::make_unique<DedicatedThread>());
    thread.dispatcher = this;
    thread.processor = processor;
    const int error = system_.thread_start(&thread.thread, dedicated_entry, &thread);
    if (error != 0) return error;
    thread.running = true;
  }
  return 0;
}

void Dispatcher::stop_threads() {
  threads_ending_.store(true, std::memory_order_release);
  for (const auto& thread : threads_) thread->processor->engine->interrupt();
  for (const auto& thread : threads_) {
    if (thread->running) system_.thread_join(thread->thread);
    thread->running = false;
  }
  threads_.clear();
}

// Also inside a handler. Another thread may never come back from one, and holds no seat then.
void Dispatcher::end_engines(Deadline until) {
  constexpr Duration pause = std::chrono::milliseconds{1};
  ledger_.mutex().lock(system_);
  if (++next_member_ == 0) ++next_member_;
  ++members_;
  Member me{next_member_, stops_};
  const Inside link{this, me.number, inside_chain()};
  take_over_own_seats(me);
  set_inside_chain(&link);
  const auto holds_something = [](const Processor* each) { return each->started > 0; };
  while (std::any_of(processors_.begin(), processors_.end(), holds_something)) {
    const Deadline now = ledger_.now();
    if (now >= until) break;
    take_seats(me);
    take_seats_with_work(me);
    if (me.seats != 0) {
      lead(me, Deadline::after(pause, now));
    } else {  // it is with a thread of its own, or one that comes out of its engine
      ledger_.mutex().unlock(system_);
      system_.yield();
      ledger_.mutex().lock(system_);
    }
  }
  set_inside_chain(link.outer);
  leave(me);
  ledger_.mutex().unlock(system_);
}

void Dispatcher::dedicated_entry(void* argument) {
  auto& thread = *static_cast<DedicatedThread*>(argument);
  thread.dispatcher->dedicated_loop(*thread.processor);
}

// Hands what a dedicated processor has finished to the threads in run().
void Dispatcher::hand_over(OperationQueue& finished) {
  if (deliver_ != nullptr) {
    if (!finished.empty()) deliver_(deliver_context_, finished);
    return;
  }
  ledger_.take_back_all(lane_, finished);
  run_closures();
  if (drained()) runner_.lane_is_quiet(lane_);
  look_round();  // level STRONG: also a waiting shared leader is asked
}

// The permanent leader (paper 000 section 7.2): starts deferred operations, waits, hands over.
void Dispatcher::dedicated_loop(Processor& processor) {
  ledger_.mutex().lock(system_);
  if (++next_member_ == 0) ++next_member_;
  const Inside link{this, next_member_, nullptr};
  set_inside_chain(&link);
  processor.seat.holder.store(link.number, std::memory_order_seq_cst);
  processor.seat.state.store(SeatState::awake);
  while (!threads_ending_.load(std::memory_order_acquire) || processor.started > 0) {
    OperationQueue finished;
    ledger_.serve_as_leader(lane_, processor, finished);
    hand_over(finished);
    OperationQueue batch;
    processor.seat.state.store(SeatState::waiting);
    ledger_.mutex().unlock(system_);
    processor.engine->wait(batch, Deadline::never());
    const std::int64_t now = system_.monotonic_coarse_ns();
    ledger_.mutex().lock(system_);
    lane_.clock.set(now);
    processor.seat.state.store(SeatState::awake);
    lane_.counters.note_wait(batch.size());
    ledger_.account(processor, batch);
    hand_over(batch);
  }
  processor.seat.holder.store(0, std::memory_order_seq_cst);
  processor.seat.state.store(SeatState::vacant);
  ledger_.mutex().unlock(system_);
  set_inside_chain(nullptr);
}

}  // namespace baton
