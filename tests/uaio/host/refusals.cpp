// The kernel's calls seen and refused within the library. Direct requests that the kernel rejects
// late: a device may find out that it would have to wait long after the request was started.
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "host.hpp"

namespace {

enum class Submits { to_the_kernel, held, refused };
std::atomic<Submits> submits{Submits::to_the_kernel};

/// The aiocb whose start is not over, and the answer to a cancel of it.
aiocb* is_starting;
int answer_to_cancel;
std::atomic<bool> messages_are_refused{false};

/// The kernel's struct aio_ring (fs/aio.c), and the held slots.
struct Ring {
  std::uint32_t id, events_max, head, tail, magic, compatible, incompatible, header_size;
  io_event events[];
};
Ring* ring;
iocb* held;

/// As the kernel does. Afterwards this process has no native AIO.
void give_back() {
  ring->events[ring->tail] = {held->aio_data, reinterpret_cast<std::uintptr_t>(held), -EAGAIN, 0};
  std::atomic_ref{ring->tail}.store((ring->tail + 1) % ring->events_max);
  submits = Submits::refused;
}

// Not a static of the function: its guard would make this same call to wait for another thread.
using Call = long (*)(long, ...);
std::atomic<Call> libc_syscall;

}  // namespace

// In place of libc's, for the library too. Threads are cancelled in it, so it is not `noexcept` as
// libc declares it to be.
extern "C" [[gnu::visibility("default")]] long our_syscall(long number, ...) __asm__("syscall");
long our_syscall(long number, ...) {
  Call call = libc_syscall;
  if (call == nullptr) {
    libc_syscall = call = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "syscall"));
  }
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  if (number == SYS_sendmsg && is_starting != nullptr) {
    aiocb& block = *std::exchange(is_starting, nullptr);
    if (aio_error(&block) == EINPROGRESS) answer_to_cancel = aio_cancel(block.aio_fildes, &block);
  }
  if (number == SYS_sendmsg && messages_are_refused) {
    errno = EPERM;
    return -1;
  }
  if (number == SYS_io_submit && submits == Submits::held) {
    ring = reinterpret_cast<Ring*>(a[0]);
    held = *reinterpret_cast<iocb**>(a[2]);
    return 1;
  }
  if (number == SYS_io_submit && submits == Submits::refused) {
    errno = EAGAIN;
    return -1;
  }
  return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// The write takes much longer than a sync that does not wait for it. Without native AIO only the
// sync of the same descriptor is tried: the system's library lets the other one overtake.
HOST_CASE(sync_waits_for_what_the_kernel_gives_back_late, "order") {
  constexpr std::size_t size = 32U << 20;
  const int file = host::temporary(O_DIRECT, size);
  const int again = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR);
  const int other = host::temporary(O_DIRECT, 4'096);
  aiocb write = host::request(file, host::aligned(size), size);
  aiocb syncs[] = {host::request(file, nullptr, 0), host::request(again, nullptr, 0)};
  aiocb read = host::request(other, host::aligned(), 4'096);
  submits = Submits::held;
  CHECK(aio_write(&write) == 0);
  aiocb& sync = syncs[held != nullptr ? 1 : 0];
  CHECK(aio_fsync(O_SYNC, &sync) == 0);
  if (held != nullptr) give_back();
  CHECK(aio_read(&read) == 0);  // finds the released slots
  host::wait_for(sync);
  CHECK(aio_error(&write) == 0);
  CHECK(host::finish(write) == static_cast<ssize_t>(size) && host::finish(sync) == 0);
  CHECK(host::finish(read) == 4'096);
}
// As in a handler that has interrupted the start.
HOST_CASE(cancel_while_a_request_is_started, "answers") {
  host::Pipe pipe;
  char byte = 0;
  for (int i = 0; i < 3; ++i) {
    aiocb read = host::request(pipe.out(), &byte, 1);
    answer_to_cancel = AIO_NOTCANCELED;
    is_starting = &read;
    CHECK(aio_read(&read) == 0);
    is_starting = nullptr;
    CHECK(answer_to_cancel == AIO_NOTCANCELED);
    CHECK(::write(pipe.in(), "s", 1) == 1 && host::finish(read) == 1);
  }
}
// It does not say that a request is over which is pending.
HOST_CASE(cancel_that_cannot_be_sent, "filters") {
  host::Pipe pipe;
  host::Pipe other;
  char bytes[2] = {};
  aiocb read = host::request(pipe.out(), &bytes[0], 1);
  aiocb waiting = host::request(other.out(), &bytes[1], 1);
  CHECK(aio_read(&read) == 0 && aio_read(&waiting) == 0);
  messages_are_refused = true;
  const int of_the_number = aio_cancel(pipe.out(), nullptr);
  const int of_the_block = aio_cancel(pipe.out(), &read);
  messages_are_refused = false;
  const bool is_pending = aio_error(&read) == EINPROGRESS;
  CHECK(of_the_number == (is_pending ? AIO_NOTCANCELED : AIO_CANCELED));
  CHECK(of_the_block == (is_pending ? AIO_NOTCANCELED : AIO_ALLDONE));
  CHECK(::write(pipe.in(), "c", 1) == 1 && ::write(other.in(), "c", 1) == 1);
  CHECK(host::finish(waiting) == 1 && host::finish(read) == (is_pending ? 1 : -1));
}
