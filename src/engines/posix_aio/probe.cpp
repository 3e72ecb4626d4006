// Probes by trying: reads an eventfd that holds a value.
#include "engines/posix_aio/probe.hpp"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "base/tsan.hpp"
#include "os/fork.hpp"

namespace baton::engines::posix_aio {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 5s;  // on a loaded machine; it takes some microseconds
constexpr Duration look = 20ms;    // a notification may be lost

struct Sample {
  aiocb block{};
  std::uint64_t value = 0;
};

bool waited_for(const os::System& system, NotifyStrategy& notify, const aiocb& block,
                WaitList& list) {
  const Deadline begin = Deadline::at_ns(system.monotonic_ns());
  const Deadline end = Deadline::after(patience, begin);
  for (Deadline now = begin; now < end; now = Deadline::at_ns(system.monotonic_ns())) {
    if (system.aio_error(&block) != EINPROGRESS) return true;
    list.assign(1, &block);
    notify.wait(list, std::min(end, Deadline::after(look, now)));
  }
  return system.aio_error(&block) != EINPROGRESS;
}

}  // namespace

Result<void, Failure> probe(const os::System& system, NotifyStrategy& notify) {
  // All memory for the wait is allocated before the request begins, because from then on the system
  // writes into the sample.
  auto sample = std::make_unique<Sample>();
  WaitList list;
  list.reserve(2);
  const int event = system.eventfd(1, O_CLOEXEC | O_NONBLOCK);
  if (event < 0) {
    return unavailable(code_of(errno), "no descriptor left (`ulimit -n`): " +
                                           std::system_category().message(errno));
  }
  aiocb& block = sample->block;
  block.aio_fildes = event;
  block.aio_buf = &sample->value;
  block.aio_nbytes = sizeof(sample->value);
  notify.prepare(block);
  if (system.aio_read(&block) != 0) {
    const int error = errno;
    notify.not_taken();
    system.close(event);
    return unavailable(code_of(error),
                       error == ENOSYS ? "the system has no POSIX AIO"
                       : error == EAGAIN
                           ? "the system's AIO has no room for a single request (limits of "
                             "threads, `ulimit -u`, or of AIO)"
                           : "aio_read: " + std::system_category().message(error));
  }
  if (!waited_for(system, notify, block, list)) {
    // The request is queued for a thread that does not come. If it cannot be cancelled, the system
    // keeps the sample.
    if (system.aio_cancel(event, &block) == AIO_NOTCANCELED) {
      static_cast<void>(sample.release());
      return unavailable(ReasonCode::probe_failed, "a request is begun and never ends");
    }
    system.aio_return(&block);
    system.close(event);
    return unavailable(ReasonCode::probe_failed,
                       "requests are taken and not worked on: other requests of this process hold "
                       "all threads of the system's AIO");
  }
  const int error = system.aio_error(&block);
  const ssize_t size = system.aio_return(&block);
  system.close(event);
  if (error != 0 || size != static_cast<ssize_t>(sizeof(sample->value))) {
    return unavailable(ReasonCode::probe_failed,
                       "a request ends with " + std::system_category().message(error));
  }
  return {};
}

// The child has the records of the system's AIO and none of its threads, so a request started there
// may wait for ever. Its lock may also have been held at the fork.
Result<void, Failure> check_not_forked() {
  static std::atomic<std::int64_t> first_use{-1};
  const std::int64_t now = os::fork_generation();
  std::int64_t first = -1;
  if (first_use.compare_exchange_strong(first, now) || first == now) return {};
  return unavailable(
      ReasonCode::unsuitable,
      "this process was forked after its parent had used the system's AIO, which does not survive "
      "that");
}

// When a thread of glibc's AIO takes one of several queued requests, it makes another thread.
// ThreadSanitizer does not know the first thread, and the program ends in the allocation that the
// new one needs. So the bound on threads is out of reach, and no thread is kept for later. Each
// request then gets a thread at once, from the caller, or follows the one of the same descriptor.
// The queue stays empty.
void know_all_threads() {
#ifdef BATON_TSAN
  static const bool asked [[maybe_unused]] = [] {
    aioinit wanted{};
    wanted.aio_threads = 10'000;
    wanted.aio_num = 64;
    wanted.aio_idle_time = -1;
    ::aio_init(&wanted);
    return true;
  }();
#endif
}

}  // namespace baton::engines::posix_aio
