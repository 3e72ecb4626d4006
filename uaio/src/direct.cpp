#include "direct.hpp"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "block.hpp"
#include "futex.hpp"
#include "library.hpp"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x00000080
#endif

namespace uaio {

// The kernel's struct aio_ring (fs/aio.c), whose address is the context's name.
struct Direct::Ring {
  std::uint32_t id;
  std::uint32_t events_max;
  std::uint32_t head;
  std::uint32_t tail;
  std::uint32_t magic;
  std::uint32_t compatible;
  std::uint32_t incompatible;
  std::uint32_t header_size;
  io_event events[];
};

namespace {

constexpr std::uint32_t ring_magic = 0xa10a10a1;
// The whole system has 65,536 (fs.aio-max-nr); the kernel rounds the number up.
constexpr unsigned requests_max = 256;

/// A page that the kernel cannot write to; null: no memory. It is made without a lock, which a
/// signal handler would find held by the thread that it has interrupted.
void* closed_page() noexcept {
  static std::atomic<void*> page{nullptr};
  void* made = page.load(std::memory_order_relaxed);
  if (made != nullptr) return made;
  constexpr std::size_t size = 4'096;
  void* const fresh = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return nullptr;
  if (page.compare_exchange_strong(made, fresh, std::memory_order_relaxed)) return fresh;
  ::munmap(fresh, size);
  return made;
}

/// It cannot be done without waiting. ESPIPE: the number now belongs to a socket, which has no
/// places.
bool is_refusal(const io_event& event) noexcept {
  return event.res == -EAGAIN || event.res == -EOPNOTSUPP || event.res == -ESPIPE;
}

/// Less was moved than requested. It is the end of the file or of the disk; or the kernel moved
/// what it could without waiting, because the number now belongs to another file, or because the
/// file system reads this file through the page cache. The starter finds out which. It cannot
/// continue a vectored write.
bool is_short(const io_event& event, const Request& request) noexcept {
  return event.res > 0 && request.action != Action::writev &&
         static_cast<std::uint64_t>(event.res) < request.bytes;
}

bool goes_back(const io_event& event, const Request& request) noexcept {
  return is_refusal(event) || is_short(event, request);
}

/// The starter continues with a twin, since a collector is working on this request and will free
/// it. Null: no memory, so the collector continues with it.
Request* exchange_for_twin(Request& request, const io_event& event) noexcept {
  Request* const twin = take_twin(request);
  if (twin == nullptr) return nullptr;
  twin->result.store(event.res, std::memory_order_relaxed);
  request.stage.store(Stage::free, std::memory_order_release);
  const Handover before =
      request.handover.exchange(Handover::starter_took, std::memory_order_acq_rel);
  if (before == Handover::refused) give_request(request);  // it is done with it meanwhile
  return twin;
}

bool is_direct(const Request& request) noexcept {
  return request.native.load(std::memory_order_relaxed) == native_direct;
}

}  // namespace

bool Direct::open() noexcept {
  if (!library_.is_origin()) return false;
  if (ring() != nullptr) return true;
  if (why_.load(std::memory_order_relaxed) != 0) return false;
  aio_context_t context = 0;
  int error = ::syscall(SYS_io_setup, requests_max, &context) == 0 ? 0 : errno;
  auto* const made = reinterpret_cast<Ring*>(context);
  if (error == 0 && (made->magic != ring_magic || made->incompatible != 0 ||
                     made->header_size != sizeof(Ring) || closed_page() == nullptr)) {
    error = ENOSYS;
    ::syscall(SYS_io_destroy, context);
  }
  if (error != 0) {
    // Memory, or room among all contexts of the system, may be available the next time.
    if (error != EAGAIN && error != ENOMEM) why_.store(error, std::memory_order_relaxed);
    library_.explain("direct transfers go to the keeper: no native AIO (io_setup), errno ", error);
    return false;
  }
  Ring* none = nullptr;
  if (!ring_.compare_exchange_strong(none, made, std::memory_order_acq_rel)) {
    ::syscall(SYS_io_destroy, context);  // another thread, or a handler, was quicker
  } else {
    library_.explain("direct transfers: native AIO (io_submit)");
  }
  return true;
}

// -- starting -------------------------------------------------------------------------------------

void Direct::fill(Request& request, bool may_wait) noexcept {
  request.number.store(numbers_.fetch_add(1, std::memory_order_seq_cst), std::memory_order_relaxed);
  request.control = {};
  request.control.aio_data = reinterpret_cast<std::uintptr_t>(&request);
  request.control.aio_rw_flags = may_wait ? 0 : RWF_NOWAIT;
  if (writes(request.action) && refuses_streams()) request.control.aio_rw_flags |= RWF_DONTCACHE;
  const bool vectored = is_vectored(request.action);
  request.control.aio_lio_opcode = static_cast<std::uint16_t>(
      reads(request.action) ? (vectored ? IOCB_CMD_PREADV : IOCB_CMD_PREAD)
                            : (vectored ? IOCB_CMD_PWRITEV : IOCB_CMD_PWRITE));
  request.control.aio_fildes = static_cast<std::uint32_t>(request.fildes);
  request.control.aio_buf = reinterpret_cast<std::uintptr_t>(request.data);
  request.control.aio_nbytes = request.size;
  request.control.aio_offset = static_cast<std::int64_t>(request.offset);
  request.native.store(native_direct, std::memory_order_relaxed);
  // As late as possible: a handler that finds it pending may wait for it.
  Block{*request.block}.set_pending();
  request.stage.store(Stage::pending, std::memory_order_release);
}

/// Submits one batch to the kernel. Requests that it does not take at all are marked as refused.
std::size_t Direct::submit(Request* list[], std::size_t count) noexcept {
  iocb* controls[batch_max];
  for (std::size_t i = 0; i < count; ++i) controls[i] = &list[i]->control;
  const long taken = ::syscall(SYS_io_submit, ring(), count, controls);
  if (taken > 0) return static_cast<std::size_t>(taken);
  // EAGAIN here comes from the context: the kernel has not checked the file.
  const int error = taken == 0 || errno == EAGAIN ? 0 : errno;
  one_less();
  list[0]->result.store(-error, std::memory_order_relaxed);
  list[0]->handover.store(Handover::refused, std::memory_order_relaxed);
  return 1;
}

std::size_t Direct::start(Request* list[], std::size_t count, bool watched,
                          bool may_wait) noexcept {
  if (!open()) return count;
  // Counted first: a watcher that is about to end sees them, or this thread sees that it has ended.
  in_flight_.fetch_add(static_cast<std::uint32_t>(count), std::memory_order_seq_cst);
  if (watched && !library_.need_watcher()) {
    in_flight_.fetch_sub(static_cast<std::uint32_t>(count), std::memory_order_seq_cst);
    library_.direct_done();
    return count;
  }
  for (std::size_t i = 0; i < count; ++i) fill(*list[i], may_wait);
  const std::uint32_t first = tail();
  for (std::size_t i = 0; i < count;) i += submit(list + i, std::min(batch_max, count - i));
  if (has_something()) collect();
  const std::uint32_t end = tail();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Request& request = *list[i];
    const io_event* event = nullptr;
    if (request.handover.load(std::memory_order_acquire) == Handover::none &&
        (event = find_given_back(request, first, end)) != nullptr) {
      if (Request* const twin = exchange_for_twin(request, *event); twin != nullptr) {
        list[refused++] = twin;
        continue;
      }
    }
    // acq_rel: the second of the two sees what the first has done. A request that was given back
    // still belongs to the starter.
    auto before = Handover::none;
    if (request.handover.compare_exchange_strong(before, Handover::starter_left,
                                                 std::memory_order_acq_rel)) {
      continue;
    }
    if (before == Handover::refused) {
      list[refused++] = &request;
    } else {
      give_request(request);
    }
  }
  return refused;
}

