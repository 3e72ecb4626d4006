// EmulatedEngine: completions made from readiness (the paper's SELECT_Provider, 000 section 11.3).
// An operation is queued at its handle, the Demultiplexer waits for readiness, and the leader,
// which handles the report, makes the system call.
//
// How system calls are saved
//
//   - A write is tried at once, in submit: usually there is room. It waits only on EAGAIN.
//   - A read is not tried: usually there is no data yet. It is watched, which costs nothing because
//     registrations of owned descriptors persist; the report then makes the call. So an echo takes
//     one receive, one send, and a share of a wait.
//   - A registration is dropped by a report that finds no operation waiting, and not earlier.
//   - A borrowed descriptor is watched for one report at a time, if the strategy can; else each
//     operation that waits registers it and removes it afterwards.
//   - An accept is tried at once only after a report whose accepts were all served, calls_max times
//     for each report, and until there are no more connections. If the first try finds none, the
//     next reports are followed by no try.
//   - Queued writes go in one sendmsg. One report serves several queued reads while data lasts:
//     after a short read there is no more, and the next report tells when there is.
// The Demultiplexer makes all strategies look level-triggered: with an edge-triggered strategy it
// polls the descriptor itself, and `watch` may answer that it is ready already.
//
// An operation must never wait for a report that was not asked for. The invariant, whenever a
// direction's mutex is free: its queue is empty, or the direction is watched, or it is in BackOffs
// and will be woken, or a worker has an operation whose end lets the queue go on. Every function
// that leaves something in a queue ends in settle() or dispatch().
//
// Locks, in the order in which they are taken: Record::in.mutex, Record::out.mutex, then one of the
// workers', the back-offs', the demultiplexer's. If EngineOptions::concurrent is false, only the
// workers' are real. Nothing blocks while they are held.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <system_error>

#include "base/chunked_table.hpp"
#include "baton/engine.hpp"
#include "baton/limits.hpp"
#include "baton/operation_queue.hpp"
#include "demux/demultiplexer.hpp"
#include "engines/common/worker_pool.hpp"
#include "engines/emulated/back_off.hpp"
#include "engines/emulated/perform.hpp"
#include "engines/emulated/record.hpp"

namespace baton::engines::emulated {

class EmulatedEngine final : public Engine, private WorkerPool::Client {
 public:
  EmulatedEngine(const EngineOptions& options, std::unique_ptr<demux::Demultiplexer> demux);
  ~EmulatedEngine() override;

  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  std::error_code attach(Handle& handle) noexcept override;
  void detach(Handle& handle) noexcept override;
  Submission submit(Operation& operation, void* record) noexcept override;
  [[nodiscard]] void* handle_record(const Handle& handle) noexcept override {
    return &records_[handle.index()];
  }
  CancelAnswer cancel(Operation& operation) noexcept override;
  void wait(OperationQueue& completed, Deadline deadline) noexcept override;
  void interrupt() noexcept override { demux_->interrupt(); }
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return demux_->descriptor(); }
  [[nodiscard]] Deadline due() noexcept override { return back_offs_.next(); }
  [[nodiscard]] EngineCounters counters() const noexcept override;
  void after_fork_in_child() noexcept override;

  [[nodiscard]] std::uint32_t worker_threads() const noexcept { return workers_.threads(); }

 private:
  /// Calls for one descriptor in a row: a busy one must not keep the others waiting. It is reported
  /// again.
  static constexpr int calls_max = 32;
  /// Reports of a listener that are followed by no try after one that was followed by a vain one.
  static constexpr int single_accepts = 16;

  enum class Ran : std::uint8_t {
    empty,     ///< the queue is empty
    blocked,   ///< EAGAIN
    more,      ///< not known; a level-triggered strategy will report it
    back_off,  ///< the first operation has to back off
    by_worker  ///< a worker has the first operation, or will
  };
  enum class Cause : std::uint8_t {
    start,   ///< of an operation, by any thread
    report,  ///< readiness, or the end of a back-off; by the leader
    look     ///< neither of these; by the leader
  };

