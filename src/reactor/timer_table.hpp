// TimerTable: the reactor's timers, in the Proactor's own timer queue (core/timer_queue.hpp). A
// timer is an Operation that is never started: it lends its deadline and its links. Guarded by the
// reactor's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/chunked_table.hpp"
#include "baton/deadline.hpp"
#include "baton/event_handler.hpp"
#include "baton/operation.hpp"
#include "core/timer_queue.hpp"

namespace baton::reactor {

struct ReactorTimer final : Operation {
  // Do not change while a call runs.
  EventHandler* handler = nullptr;
  std::shared_ptr<EventHandler> kept;
  Deadline due;

  Duration interval{};
  std::uint32_t index = 0;
  std::uint32_t generation = 1;
  enum class State : std::uint8_t { free, armed, due, running } state = State::free;
  bool cancelled = false;
  ReactorTimer* next = nullptr;  // of the free ones, or of those that are due

  [[nodiscard]] TimerKey key() const noexcept { return {index, generation}; }
};

class TimerTable {
 public:
  explicit TimerTable(std::uint32_t bound) : timers_(bound) {}

  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  [[nodiscard]] Deadline nearest() noexcept { return armed_.nearest(); }
  [[nodiscard]] bool none_armed() const noexcept { return armed_.empty(); }
  [[nodiscard]] bool has_due() const noexcept { return first_due_ != nullptr; }

  /// A free one; null when the bound is reached (`full`) or there is no memory.
  ReactorTimer* take(bool& full) noexcept;
  void arm(ReactorTimer& timer, Deadline when) noexcept;
  /// Null: no such timer.
  ReactorTimer* find(TimerKey key) noexcept;
  /// One of this handler's that is not cancelled; null: none. Looks at every timer.
  ReactorTimer* find_of(const EventHandler& handler) noexcept;

  /// Moves what is due at `now` to the due ones; how many.
  std::size_t collect(Deadline now) noexcept;
  /// The first that is due and not cancelled, as running; null: none.
  ReactorTimer* next_due() noexcept;

  /// See Reactor::cancel. What it kept is moved to `kept`.
  bool cancel(ReactorTimer& timer, std::shared_ptr<EventHandler>& kept) noexcept;
  /// After its call; `goes_on`: it is armed for the next time after `now`.
  void finish(ReactorTimer& timer, bool goes_on, Deadline now,
              std::shared_ptr<EventHandler>& kept) noexcept;
  /// In a forked child: nobody runs the calls that the parent's threads were in.
  void forget_running() noexcept;

 private:
  void release(ReactorTimer& timer, std::shared_ptr<EventHandler>& kept) noexcept;

  ChunkedTable<ReactorTimer> timers_;
  TimerQueue armed_;
  std::uint32_t made_ = 0;
  std::size_t used_ = 0;
  ReactorTimer* free_ = nullptr;
  ReactorTimer* first_due_ = nullptr;
  ReactorTimer* last_due_ = nullptr;
};

}  // namespace baton::reactor
