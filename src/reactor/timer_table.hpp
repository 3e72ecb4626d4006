// TimerTable: the reactor's timers, in the Proactor's own timer queue (core/timer_queue.hpp). A
// timer is an Operation that is never started; only its deadline and its links are used. Guarded by
// the reactor's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/chunked_table.hpp"
#include "baton/deadline.hpp"
#include "baton/event_handler.hpp"
#include "baton/operation.hpp"
#include "core/timer_queue.hpp"
#include "reactor/timers_by_handler.hpp"

namespace baton::reactor {

struct ReactorTimer final : Operation {
  // Constant while a call runs, except `kept`, which the call takes.
  EventHandler* handler = nullptr;
  std::shared_ptr<EventHandler> kept;
  Deadline due;

  Duration interval{};
  std::uint32_t index = 0;
  std::uint32_t generation = 1;
  enum class State : std::uint8_t { free, armed, due, running } state = State::free;
  bool cancelled = false;
  ReactorTimer* next = nullptr;  // in the list of free ones, or of due ones
  TimersByHandler::Links links;

  [[nodiscard]] TimerKey key() const noexcept { return {index, generation}; }
};

class TimerTable {
 public:
  /// Throws std::bad_alloc.
  explicit TimerTable(std::uint32_t bound) : timers_(bound) {}

  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  [[nodiscard]] Deadline nearest() noexcept { return armed_.nearest(); }
  [[nodiscard]] bool none_armed() const noexcept { return armed_.empty(); }
  [[nodiscard]] bool has_due() const noexcept { return first_due_ != nullptr; }
  /// Indices are below this.
  [[nodiscard]] std::uint32_t end() const noexcept { return made_; }

  /// A free one for `handler`; null when the bound is reached (`full`) or there is no memory.
  ReactorTimer* take(EventHandler& handler, bool& full) noexcept;
  void arm(ReactorTimer& timer, Deadline when) noexcept;
  /// Null: no such timer.
  ReactorTimer* find(TimerKey key) noexcept;

  /// Moves timers that are due at `now` to the due ones, at most limits::handlers_per_look.
  void collect(Deadline now) noexcept;
  /// The first timer that is due and not cancelled, marked as running; null: none.
  ReactorTimer* next_due() noexcept;

  /// See Reactor::cancel. The timer's object is moved to `kept`.
  bool cancel(ReactorTimer& timer, std::shared_ptr<EventHandler>& kept) noexcept;
  /// Cancels timers of a handler and moves their objects to `kept`, at most as many as fit there.
  /// Returns their number; `quiet` is raised by those whose call will not begin.
  std::size_t cancel_some(const EventHandler& handler,
                          std::span<std::shared_ptr<EventHandler>> kept,
                          std::size_t& quiet) noexcept;
  /// Cancels the timer with this index, if there is one; returns the object that it kept. REQUIRES:
  /// no call runs.
  std::shared_ptr<EventHandler> give_up(std::uint32_t index) noexcept;
  /// After its call. True: it is armed for the next time after `now`, and keeps `kept` again.
  bool finish(ReactorTimer& timer, bool goes_on, Deadline now,
              std::shared_ptr<EventHandler>& kept) noexcept;
  /// In a forked child: frees the timers whose calls were running in the parent.
  void forget_running() noexcept;

 private:
  void release(ReactorTimer& timer) noexcept;

  ChunkedTable<ReactorTimer> timers_;
  TimerQueue armed_;
  TimersByHandler by_handler_;  // those that are not cancelled
  std::uint32_t made_ = 0;
  std::size_t used_ = 0;
  ReactorTimer* free_ = nullptr;
  ReactorTimer* first_due_ = nullptr;
  ReactorTimer* last_due_ = nullptr;
};

}  // namespace baton::reactor