/// The event of a request given back in the part of the ring since `first`; else null. An event
/// that was taken is still there, until the ring wraps around.
const io_event* Direct::find_given_back(const Request& request, std::uint32_t first,
                                        std::uint32_t end) const noexcept {
  const Ring& ring = *this->ring();
  for (std::uint32_t place = first; place != end; place = (place + 1) % ring.events_max) {
    const io_event& event = ring.events[place];
    const bool its_own = event.data == reinterpret_cast<std::uintptr_t>(&request);
    if (its_own && goes_back(event, request)) return &event;
  }
  return nullptr;
}

// -- collecting -----------------------------------------------------------------------------------

/// acquire: a completion is there when its index is.
std::uint32_t Direct::tail() const noexcept {
  return std::atomic_ref{ring()->tail}.load(std::memory_order_acquire);
}

bool Direct::has_something() const noexcept {
  const Ring* const ring = this->ring();
  if (ring == nullptr || !library_.is_origin()) return false;
  return taken_.load(std::memory_order_relaxed) % ring->events_max != tail();
}

/// Copies the oldest completion, then claims it. The claim fails if another thread was quicker.
/// Before the claim the request is marked as done, because the claimer may be interrupted before it
/// publishes the result. The memory of requests is never freed, so the pointer of any event is
/// valid.
///
/// Signals are blocked before a refusal is taken: a handler's sync would wait for the interrupted
/// frame that has it.
bool Direct::take(io_event& event, std::optional<SignalsBlocked>& blocked) noexcept {
  Ring& ring = *this->ring();
  for (;;) {
    std::uint64_t taken = taken_.load(std::memory_order_acquire);
    const std::uint32_t place = static_cast<std::uint32_t>(taken % ring.events_max);
    if (place == tail()) return false;
    event = ring.events[place];
    auto& request = *reinterpret_cast<Request*>(event.data);
    // acquire: what the starter has written. The kernel orders it, too, but the language's memory
    // model does not know that.
    static_cast<void>(request.stage.load(std::memory_order_acquire));
    if (is_refusal(event)) {
      if (!blocked) blocked.emplace();
    } else {
      const std::uint64_t number = request.number.load(std::memory_order_relaxed);
      // No other thread was quicker so far: the number is that of this event. release: everything
      // was read before.
      if (taken_.fetch_add(0, std::memory_order_acq_rel) != taken) continue;
      request.number_done.store(number, std::memory_order_release);
    }
    if (taken_.compare_exchange_strong(taken, taken + 1, std::memory_order_acq_rel)) return true;
  }
}

