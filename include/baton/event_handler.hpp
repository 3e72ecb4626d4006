// EventHandler: what a Reactor calls when a descriptor is ready, a time has come, a signal has
// arrived or it was notified. An interface to derive from; for a plain callable there are overloads
// of the Reactor's calls.
//
// Threads and lifetime. Calls for one registration never overlap: while one runs, the registration
// is suspended, whichever thread has it. Timeouts, signals and notifications that name the handler
// itself may come from another thread at the same time. on_close is the last call for a
// registration. It comes exactly once, and never while another call of that registration runs.
// After it the reactor does not touch the handler any more. So `delete this` is allowed there, if
// the handler has nothing else at the reactor. A handler given as a shared_ptr is kept alive until
// on_close has returned. on_close, and the destructors of handlers and callables, count as long
// calls: they may wait for other threads of the reactor.
#pragma once

#include <cstdint>
#include <system_error>

#include "baton/deadline.hpp"
#include "baton/export.hpp"
#include "baton/handle.hpp"
#include "baton/interest.hpp"

namespace baton {

/// The result of a handler: it decides about the event that it was called for.
enum class Next : std::uint8_t {
  keep,   ///< call again when it is ready (again); a periodic timer goes on
  again,  ///< there is more: call again without asking the system, after all others had their turn
  drop,   ///< this event is not wanted any more; the last one dropped ends the registration. Ends
          ///< a timer or a signal without on_close
  remove  ///< ends the registration, the timer or the signal: on_close comes next
};

/// Identifies one timer of a reactor for ever; a default-constructed key identifies none.
struct TimerKey {
  std::uint32_t index = 0;       ///< place in its table
  std::uint32_t generation = 0;  ///< raised each time the place is used again
  friend constexpr bool operator==(TimerKey, TimerKey) noexcept = default;
};

class BATON_EXPORT EventHandler {
 public:
  EventHandler() = default;
  EventHandler(const EventHandler&) = delete;
  EventHandler& operator=(const EventHandler&) = delete;
  virtual ~EventHandler();

  /// `fd` may be read or accepted from, or has an error or an end to report. After a notification
  /// it need not be ready, and `fd` is invalid_handle if the handler itself was notified.
  virtual Next on_input(NativeHandle fd);
  /// The same for writing; a connect has ended.
  virtual Next on_output(NativeHandle fd);
  /// Urgent data (POLLPRI); with nothing else watched: errors and hang-ups, too.
  virtual Next on_exception(NativeHandle fd);
  /// A timer is due. `due` is when it should have come.
  virtual Next on_timeout(TimerKey timer, Deadline due);
  /// A signal has arrived; in a thread of the reactor, not in a signal handler.
  virtual Next on_signal(int number);
  /// The registration of `fd` has ended: by request or answer (no error), or because the descriptor
  /// could not be watched any more. The descriptor is not closed: it is the handler's. `fd` is
  /// invalid_handle if it was a timer, or a signal, that has ended by answering `remove`.
  virtual void on_close(NativeHandle fd, std::error_code why) noexcept;
};

}  // namespace baton
