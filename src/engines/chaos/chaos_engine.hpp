// ChaosEngine: injects faults into the engine that it wraps. It tests how a program bears what a
// network and a disk do rarely: short transfers, completions that come late and in another order,
// errors, cancels that come too late. All of it is within the contract, so a program that fails
// under it is wrong.
//
// Each operation has a job: a double that is submitted to the inner engine, whole or part by part,
// when its turn has come. Turns exist because operations of one direction of a stream follow one
// another (contract.md, rule 3): the next one begins only after the last one is reported. A sync
// begins after the writes before it are reported.
//
//   queued -> resting (before) -> inside -> resting (afterwards) -> told
//                                  ^   |
//                                  +---+ next part
//
// The invariant: a job is queued behind another, or in the timed list, or in the inner engine, or
// told. A told job is freed, and its operation is in told_.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engines/chaos/draws.hpp"
#include "engines/common/operation_double.hpp"
#include "engines/common/wrapping_engine.hpp"
#include "os/mutex.hpp"

namespace baton::engines::chaos {

struct Job;

/// The queues of a handle. The first job of each has its turn.
struct Record {
  std::deque<Job*> in;
  std::deque<Job*> out;
  std::deque<Job*> writes_and_syncs;  ///< of a file: a sync begins when no write is before it
  bool reset = false;                 ///< an error has ended the connection
};

enum class Stage : std::uint8_t { queued, before, inside, afterwards };

struct Job final : OperationDouble {
  explicit Job(Operation& started) noexcept : original(&started) { stand_for(started); }

  Operation* const original;
  Stage stage = Stage::queued;
  Fate fate;
  std::deque<Job*>* line = nullptr;     ///< its queue; null: it needs no order
  std::deque<Job*>* of_file = nullptr;  ///< Record::writes_and_syncs, if it is one of these
  Deadline due;                         ///< end of its delay
  Deadline cancel_due;                  ///< a postponed cancel is sent then
  bool cancelled = false;               ///< no further part is begun
  std::size_t moved = 0;                ///< bytes of the earlier parts
  std::vector<MutableBuffer> list;      ///< the buffers of this part
  bool timed = false;                   ///< in the timed list
  Job* timed_next = nullptr;
  Job* timed_previous = nullptr;
};

class ChaosEngine final : public WrappingEngine {
 public:
  ChaosEngine(std::unique_ptr<Engine> inner, const EngineOptions& options);

  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  std::error_code attach(Handle& handle) noexcept override;
  void detach(Handle& handle) noexcept override;
  Submission submit(Operation& operation, void*) noexcept override;
  CancelAnswer cancel(Operation& operation) noexcept override;
  void wait(OperationQueue& completed, Deadline deadline) noexcept override;
  bool unpin(OperationQueue& completed) noexcept override;
  [[nodiscard]] Deadline due() noexcept override;

 private:
  using Jobs = std::unordered_map<const Operation*, std::unique_ptr<Job>>;

  Job* take_in(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void forget(const Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void begin(Job& job) noexcept BATON_REQUIRES(mutex_);
  void enter(Job& job) noexcept BATON_REQUIRES(mutex_);
  bool give_part(Job& job) noexcept BATON_REQUIRES(mutex_);
  void all_came_out(OperationQueue& doubles, OperationQueue& completed) noexcept;
  void came_out(Job& job) noexcept BATON_REQUIRES(mutex_);
  void finished(Job& job, int error) noexcept BATON_REQUIRES(mutex_);
  void tell(Job& job) noexcept BATON_REQUIRES(mutex_);
  void give_turn(Job& job) noexcept BATON_REQUIRES(mutex_);
  CancelAnswer cancel_now(Job& job) noexcept BATON_REQUIRES(mutex_);
  void reset(Job& job) noexcept BATON_REQUIRES(mutex_);
  void serve_times() noexcept BATON_REQUIRES(mutex_);
  void rest(Job& job, Stage stage, Duration span) noexcept BATON_REQUIRES(mutex_);
  void add_time(Job& job) noexcept BATON_REQUIRES(mutex_);
  void forget_time(Job& job) noexcept BATON_REQUIRES(mutex_);
  void wake() noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] Deadline next_time() const noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] Record* record_of(const Job& job) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] Deadline now() const noexcept { return Deadline::at_ns(system_.monotonic_ns()); }

  const os::System& system_;
  EngineInfo info_;
  os::Mutex mutex_;
  Draws draws_ BATON_GUARDED_BY(mutex_);
  Jobs jobs_ BATON_GUARDED_BY(mutex_);
  std::unordered_map<std::uint32_t, Record> records_ BATON_GUARDED_BY(mutex_);
  Job* timed_ BATON_GUARDED_BY(mutex_) = nullptr;
  OperationQueue told_ BATON_GUARDED_BY(mutex_);
  bool leader_looks_ BATON_GUARDED_BY(mutex_) = false;  // no wake-up needed
};

}  // namespace baton::engines::chaos