/// Tells the kernel how many completions were taken. A thread that is overtaken between the two
/// steps stores an older number for a moment. Then the kernel takes fewer requests, or wakes a
/// waiter early.
void Direct::settle_head() noexcept {
  Ring& ring = *this->ring();
  std::uint64_t told = 0;
  do {
    told = taken_.load(std::memory_order_seq_cst);
    // seq_cst, both: either the overtaking thread writes last, or this one sees it here.
    std::atomic_ref{ring.head}.store(static_cast<std::uint32_t>(told % ring.events_max),
                                     std::memory_order_seq_cst);
  } while (taken_.load(std::memory_order_seq_cst) != told);
}

void Direct::collect() noexcept {
  if (!has_something()) return;
  for (;;) {
    io_event event{};
    std::optional<SignalsBlocked> blocked;
    if (!take(event, blocked)) return;
    settle_head();
    finish(event);
  }
}

void Direct::finish(const io_event& event) noexcept {
  auto& request = *reinterpret_cast<Request*>(event.data);
  if (goes_back(event, request) && give_back(request, event)) return;
  library_.publish(request, event.res < 0 ? static_cast<int>(-event.res) : 0,
                   event.res < 0 ? -1 : static_cast<ssize_t>(event.res));
  one_less();
  const Handover before = request.handover.exchange(Handover::done, std::memory_order_acq_rel);
  if (before != Handover::none) give_request(request);
}

