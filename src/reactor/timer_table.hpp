// TimerTable: the reactor's timers, in the Proactor's own timer queue (core/timer_queue.hpp). A
// timer is an Operation that is never started: it lends its deadline and its links. Guarded by the
// reactor's mutex.
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
  // Do not change while a call runs, but for what is kept: the call has it.
  EventHandler* handler = nullptr;
  std::shared_ptr<EventHandler> kept;
  Deadline due;

  Duration interval{};
  std::uint32_t index = 0;
  std::uint32_t generation = 1;
  enum class State : std::uint8_t { free, armed, due, running } state = State::free;
  bool cancelled = false;
  ReactorTimer* next = nullptr;  // of the free ones, or of those that are due
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

  /// Moves what is due at `now` to the due ones, up to limits::handlers_per_look of them.
  void collect(Deadline now) noexcept;
  /// The first that is due and not cancelled, as running; null: none.
  ReactorTimer* next_due() noexcept;

  /// See Reactor::cancel. The timer's object is moved to `kept`.
  bool cancel(ReactorTimer& timer, std::shared_ptr<EventHandler>& kept) noexcept;
  /// Cancels timers of a handler, at most as many as there is room for what they kept. How many;
  /// `quiet` is raised by those of which no call will begin.
  std::size_t cancel_some(const EventHandler& handler,
                          std::span<std::shared_ptr<EventHandler>> kept,
                          std::size_t& quiet) noexcept;
  /// Cancels the timer with this index, if there is one; returns the object that it kept. REQUIRES:
  /// no call runs.
  std::shared_ptr<EventHandler> give_up(std::uint32_t index) noexcept;
  /// After its call. True: it is armed for the next time after `now`, and keeps `kept` again.
  bool finish(ReactorTimer& timer, bool goes_on, Deadline now,
              std::shared_ptr<EventHandler>& kept) noexcept;
  /// In a forked child: those in whose calls threads of the parent were.
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
