// SimulatedEngine: completes operations on the descriptors of a simulated machine, as a kernel with
// completion queues would. An operation that is possible completes after a random delay, unordered
// operations complete in any order, and the seed chooses the faults (sim/faults.hpp).
//
// Its facts are random, too (sim::EngineTraits): whether any thread may start, whether a start
// reaches a wait that has begun, whether it must be flushed, how much it holds. One engine thus
// presents to the core all kinds of engine that the contract allows.
//
// One thread of the system runs everything, so there are no locks, and nothing else happens between
// two calls of World::point(). Each call has such a point at its entry, where another thread of the
// simulated machine may run first.
//
// The invariant: an operation whose turn has come and whose descriptor is ready has a pending event
// (Record::due), or is in `done_`, or waits to be flushed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/chunked_table.hpp"
#include "baton/engine.hpp"
#include "engines/common/attempt.hpp"
#include "sim/world.hpp"

namespace baton::engines::simulated {

class SimulatedEngine;

/// The engine's record of a handle.
struct Record final : sim::Target, sim::Watcher {
  void fire(std::uint32_t what) noexcept override;
  void changed(sim::Node& node) noexcept override;

  SimulatedEngine* engine = nullptr;
  sim::Node* node = nullptr;
  std::uint32_t index = 0;
  OperationList in;     ///< streams: reads, in order
  OperationList out;    ///< streams and appends: writes and half closes, in order
  OperationList loose;  ///< unordered operations
  bool due = false;     ///< an event is pending
  /// A transfer was cut short. It continues after its engine has seen that (SimulatedEngine::cut_)
  /// and was flushed (again_), as on a ring.
  bool cut = false;
};

class SimulatedEngine final : public Engine, private sim::Target {
 public:
  SimulatedEngine(const EngineOptions& options, sim::World& world);
  ~SimulatedEngine() override;

  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  std::error_code attach(Handle& handle) noexcept override;
  void detach(Handle& handle) noexcept override;
  Submission submit(Operation& operation, void*) noexcept override;
  void flush() noexcept override;
  CancelAnswer cancel(Operation& operation) noexcept override;
  void wait(OperationQueue& completed, Deadline deadline) noexcept override;
  bool unpin(OperationQueue& completed) noexcept override;
  void interrupt() noexcept override;
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return descriptor_; }

 private:
  friend struct Record;

  enum class Place : std::uint8_t { none, unflushed, in, out, loose };
  enum class Done : std::uint8_t { no, yes, partly };
  struct State {
    SimulatedEngine* owner;  // this engine only while the operation is inside
    Record* record;
    std::uint32_t in_wait;  // the number of the wait in progress that does not see it, else 0
    Place place;
    bool begun;  // of a connect
    bool cancelled;
    Attempt attempt;
  };
  static State& state(Operation& operation) noexcept { return operation.engine_state<State>(); }

  void fire(std::uint32_t what) noexcept override;
  void check_thread() noexcept;
  void queue(Operation& operation) noexcept;
  static OperationList& queue_of(Record& record, Place place) noexcept;
  static Place place_of(const Operation& operation) noexcept;
  void expect(Record& record) noexcept;
  void hand_over() noexcept;
  void cut_short(Record& record) noexcept;
  void forget_cut(Record& record) noexcept;
  void see_what_was_cut() noexcept;
  void count_unflushed() noexcept;
  void run(Record& record) noexcept;
  bool run_ordered(Record& record, OperationList& queue) noexcept;
  bool run_loose(Record& record) noexcept;
  [[nodiscard]] static bool possible(const Record& record, Operation& operation) noexcept;
  Done perform(Record& record, Operation& operation) noexcept;
  Done perform_stream(Record& record, Operation& operation) noexcept;
  Done perform_datagram(Record& record, Operation& operation) noexcept;
  Done perform_file(Record& record, Operation& operation) noexcept;
  Done perform_accept(Record& record, Operation& operation) noexcept;
  Done perform_connect(Record& record, Operation& operation) noexcept;
  static Done failed(Operation& operation, std::int64_t result) noexcept;
  static void leave(Operation& operation) noexcept;
  void done(Operation& operation) noexcept;
  void signal() noexcept;
  void unsignal() noexcept;

  sim::World& world_;
  EngineInfo info_;
  const bool needs_flush_;
  const bool blind_wait_;
  bool pinned_;
  std::uint32_t owner_thread_ = 0;
  std::uint32_t held_ = 0;       // operations inside, those in done_ included
  std::uint32_t seen_done_ = 0;  // those of done_ that end a wait
  std::uint32_t wait_number_ = 0;
  bool waiting_ = false;
  bool interrupted_ = false;
  NativeHandle descriptor_ = invalid_handle;
  ChunkedTable<Record, 32> records_;
  OperationQueue unflushed_;
  std::vector<Record*> cut_;             // for the next wait to see
  std::vector<Record*> again_;           // seen, and not flushed yet
  std::uint32_t unflushed_counted_ = 0;  // in World::unflushed
  OperationQueue done_;
};

}  // namespace baton::engines::simulated
