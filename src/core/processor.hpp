// Processor: one engine with its limits, its deferred operations and its leader's seat (paper 000
// section 7). The members below belong to the processor's domain. In shared and dedicated mode that
// is the proactor's mutex, in per_thread mode the lane's own thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "baton/config.hpp"
#include "baton/engine.hpp"
#include "baton/operation_queue.hpp"
#include "core/counter.hpp"

namespace baton {

/// The states of the seat of a processor's leader, as in tests/model/seat.pml.
enum class SeatState : std::uint8_t { vacant, awake, waiting, in_handler };

struct Seat {
  /// 0: vacant; else the member's number. Written with the mutex held. Starters read it without the
  /// mutex to learn whether their own thread waits next.
  std::atomic<std::uint32_t> holder{0};
  std::atomic<SeatState> state{SeatState::vacant};
  /// Counts handlers entered and changes of the holder, so that the standby sees whether the leader
  /// has moved.
  std::uint32_t count = 0;
  /// REQUIRES: the mutex is held. A starter without the mutex reads the state and must not miss a
  /// waiting leader. So storing `waiting` is sequentially consistent with the starter's own writes.
  void set(SeatState next) noexcept {
    state.store(next,
                next == SeatState::waiting ? std::memory_order_seq_cst : std::memory_order_relaxed);
  }
  /// REQUIRES: the mutex is held.
  [[nodiscard]] bool is(SeatState wanted) const noexcept {
    return state.load(std::memory_order_relaxed) == wanted;
  }
  std::atomic<bool> interrupted{false};  ///< the waiting leader has been interrupted already
};

struct Processor {
  Processor(std::unique_ptr<Engine> opened, const ProcessorConfig& config, Mode resolved,
            std::uint16_t number)
      : engine(std::move(opened)),
        info(engine->info()),
        mode(resolved),
        index(number),
        start_any(info.start_from_any_thread && config.start != StartRule::leader_only),
        takes(config.operations),
        started_max(least(config.started_max, info.operations_max)),
        operations_max(config.operations_max != 0 ? config.operations_max
                                                  : limits::operations_max) {}

  [[nodiscard]] bool supports(OperationKind kind) const noexcept {
    return (takes.empty() || takes.has(kind)) && is_able(kind);
  }
  [[nodiscard]] bool is_able(OperationKind kind) const noexcept {
    return info.support[static_cast<std::size_t>(kind)] != Support::unsupported;
  }
  /// There are started or deferred operations, or handles to detach: a thread must lead.
  [[nodiscard]] bool has_work() const noexcept {
    return started + deferred.size() > 0 || detaching != nullptr;
  }
  /// There is something that only the leader may do, or that waits for it.
  [[nodiscard]] bool needs_leader() const noexcept {
    return !deferred.empty() || detaching != nullptr || cancelling;
  }
  [[nodiscard]] bool has_room() const noexcept { return started_max == 0 || started < started_max; }
  /// Started and deferred; any thread.
  [[nodiscard]] std::uint64_t outstanding_now() const noexcept {
    return simple == nullptr ? outstanding.get() : outstanding.sum_with(*simple);
  }

  const std::unique_ptr<Engine> engine;
  const EngineInfo& info;
  const Mode mode;
  const std::uint16_t index;
  const bool start_any;  ///< any thread may submit; else only the leader, and others defer (P-17)
  const OperationKinds takes;
  const std::uint32_t started_max;  ///< 0: no bound
  const std::uint32_t operations_max;

  OperationQueue deferred;
  std::uint32_t started = 0;         ///< inside the engine
  Counter outstanding;               ///< started and deferred, without those counted by `simple`
  const Counter* simple = nullptr;   ///< LaneCounters::simple_pending, if a Route uses it
  Handle* detaching = nullptr;       ///< handles that only the leader may detach; by Handle::next_
  bool cancelling = false;           ///< operations await a cancel that only the leader may make
  std::uint32_t cancels_served = 0;  ///< how often the leader has made them
  Seat seat;

 private:
  static std::uint32_t least(std::uint32_t a, std::uint32_t b) noexcept {
    if (a == 0) return b;
    return b == 0 || a < b ? a : b;
  }
};

}  // namespace baton
