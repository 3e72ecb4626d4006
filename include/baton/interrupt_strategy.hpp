// InterruptStrategy: how a wait is cut short (paper 000 section 10). Sticky: an interrupt that
// comes while no thread waits makes the next wait return at once; coalescing: many are as good as
// one. Model checking found that a plain signal, lost between unlock and wait, hangs the dispatcher
// (tests/model, row B1), so a signal stays blocked outside the wait.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/handle.hpp"
#include "baton/result.hpp"

namespace baton {

/// The options that an interrupt strategy is opened with.
struct InterruptOptions {
  const os::System* system = nullptr;  ///< every system call goes through it
  int signal_number = 0;               ///< for the signal strategy; 0: its own choice
};

class BATON_EXPORT InterruptStrategy {
 public:
  InterruptStrategy() = default;
  InterruptStrategy(const InterruptStrategy&) = delete;
  InterruptStrategy& operator=(const InterruptStrategy&) = delete;
  virtual ~InterruptStrategy() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< as in the registry

  /// The descriptor that an interrupt makes readable; invalid_handle when it works by a signal.
  [[nodiscard]] virtual NativeHandle descriptor() const noexcept = 0;

  /// The mask to wait with, for the thread that calls (its own mask less the signal); null when it
  /// works by a descriptor. Called by the leader before each wait; also tells the strategy which
  /// thread to signal. The first call of a thread blocks the signal in it.
  virtual const SignalMask* signal_mask() noexcept { return nullptr; }

  /// Any thread, any time, also a signal handler.
  virtual void interrupt() noexcept = 0;

  /// Consumes the traces of interrupts; called by the leader after a wait that was interrupted.
  virtual void reset() noexcept = 0;

  /// Whether each interrupt makes a new event of the descriptor even if earlier ones were not read,
  /// any number of times (an eventfd does; a pipe fills up). If the wait strategy reports each
  /// event (WaitStrategy::add_edge), acknowledge() is called instead of reset() and needs no read.
  [[nodiscard]] virtual bool tells_anew() const noexcept { return false; }
  /// See tells_anew().
  virtual void acknowledge() noexcept { reset(); }

  /// In the child after fork: new kernel objects in place of the shared ones.
  virtual Result<void, Failure> recreate() = 0;
};

/// Opens a strategy; a Failure says what is missing.
using InterruptStrategyFactory =
    std::function<Result<std::unique_ptr<InterruptStrategy>, Failure>(const InterruptOptions&)>;

}  // namespace baton