  // The fast path: a read with one buffer or a write, on a socket with an empty queue. Each is one
  // check and one system call. Every other case takes the slow path.
  enum class Sent : std::uint8_t {
    done,
    partly,  ///< the bytes sent are recorded; the rest goes before other writes
    nothing,
    full  ///< nothing was sent: there is no room
  };
  [[gnu::always_inline]] static bool fits_one_call(const Operation& operation,
                                                   unsigned special) noexcept;
  [[gnu::noinline]] Submission submit_read(Operation& operation, Record& record) noexcept;
  [[gnu::noinline]] Submission submit_read_locked(Operation& operation, Record& record) noexcept;
  [[gnu::always_inline]] bool queue_watched(Operation& operation, Record& record) noexcept
      BATON_REQUIRES(record.in.mutex);
  [[gnu::noinline]] bool watch_borrowed(const Record& record) noexcept
      BATON_REQUIRES(record.in.mutex);
  [[gnu::noinline]] Submission submit_write(Operation& operation, Record& record) noexcept;
  [[gnu::noinline]] Submission submit_write_locked(Operation& operation, Record& record) noexcept;
  [[gnu::noinline]] Submission submit_write_datagram(Operation& operation, Record& record) noexcept;
  [[gnu::always_inline]] static bool may_send_fast(const Record& record) noexcept
      BATON_REQUIRES(record.out.mutex);
  [[gnu::noinline]] Submission write_otherwise(Operation& operation, Record& record,
                                               Sent sent) noexcept BATON_REQUIRES(record.out.mutex);
  Submission queue_rest(Operation& operation, Record& record) noexcept
      BATON_REQUIRES(record.out.mutex);
  [[gnu::always_inline]] Sent send_fast(Operation& operation, Record& record) noexcept
      BATON_REQUIRES(record.out.mutex);
  [[gnu::noinline]] Sent send_list(Operation& operation, Record& record) noexcept
      BATON_REQUIRES(record.out.mutex);
  [[gnu::always_inline]] static Sent sent(Operation& operation, Record& record, std::size_t size,
                                          ssize_t moved) noexcept BATON_REQUIRES(record.out.mutex);
  [[gnu::always_inline]] bool receive_fast(Record& record, OperationQueue& completed) noexcept
      BATON_REQUIRES(record.in.mutex);
  [[gnu::noinline]] bool receive_whole(Record& record, Operation& front,
                                       OperationQueue& completed) noexcept
      BATON_REQUIRES(record.in.mutex);
  bool receive_pooled(Record& record, Operation& front, OperationQueue& completed) noexcept
      BATON_REQUIRES(record.in.mutex);
  [[gnu::always_inline]] void take_received(Record& record, Operation& front,
                                            OperationQueue& completed) noexcept
      BATON_REQUIRES(record.in.mutex);
  void hear_writers(Record& record) noexcept BATON_EXCLUDES(record.out.mutex);
  bool receive_datagrams(Record& record, OperationQueue& completed) noexcept
      BATON_REQUIRES(record.in.mutex);

  // Starting
  [[gnu::noinline]] Submission submit_generally(Operation& operation, bool try_first) noexcept;
  Submission submit_watched(Operation& operation, Record& record, Direction& direction,
                            bool try_first) noexcept;
  Submission submit_unwatchable(Operation& operation, Direction& direction) noexcept;
  Submission submit_to_workers(Operation& operation, Record& record, Direction& direction) noexcept;
  Submission submit_connect(Operation& operation, Direction& direction) noexcept;
  Submission submit_close(Operation& operation) noexcept;

  // By readiness
  [[gnu::always_inline]] void handle(std::uint32_t index, Interest ready,
                                     OperationQueue& completed) noexcept;
  [[gnu::noinline]] bool receive_locked(Record& record, OperationQueue& completed) noexcept;
  [[gnu::noinline]] void handle_generally(std::uint32_t index, Interest ready,
                                          OperationQueue& completed) noexcept;
  void handle(Record& record, Direction& direction, bool woken, OperationQueue& completed) noexcept;
  void settle(Record& record, Direction& direction, Cause cause, bool try_first,
              OperationQueue& completed) noexcept BATON_REQUIRES(direction.mutex);
  bool settled(Record& record, Direction& direction, Ran ran, bool said_to_be_ready,
               bool by_leader) noexcept BATON_REQUIRES(direction.mutex);
  Ran run(Record& record, Direction& direction, OperationQueue& completed) noexcept
      BATON_REQUIRES(direction.mutex);
  Ran run_queue(Record& record, Direction& direction, OperationList& waits, OperationList& refused,
                OperationQueue& completed) noexcept BATON_REQUIRES(direction.mutex);
  Outcome run_front(Record& record, Direction& direction, OperationQueue& completed) noexcept
      BATON_REQUIRES(direction.mutex);
  void end_hopeless(Record& record, Direction& direction, OperationQueue& completed) noexcept
      BATON_REQUIRES(direction.mutex);
  void rest(Record& record, Direction& direction, std::uint32_t span_ms, bool by_leader) noexcept
      BATON_REQUIRES(direction.mutex);
  void look_later(Record& record, Direction& direction, bool by_leader,
                  std::uint32_t span_ms) noexcept BATON_REQUIRES(direction.mutex);
  bool may_end_unheard(const Record& record, Direction& direction) noexcept
      BATON_REQUIRES(direction.mutex);
  void fail_all(Record& record, Direction& direction, std::error_code error,
                OperationQueue& completed) noexcept BATON_REQUIRES(direction.mutex);
  static bool droppable(const Record& record, const Direction& direction) noexcept
      BATON_REQUIRES(direction.mutex);
  void drop(Record& record, const Direction& direction) noexcept BATON_REQUIRES(direction.mutex);
  void let_go(Record& record, Direction& direction) noexcept BATON_REQUIRES(direction.mutex);
  void settle_both(Record& record, Direction& in, Operation* only,
                   OperationQueue& completed) noexcept BATON_REQUIRES(in.mutex);
  void answer_both(Record& record, Direction& in, Operation* only, std::error_code error,
                   OperationQueue& completed) noexcept BATON_REQUIRES(in.mutex);

