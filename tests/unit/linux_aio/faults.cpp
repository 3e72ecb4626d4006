#include "faults.hpp"

#include <errno.h>
#include <linux/aio_abi.h>
#include <string.h>

#include <mutex>

#include "base/tsan.hpp"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace baton::test {
namespace {

AioFaults orders;
std::mutex orders_mutex;
constexpr int sysctl_file = 1'000'000;  // no real descriptor
constexpr std::size_t magic_word = 4;   // of the ring

const os::System& real() { return os::real_system(); }

int fail(int error) {
  errno = error;
  return -1;
}

int setup(unsigned slots, unsigned long* context) {
  ++orders.setups;
  orders.slots = slots;
  if (orders.setup_error != 0) return fail(orders.setup_error);
  const int made = real().io_setup(slots, context);
  if (made == 0 && orders.hide_ring) reinterpret_cast<std::uint32_t*>(*context)[magic_word] = 0;
  return made;
}

// Read as the kernel reads them: what orders that before the next request in the same place goes
// through the kernel, which ThreadSanitizer does not see.
BATON_TSAN_FOREIGN_THREAD [[gnu::noinline]] bool is_poll(const iocb& request) {
  return request.aio_lio_opcode == IOCB_CMD_POLL;
}
BATON_TSAN_FOREIGN_THREAD [[gnu::noinline]] std::int64_t offset_of(const iocb& request) {
  return request.aio_offset;
}
BATON_TSAN_FOREIGN_THREAD [[gnu::noinline]] unsigned command_of(const iocb& request) {
  return request.aio_lio_opcode;
}
BATON_TSAN_FOREIGN_THREAD [[gnu::noinline]] bool must_not_wait(const iocb& request) {
  return request.aio_rw_flags == RWF_NOWAIT;
}

int submit(unsigned long context, long count, iocb** list) {
  if (is_poll(*list[0])) {
    if (orders.poll_error != 0) return fail(orders.poll_error);
    return real().io_submit(context, count, list);
  }
  {
    const std::lock_guard guard{orders_mutex};
    ++orders.submits;
    if (orders.submit_failures > 0) {
      --orders.submit_failures;
      if (orders.on_refusal) orders.on_refusal();
      return fail(orders.submit_error);
    }
    if (orders.refused != 0 && must_not_wait(*list[0])) return fail(orders.refused);
    if (orders.submit_max != 0 && count > orders.submit_max) count = orders.submit_max;
  }
  std::vector<std::int64_t> offsets;
  std::vector<unsigned> commands;
  for (long i = 0; i < count; ++i) {
    offsets.push_back(offset_of(*list[i]));
    commands.push_back(command_of(*list[i]));
  }
  const int taken = real().io_submit(context, count, list);
  const std::lock_guard guard{orders_mutex};
  if (taken > 0) {
    orders.submitted += static_cast<unsigned>(taken);
    orders.offsets.insert(orders.offsets.end(), offsets.begin(), offsets.begin() + taken);
    orders.commands.insert(orders.commands.end(), commands.begin(), commands.begin() + taken);
  }
  return taken;
}

int get_events(unsigned long context, long least, long most, io_event* events, timespec* timeout) {
  ++orders.waits;
  if (orders.interrupted > 0) {
    --orders.interrupted;
    return fail(EINTR);
  }
  const int count = real().io_getevents(context, least, most, events, timeout);
  for (int i = 0; i < count && orders.results > 0; ++i) {
    const auto* const request = reinterpret_cast<const iocb*>(events[i].obj);
    if (request->aio_lio_opcode == IOCB_CMD_POLL) continue;
    --orders.results;
    events[i].res = orders.result;
  }
  return count;
}

int cancel(unsigned long context, iocb* request, io_event* result) {
  ++orders.cancels;
  return real().io_cancel(context, request, result);
}

int destroy(unsigned long context) {
  ++orders.destroyed;
  return real().io_destroy(context);
}

int open_file(const char* path, int flags, mode_t mode) {
  if (orders.sysctl != nullptr && ::strstr(path, "aio-max-nr") != nullptr) return sysctl_file;
  return real().open(path, flags, mode);
}
ssize_t read_file(int fd, void* buffer, size_t size) {
  if (fd != sysctl_file) return fault_system().read(fd, buffer, size);
  ::strncpy(static_cast<char*>(buffer), orders.sysctl.get(), size);
  return static_cast<ssize_t>(::strlen(orders.sysctl.get()));
}
int close_file(int fd) { return fd == sysctl_file ? 0 : fault_system().close(fd); }

}  // namespace

AioFaults& aio_faults() { return orders; }

const os::System& aio_system() {
  static const os::System table = [] {
    os::System system = fault_system();
    system.io_setup = setup;
    system.io_submit = submit;
    system.io_getevents = get_events;
    system.io_cancel = cancel;
    system.io_destroy = destroy;
    system.open = open_file;
    system.read = read_file;
    system.close = close_file;
    return system;
  }();
  orders = {};
  faults().clear();
  return table;
}

}  // namespace baton::test
