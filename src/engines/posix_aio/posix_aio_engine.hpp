// PosixAioEngine: regular files by the system's POSIX AIO (the papers' POSIX_STD_Provider, 000
// section 11.1). A piece of an operation becomes a request, a NotifyStrategy reports the end of a
// request, and the notified thread calls aio_error for all requests in flight.
//
// Files only. glibc runs the requests of one descriptor one after the other, each on a blocking
// thread. A read on a quiet socket would keep writes to it waiting for ever, and twenty such reads
// everything else. Descriptors without a position - sockets, pipes, terminals - are refused,
// whatever the kind of their handle; a team sends their operations to another processor.
//
// A vectored operation is done piece by piece, as is the rest of a short transfer: the next request
// of an operation begins when the last is complete. A list is therefore not atomic for other
// processes that read the file, as pwritev would be.
//
// One request per handle. The system has at most one request of a handle at a time. The others of
// the handle wait in its record, in the order of their starts. That costs nothing, because glibc
// runs the requests of a descriptor one by one anyway, and it has three advantages:
//
//   - A cancel loses nothing. glibc up to 2.36 at least keeps the requests of a descriptor in a
//     queue of which only the head is on its run list. aio_cancel of a head that has not begun
//     marks the next request as runnable and does not put it on the run list, so everything behind
//     it stays EINPROGRESS for ever. A request without a successor has nothing to lose.
//   - Appends keep their order.
//   - A sync covers every write before it, also one whose later pieces have not begun, of which the
//     system knows nothing.
//
// When the system takes no more (EAGAIN: its threads, its memory), submit answers busy, and what is
// inside already is postponed. Nothing tells when there is room, so after a rest it is tried again.
//
// One lock. The C library takes a process-wide lock of its own in every call, so finer locks here
// would gain nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/chunked_table.hpp"
#include "base/thread_annotations.hpp"
#include "baton/engine.hpp"
#include "baton/operation_queue.hpp"
#include "engines/common/closer.hpp"
#include "engines/posix_aio/notify.hpp"
#include "engines/posix_aio/request.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton {
class BufferPool;
}

namespace baton::engines::posix_aio {

/// The engine's record of a handle.
struct Record {
  OperationList held;   ///< in order; the first waits until none is in flight
  bool active = false;  ///< an operation is in flight or postponed
};

enum class Place : std::uint8_t {
  held,       ///< in its record's queue
  postponed,  ///< its turn has come, and the system had no room
  system      ///< its request is in flight
};

/// The engine's part of an operation. `owner`, guarded by the lock, tells that the operation is
/// inside. A cancel that comes before submit or after the end finds null, or an old value.
struct Progress {
  const Record* owner = nullptr;
  Request* request = nullptr;
  BufferPool* pool = nullptr;  ///< for a pooled read that has its block
  Place place = Place::held;
};

inline Progress& progress(Operation& operation) noexcept {
  return operation.engine_state<Progress>();
}

class PosixAioEngine final : public Engine {
 public:
  /// Throws std::bad_alloc.
  PosixAioEngine(const EngineOptions& options, std::unique_ptr<NotifyStrategy> notify);
  ~PosixAioEngine() override;

  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  std::error_code attach(Handle& handle) noexcept override;
  void detach(Handle& handle) noexcept override;
  Submission submit(Operation& operation, void*) noexcept override;
  void flush() noexcept override;
  CancelAnswer cancel(Operation& operation) noexcept override;
  void wait(OperationQueue& completed, Deadline deadline) noexcept override;
  void interrupt() noexcept override { notify_->interrupt(); }
  [[nodiscard]] NativeHandle descriptor() const noexcept override;
  [[nodiscard]] Deadline due() noexcept override;
  void after_fork_in_child() noexcept override {
    notify_->after_fork_in_child();
    closer_.abandon();
  }

 private:
  enum class Issued : std::uint8_t { taken, no_room, failed };

  // From submit to the system
  bool ready(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  int check_descriptor(const Operation& operation) const noexcept;
  Issued issue(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void dispatch(Record& record) noexcept BATON_REQUIRES(mutex_);
  void issue_postponed() noexcept BATON_REQUIRES(mutex_);

  // Back again
  void look() noexcept BATON_REQUIRES(mutex_);
  void settle(Operation& operation, int error, std::size_t moved) noexcept BATON_REQUIRES(mutex_);
  void go_on(Operation& operation, Record& record) noexcept BATON_REQUIRES(mutex_);
  void retire(Operation& operation, Record& record) noexcept BATON_REQUIRES(mutex_);
  Deadline prepare_wait(Deadline deadline) noexcept;
  [[nodiscard]] bool is_alone(const Request& request) const noexcept BATON_REQUIRES(mutex_);
  bool has_no_room() noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] bool lacks_threads() const noexcept BATON_REQUIRES(mutex_);
  Deadline end_of_rest() noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] bool leader_misses_something() const noexcept BATON_REQUIRES(mutex_);

  [[nodiscard]] Record& record_of(const Operation& operation) const noexcept
      BATON_REQUIRES(mutex_) {
    return records_[operation.handle()->index()];
  }

  const os::System& system_;
  const bool concurrent_;
  const std::unique_ptr<NotifyStrategy> notify_;
  EngineInfo info_;

  mutable os::Mutex mutex_;
  ChunkedTable<Record> records_ BATON_GUARDED_BY(mutex_);
  RequestTable requests_ BATON_GUARDED_BY(mutex_);
  std::vector<Request*> in_flight_ BATON_GUARDED_BY(mutex_);
  OperationQueue postponed_ BATON_GUARDED_BY(mutex_);
  OperationQueue finished_ BATON_GUARDED_BY(mutex_);  // complete, for the next wait
  bool refused_ BATON_GUARDED_BY(mutex_) = false;     // an operation got busy since the last sleep
  static constexpr Duration rest_min{10'000'000};
  Duration rest_ BATON_GUARDED_BY(mutex_) = rest_min;  // the next pause for lack of room
  // For flush(): whether a running wait, of this engine or over several, would miss something.
  bool fresh_ BATON_GUARDED_BY(mutex_) = false;      // requests begun since that wait was prepared
  bool waiting_ BATON_GUARDED_BY(mutex_) = false;    // the leader waits
  bool unguarded_ BATON_GUARDED_BY(mutex_) = false;  // for no request: only an interrupt ends it
  WaitList listed_;                                  // of the leader

  Closer closer_;  // last: its thread is joined before anything else is destroyed
};

}  // namespace baton::engines::posix_aio