  // By workers
  bool try_file(Operation& operation, Record& record) const noexcept;
  void dispatch(Direction& direction, OperationQueue& completed) noexcept
      BATON_REQUIRES(direction.mutex);
  bool give_to_worker(Operation& operation, Direction& direction,
                      OperationQueue& completed) noexcept BATON_REQUIRES(direction.mutex);
  void take_from_workers(OperationQueue& completed) noexcept;
  void connect_tried(Operation& operation, Direction& direction, OperationQueue& completed) noexcept
      BATON_REQUIRES(direction.mutex);
  bool hand_over(Direction& direction, OperationQueue& completed) noexcept
      BATON_REQUIRES(direction.mutex);
  void came_back(Operation& operation, Direction& direction) noexcept
      BATON_REQUIRES(direction.mutex);
  void work(Operation& operation) noexcept override { performer_.work(operation); }
  void workers_finished() noexcept override { demux_->interrupt(); }

  // Both
  static bool refused(Operation& operation) noexcept;
  static bool waits_for_its_peer(const Operation& operation) noexcept;
  static std::uint32_t span_of_look(Direction& direction) noexcept BATON_REQUIRES(direction.mutex);
  static void set_aside(OperationList& queue, OperationList& refused) noexcept;
  [[nodiscard]] bool may_connect_by_worker(const Handle& handle) const noexcept;
  [[nodiscard]] bool take_waiting_connection(Operation& accept, Record& record) noexcept
      BATON_REQUIRES(record.in.mutex);
  static bool passes(const Operation& operation, const OperationList& queue) noexcept;
  static const Operation* behind_waits(const OperationList& queue) noexcept;
  Outcome perform_ahead(Operation& operation) noexcept;
  static void leave(Operation& operation, Record* record) noexcept;
  CancelAnswer cancel_at(Operation& operation, Record* record, Direction& direction) noexcept;
  [[gnu::always_inline]] void take_what_is_due(OperationQueue& completed) noexcept;
  void wake_due(OperationQueue& completed) noexcept;
  [[nodiscard]] Deadline earliest(Deadline deadline) noexcept;
  void count_shortage(const Operation& accept) noexcept;
  [[nodiscard]] Record& record_of(const Operation& operation) const noexcept;
  [[nodiscard]] static Direction& direction_of(Record& record, const Operation& operation) noexcept;
  [[nodiscard]] static Interest interest_of(const Record& record,
                                            const Direction& direction) noexcept {
    return &direction == &record.in ? Interest::in : Interest::out;
  }

  const os::System& system_;
  Log* const log_;
  const bool concurrent_;
  EngineInfo info_;
  const std::unique_ptr<demux::Demultiplexer> demux_;
  const bool tells_room_after_try_ = demux_->info().tells_room_after_try;

  os::Mutex table_mutex_;  // guards the growth of the table
  ChunkedTable<Record> records_;
  BackOffs back_offs_;
  Performer performer_;
  Direction closing_;                                // close operations that workers have
  std::array<Report, limits::reports_max> reports_;  // the leader's
  std::atomic<std::uint64_t> accept_backoffs_{0};
  std::atomic<std::uint32_t> retries_{0};      // of connects, that workers have
  std::atomic<std::int64_t> log_again_ns_{0};  // earliest time of the next line about a shortage
  WorkerPool workers_;  // last: its threads are joined before anything else is destroyed
};

inline Record& EmulatedEngine::record_of(const Operation& operation) const noexcept {
  BATON_DASSERT(operation.handle() != nullptr);
  return records_[operation.handle()->index()];
}

}  // namespace baton::engines::emulated
