// The context: setup, requests, the ring, the event.
#include "engines/linux_aio/context.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/assert.hpp"
#include "base/uninitialized.hpp"
#include "baton/limits.hpp"
#include "engines/common/look.hpp"
#include "engines/common/rw_flags.hpp"

namespace baton::engines::linux_aio {
namespace {

constexpr std::uint32_t ring_magic = 0xa10a'10a1;

std::uint64_t address_of(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// A word that the kernel reads or writes, too.
std::atomic_ref<std::uint32_t> shared(std::uint32_t& word) noexcept {
  return std::atomic_ref<std::uint32_t>{word};
}

timespec left_until(const os::System& system, Deadline deadline) noexcept {
  if (deadline == Deadline::immediately()) return {};
  const std::int64_t left = deadline.remaining(Deadline::at_ns(system.monotonic_ns())).count();
  return {left / 1'000'000'000, left % 1'000'000'000};
}

}  // namespace

/// struct aio_ring of the kernel's fs/aio.c. We own the head, the kernel owns the tail.
struct Context::Ring {
  std::uint32_t id;
  std::uint32_t size;
  std::uint32_t head;
  std::uint32_t tail;
  std::uint32_t magic;
  std::uint32_t compatible_features;
  std::uint32_t incompatible_features;
  std::uint32_t header_size;