/// Gives it back to its starter or, if that has left, to the keeper. A late request stays marked as
/// left until the keeper has it, because a sync waits for it. False: it was short, and its starter
/// has left.
bool Direct::give_back(Request& request, const io_event& event) noexcept {
  request.result.store(event.res, std::memory_order_relaxed);
  auto before = Handover::none;
  if (!request.handover.compare_exchange_strong(before, Handover::refused,
                                                std::memory_order_acq_rel)) {
    if (before == Handover::starter_left) {
      if (is_refusal(event)) library_.hand_on(request);
      return is_refusal(event);
    }
    give_request(request);
  }
  one_less();
  return true;
}

void Direct::one_less() noexcept {
  in_flight_.fetch_sub(1, std::memory_order_seq_cst);
  library_.direct_done();
}

bool Direct::take_back(Request& request) noexcept {
  // Its destination stays set: another shard may be about to read it.
  if (!is_direct(request) || request.handed_to.load(std::memory_order_relaxed) == nullptr) {
    return false;
  }
  request.native.store(native_none, std::memory_order_relaxed);
  in_flight_.fetch_sub(1, std::memory_order_seq_cst);
  return true;
}

int Direct::wait(const timespec& timeout, std::uint32_t wanted) {
  settle_head();  // otherwise the kernel would see completions that were taken long ago
  // Waiting for more than there are would never end.
  const long count = std::max<long>(1, std::min(wanted, in_flight_.load()));
  const auto get_events = [&](long call) {
    return cancellable_call(call, reinterpret_cast<long>(ring()), count, count,
                            reinterpret_cast<long>(closed_page()), reinterpret_cast<long>(&timeout),
                            0);
  };
  // A process that is stopped and continued has run no handler. Only this call is restarted then
  // (since Linux 4.18; a filter may refuse it).
  long answer = get_events(SYS_io_pgetevents);
  if (answer < 0 && (errno == ENOSYS || errno == EPERM)) answer = get_events(SYS_io_getevents);
  if (answer == 0) return ETIMEDOUT;
  return answer < 0 && errno == EINTR ? EINTR : 0;
}

bool Direct::watch(const timespec& timeout) noexcept {
  settle_head();
  return ::syscall(SYS_io_getevents, ring(), 1L, 1L, closed_page(), &timeout) != 0;
}

// -- looking --------------------------------------------------------------------------------------

bool Direct::all_complete_below(std::uint64_t number, const Shard& shard) const noexcept {
  bool all = true;
  if (!busy()) return all;
  for_each_pending([&](const Request& each) {
    if (!is_direct(each) || each.stage.load(std::memory_order_acquire) != Stage::pending) return;
    if (each.handover.load(std::memory_order_acquire) != Handover::starter_left) return;
    const Shard* const handed_to = each.handed_to.load(std::memory_order_acquire);
    if (handed_to != nullptr && handed_to != &shard) return;
    const std::uint64_t its_own = each.number.load(std::memory_order_relaxed);
    if (its_own < number && its_own != each.number_done.load(std::memory_order_acquire)) {
      all = false;
    }
  });
  return all;
}

bool Direct::has(const Request& request) noexcept {
  return is_direct(request) && request.handed_to.load(std::memory_order_relaxed) == nullptr;
}

std::size_t Direct::count(int fildes) const noexcept {
  std::size_t found = 0;
  if (!busy()) return found;
  for_each_pending([&](const Request& each) {
    if (!has(each) || !each.concerns(fildes, nullptr)) return;
    if (each.stage.load(std::memory_order_relaxed) == Stage::pending) ++found;
  });
  return found;
}

void Direct::after_fork_in_child() noexcept {
  ring_.store(nullptr, std::memory_order_relaxed);
  why_.store(0, std::memory_order_relaxed);
  taken_.store(0, std::memory_order_relaxed);
  in_flight_.store(0, std::memory_order_relaxed);
}

}  // namespace uaio
