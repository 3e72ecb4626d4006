#include "faults.hpp"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>

#include "../../support/counting_system.hpp"
#include "engines/io_uring/abi.hpp"

namespace baton::test {
namespace {

namespace abi = engines::uring::abi;

Faults orders;
std::atomic<unsigned> enters{0};
constexpr int sysctl_file = 1'000'000;  // no real descriptor

const os::System& below() { return counting_system(); }

// Irregular, so that no pattern of calls meets only the good or only the bad ones.
bool enter_fails(unsigned number) {
  if (orders.period == 0) return false;
  return (number * 2'654'435'761U >> 16) % orders.period < orders.failing;
}

bool fails_now() {
  const unsigned call = ++orders.calls;
  if (orders.fail_call == 0 || call != orders.fail_call) return false;
  errno = ENOMEM;
  return true;
}

int setup(unsigned entries, void* argument) {
  auto& parameters = *static_cast<abi::Parameters*>(argument);
  if (fails_now()) return -1;
  errno = orders.setup_error != 0 ? orders.setup_error.get() : EINVAL;
  if (orders.setup_error != 0 || (parameters.flags & orders.unknown_flags) != 0) return -1;
  const int ring = below().io_uring_setup(entries, argument);
  parameters.features &= ~orders.hidden_features;
  orders.flags = parameters.flags;
  return ring;
}

// The submission entries of every ring mapped so far: forbidden ones are made invalid there.
struct Mapped {
  abi::Sqe* entries;
  std::size_t count;
};
Mapped mapped[16];
std::size_t mapped_count = 0;

void spoil_multishot() {
  for (std::size_t i = 0; i < mapped_count; ++i) {
    for (std::size_t j = 0; j < mapped[i].count; ++j) {
      abi::Sqe& request = mapped[i].entries[j];
      if (request.opcode == abi::op_poll_add && request.length != 0) request.length = 0xff;
    }
  }
}

// As if the kernel had no memory for their completions.
void silence_receives() {
  constexpr std::uint8_t no_completion_of_success = 1U << 6;  // IOSQE_CQE_SKIP_SUCCESS
  for (std::size_t i = 0; i < mapped_count; ++i) {
    for (std::size_t j = 0; j < mapped[i].count; ++j) {
      abi::Sqe& request = mapped[i].entries[j];
      if (request.opcode == abi::op_recv) request.flags |= no_completion_of_success;
    }
  }
}

// As with a kernel that honours the descriptor's non-blocking mode.
void let_no_send_wait() {
  for (std::size_t i = 0; i < mapped_count; ++i) {
    for (std::size_t j = 0; j < mapped[i].count; ++j) {
      abi::Sqe& request = mapped[i].entries[j];
      if (request.opcode == abi::op_send || request.opcode == abi::op_sendmsg) {
        request.operation_flags |= MSG_DONTWAIT;
      }
    }
  }
}

// As with another process that is faster each time.
void make_receives_fruitless() {
  for (std::size_t i = 0; i < mapped_count; ++i) {
    for (std::size_t j = 0; j < mapped[i].count; ++j) {
      abi::Sqe& request = mapped[i].entries[j];
      if (request.opcode == abi::op_recv) request.operation_flags |= MSG_DONTWAIT;
      const bool once = request.opcode == abi::op_poll_add && request.length == 0;
      if (!once) continue;
      const std::uint64_t tag = request.user_data;
      request = {};
      request.opcode = abi::op_nop;
      request.fd = -1;
      request.user_data = tag;
    }
  }
}

int enter(int ring, unsigned submit, unsigned wanted, unsigned flags, const void* argument,
          size_t size) {
  if (fails_now()) return -1;
  const unsigned number = enters.fetch_add(1);
  orders.enters = number + 1;
  if (enter_fails(number)) {
    errno = orders.enter_error;
    return -1;
  }
  if (orders.no_multishot_poll) spoil_multishot();
  if (orders.fruitless_receives) make_receives_fruitless();
  if (orders.hasty_sends > 0) {
    let_no_send_wait();
    --orders.hasty_sends;
  }
  if (orders.loses_receives) silence_receives();
  if (orders.submit_max != 0 && submit > orders.submit_max) submit = orders.submit_max;
  return below().io_uring_enter(ring, submit, wanted, flags, argument, size);
}

int register_call(int ring, unsigned operation, const void* argument, unsigned count) {
  if (fails_now()) return -1;
  if (operation == abi::register_send_message && orders.message_error != 0) {
    errno = orders.message_error;
    return -1;
  }
  const int result = below().io_uring_register(ring, operation, argument, count);
  if (operation == abi::register_probe && orders.hidden_opcode >= 0) {
    auto* const table = static_cast<abi::Probe*>(const_cast<void*>(argument));
    table->operations[orders.hidden_opcode].flags = 0;
  }
  return result;
}

void* map(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fails_now()) return MAP_FAILED;
  void* const at = below().mmap(address, size, protection, flags, fd, offset);
  if (mapped_count < std::size(mapped) && offset == static_cast<off_t>(abi::offset_sqes)) {
    mapped[mapped_count++] = {static_cast<abi::Sqe*>(at), size / sizeof(abi::Sqe)};
  }
  return at;
}

int unmap(void* address, size_t size) {
  for (std::size_t i = 0; i < mapped_count; ++i) {
    if (mapped[i].entries == address) mapped[i] = mapped[--mapped_count];
  }
  return below().munmap(address, size);
}

ssize_t positional_write(int fd, const iovec* list, int count, off_t offset, int flags) {
  if (orders.no_signal_flag_unknown) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return below().pwritev2(fd, list, count, offset, flags);
}

int open_file(const char* path, int flags, mode_t mode) {
  if (orders.sysctl != 0 && ::strstr(path, "io_uring_disabled") != nullptr) return sysctl_file;
  return below().open(path, flags, mode);
}
ssize_t read_file(int fd, void* buffer, size_t size) {
  if (fd != sysctl_file) return below().read(fd, buffer, size);
  *static_cast<char*>(buffer) = orders.sysctl;
  return 1;
}
int close_file(int fd) { return fd == sysctl_file ? 0 : below().close(fd); }

int event(unsigned initial, int flags) {
  return fails_now() ? -1 : below().eventfd(initial, flags);
}
int make_pipe(int ends[2], int flags) { return fails_now() ? -1 : below().pipe2(ends, flags); }

}  // namespace

Faults& faults() { return orders; }

const os::System& faulty_system() {
  static const os::System table = [] {
    os::System system = below();
    system.io_uring_setup = setup;
    system.io_uring_enter = enter;
    system.io_uring_register = register_call;
    system.mmap = map;
    system.munmap = unmap;
    system.pwritev2 = positional_write;
    system.open = open_file;
    system.read = read_file;
    system.close = close_file;
    system.eventfd = event;
    system.pipe2 = make_pipe;
    return system;
  }();
  orders = {};
  enters = 0;
  return table;
}

}  // namespace baton::test