  [[nodiscard]] io_event* events() noexcept { return reinterpret_cast<io_event*>(this + 1); }
  [[nodiscard]] bool known() const noexcept {
    return magic == ring_magic && incompatible_features == 0 && header_size == sizeof(Ring) &&
           size > 0;
  }
};

// -- opening and closing --------------------------------------------------------------------------

Context::Context(const os::System& system, std::uint32_t slots)
    : system_(system),
      slots_(slots),
      requests_(std::make_unique<iocb[]>(slots + 1)),
      events_(std::make_unique<io_event[]>(batch_max)) {
  static_assert(sizeof(Ring) == 32 && sizeof(io_event) == 32 && sizeof(iocb) == 64);
}

Context::~Context() {
  // EINVAL, EFAULT: only a bug. Waits for requests in flight; there are none.
  if (context_ != 0) static_cast<void>(system_.io_destroy(context_));
  if (event_ != invalid_handle) static_cast<void>(system_.close(event_));
}

Result<std::unique_ptr<Context>, int> Context::open(const os::System& system, std::uint32_t slots) {
  std::unique_ptr<Context> context{new Context(system, slots)};
  int error = context->setup();
  if (error == 0) error = context->probe();
  if (error != 0) return unexpected{error};
  return context;
}

int Context::setup() noexcept {
  // EFD_CLOEXEC | EFD_NONBLOCK: the count is read even when it may be zero.
  event_ = system_.eventfd(0, O_CLOEXEC | O_NONBLOCK);
  if (event_ < 0) return errno;
  if (system_.io_setup(slots_ + 1, &context_) != 0) {
    context_ = 0;
    return errno;
  }
  auto* const ring = reinterpret_cast<Ring*>(context_);
  ring_ = ring->known() ? ring : nullptr;
  iocb& wake = requests_[wake_slot()];
  wake.aio_data = wake_slot();
  wake.aio_lio_opcode = IOCB_CMD_POLL;
  wake.aio_fildes = static_cast<std::uint32_t>(event_);
  wake.aio_buf = POLLOUT;
  wake.aio_flags = IOCB_FLAG_RESFD;
  wake.aio_resfd = static_cast<std::uint32_t>(event_);
  return 0;
}

// An interrupt must complete, or this kernel is too old; versions mislead. Returns 0 or an errno.
int Context::probe() noexcept {
  const std::array slots{wake_slot()};
  if (const int taken = submit(slots); taken != 1) return taken < 0 ? -taken : EINVAL;
  Completion completion;
  if (take({&completion, 1}, Deadline::immediately()) != 1) return EINVAL;
  if (completion.slot != wake_slot() || completion.result < 0) return EINVAL;
  no_signal_ = no_signal_flag(system_);
  return 0;
}

// The child has the ring's pages, shared with its parent, and no context behind them: it may unmap
// them and touch nothing else.
void Context::abandon() noexcept {
  if (ring_ != nullptr) {
    const std::size_t size = sizeof(Ring) + ring_->size * sizeof(io_event);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    static_cast<void>(system_.munmap(ring_, (size + page - 1) / page * page));
  }
  ring_ = nullptr;
  context_ = 0;
  if (event_ != invalid_handle) static_cast<void>(system_.close(event_));
  event_ = invalid_handle;
}

// -- requests -------------------------------------------------------------------------------------

void Context::prepare(std::uint32_t slot, const Operation& operation) noexcept {
  BATON_ASSERT(slot < slots_);
  BATON_ASSERT(operation.bytes() == 0);
  iocb& request = requests_[slot];
  request = {};
  request.aio_data = slot;
  request.aio_fildes = static_cast<std::uint32_t>(operation.handle()->native());
  request.aio_flags = IOCB_FLAG_RESFD;
  request.aio_resfd = static_cast<std::uint32_t>(event_);
  if (operation.kind() == OperationKind::sync_file) {
    request.aio_lio_opcode = operation.has(Operation::data_only) ? IOCB_CMD_FDSYNC : IOCB_CMD_FSYNC;
    return;
  }
  const bool reads = operation.kind() == OperationKind::read_file;
  request.aio_offset = static_cast<std::int64_t>(operation.offset());
  request.aio_rw_flags = RWF_NOWAIT | (reads ? 0 : no_signal_);
  if (operation.has(Operation::vectored)) {
    // A list of buffers has the layout of the kernel's iovec. The kernel copies it.
    request.aio_lio_opcode = reads ? IOCB_CMD_PREADV : IOCB_CMD_PWRITEV;
    request.aio_buf = address_of(operation.buffers().data());
    request.aio_nbytes = operation.buffers().size();
  } else {
    request.aio_lio_opcode = reads ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
    request.aio_buf = address_of(operation.buffer().data);
    request.aio_nbytes = std::min(operation.buffer().size, limits::transfer_max);
  }
}

int Context::submit(std::span<const std::uint32_t> slots) noexcept {
  BATON_ASSERT(!slots.empty() && slots.size() <= lot_max);
  BATON_UNINITIALIZED std::array<iocb*, lot_max> list;
  for (std::size_t i = 0; i < slots.size(); ++i) list[i] = &requests_[slots[i]];
  const int taken = system_.io_submit(context_, static_cast<long>(slots.size()), list.data());
  return taken < 0 ? -errno : taken;
}

void Context::cancel(std::uint32_t slot) noexcept {
  io_event unused{};  // since Linux 3.12 the result comes through the ring
  // EINVAL: it cannot be cancelled, as usual. EINPROGRESS: it is being cancelled. EAGAIN: too late.
  static_cast<void>(system_.io_cancel(context_, &requests_[slot], &unused));
}

// -- interrupts and completions -------------------------------------------------------------------

void Context::wake() noexcept {
  const std::array slots{wake_slot()};
  // EAGAIN: the kernel is out of memory for a moment; the room for one interrupt is reserved.
  // EINVAL, EBADF, EFAULT: only a bug.
  while (submit(slots) == -EAGAIN) system_.yield();
}

Completion Context::taken(const io_event& event) noexcept {
  ++unread_;
  return {.slot = static_cast<std::uint32_t>(event.data), .result = event.res};
}

std::size_t Context::take(std::span<Completion> into, Deadline deadline) noexcept {
  if (ring_ != nullptr) {
    const std::size_t count = take_from_ring(into);
    if (count > 0 || deadline == Deadline::immediately()) return count;
  }
  return take_from_kernel(into, deadline);
}

std::size_t Context::take_from_ring(std::span<Completion> into) noexcept {
  // relaxed: the head is ours. acquire: the events are visible when the tail is.
  std::uint32_t head = shared(ring_->head).load(std::memory_order_relaxed);
  const std::uint32_t tail = shared(ring_->tail).load(std::memory_order_acquire);
  std::size_t count = 0;
  for (; head != tail && count < into.size(); ++count) {
    into[count] = taken(ring_->events()[head]);
    head = head + 1 == ring_->size ? 0 : head + 1;
  }
  // release: the kernel may overwrite an event only after it has been copied.
  if (count > 0) shared(ring_->head).store(head, std::memory_order_release);
  return count;
}

std::size_t Context::take_from_kernel(std::span<Completion> into, Deadline deadline) noexcept {
  timespec timeout = deadline.is_never() ? timespec{} : left_until(system_, deadline);
  const bool waits = timeout.tv_sec != 0 || timeout.tv_nsec != 0 || deadline.is_never();
  const int count = system_.io_getevents(context_, waits ? 1 : 0,
                                         static_cast<long>(std::min(into.size(), batch_max)),
                                         events_.get(), deadline.is_never() ? nullptr : &timeout);
  if (count < 0) {
    if (errno == EINTR) return 0;
    BATON_UNREACHABLE("io_getevents is refused, although it worked before");
  }
  const auto found = static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < found; ++i) into[i] = taken(events_[i]);
  return found;
}

NativeHandle Context::descriptor() noexcept {
  if (unread_ > 0) {
    std::uint64_t signals = 0;
    // EAGAIN: a completion is in the ring a moment before its signal.
    if (system_.read(event_, &signals, sizeof(signals)) == sizeof(signals)) {
      unread_ -= static_cast<std::int64_t>(signals);
    }
  }
  return unread_ < 0 ? invalid_handle : event_;
}

}  // namespace baton::engines::linux_aio
