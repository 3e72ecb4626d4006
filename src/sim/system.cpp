// The table of system calls of the simulated machine. Every call is a point: another thread may run
// first. Then it asks the kernel, which never blocks, and sleeps where a real call would.
//
// Calls that are not simulated answer ENOSYS: the ring, both kinds of AIO, signalfd and real-time
// signals. The queue of a signal belongs to a thread of the real kernel, and here there is only
// one.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "sim/readiness.hpp"
#include "sim/world.hpp"

namespace baton::sim {
namespace {

World& world() noexcept { return *World::current(); }
Kernel& kernel() noexcept { return world().kernel(); }
Scheduler& scheduler() noexcept { return world().scheduler(); }

constexpr std::int64_t slow_close_most_ns = 50'000;

/// A result of the kernel as the C library gives it.
template <class Result = int>
Result answer(std::int64_t result) noexcept {
  world().note(Event::call, 0, result);
  if (result >= 0) return static_cast<Result>(result);
  errno = static_cast<int>(-result);
  return static_cast<Result>(-1);
}

template <class Result>
Result no_such_call() noexcept {
  errno = ENOSYS;
  return static_cast<Result>(-1);
}

bool interrupted() noexcept { return world().random.chance(world().faults().interrupted); }

// -- addresses: a port, whatever the host ---------------------------------------------------------

int port_of(const sockaddr* address, socklen_t size, std::uint16_t& port) noexcept {
  if (address == nullptr || size < sizeof(sa_family_t)) return -EINVAL;
  if (address->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof(v4));
    port = ntohs(v4.sin_port);
    return 0;
  }
  if (address->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof(v6));
    port = ntohs(v6.sin6_port);
    return 0;
  }
  return -EAFNOSUPPORT;
}

void give_address(sockaddr* address, socklen_t* size, std::uint16_t port) noexcept {
  if (address == nullptr || size == nullptr) return;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memcpy(address, &v4, std::min<std::size_t>(*size, sizeof(v4)));
  *size = sizeof(v4);
}

std::span<const iovec> pieces_of(const iovec* list, int count) noexcept {
  return {list, static_cast<std::size_t>(count)};
}

// -- transfers ------------------------------------------------------------------------------------

std::int64_t read_node(Node* node, std::span<const iovec> pieces) noexcept {
  if (node == nullptr) return -EBADF;
  if (interrupted()) return -EINTR;
  switch (node->kind) {
    case NodeKind::stream:
    case NodeKind::pipe:
      if (world().random.chance(world().faults().again)) return -EAGAIN;
      return kernel().receive(*node, pieces);
    case NodeKind::datagram:
      return kernel().receive_from(*node, pieces, nullptr);
    case NodeKind::event: {
      if (node->counter == 0) return -EAGAIN;
      std::memcpy(pieces[0].iov_base, &node->counter, sizeof(node->counter));
      node->counter = 0;
      return sizeof(node->counter);
    }
    case NodeKind::file: {
      const std::int64_t moved = kernel().read_at(*node, pieces, node->position);
      if (moved > 0) node->position += static_cast<std::uint64_t>(moved);
      return moved;
    }
    case NodeKind::null:
      return 0;
    default:
      return -EINVAL;
  }
}

std::int64_t write_node(Node* node, std::span<const iovec> pieces) noexcept {
  if (node == nullptr) return -EBADF;
  if (node->kind == NodeKind::event) {
    std::uint64_t more = 0;
    std::memcpy(&more, pieces[0].iov_base, sizeof(more));
    if (node->counter > std::numeric_limits<std::uint64_t>::max() - 1 - more) return -EAGAIN;
    node->counter += more;
    kernel().changed(*node);
    return sizeof(more);
  }
  // A full pipe returns EAGAIN without a wait, so no signal interrupts the call.
  if (node->kind == NodeKind::pipe) return kernel().send(*node, pieces);
  if (interrupted()) return -EINTR;
  switch (node->kind) {
    case NodeKind::stream:
      if (world().random.chance(world().faults().again)) return -EAGAIN;
      return kernel().send(*node, pieces);
    case NodeKind::datagram:
      return kernel().send_to(*node, pieces, 0);
    case NodeKind::file: {
      const std::int64_t moved = kernel().write_at(*node, pieces, node->position);
      if (moved > 0) node->position += static_cast<std::uint64_t>(moved);
      return moved;
    }
    case NodeKind::null:
      return static_cast<std::int64_t>(pieces[0].iov_len);
    default:
      return -EINVAL;
  }
}

// After an EAGAIN of a file that is ready, its readiness is reported again: nothing else would end
// the program's wait.
std::int64_t told_again(Node* node, std::int64_t result) noexcept {
  if (result == -EAGAIN && node != nullptr && Kernel::ready(*node) != 0) kernel().changed(*node);
  return result;
}

/// Also stores the peer's address, for datagram sockets only.
std::int64_t receive(int fd, std::span<const iovec> pieces, sockaddr* from,
                     socklen_t* from_size) noexcept {
  Node* node = kernel().find(fd);
  if (node == nullptr) return -EBADF;
  if (node->kind != NodeKind::datagram) return told_again(node, read_node(node, pieces));
  if (interrupted()) return -EINTR;
  std::uint16_t port = 0;
  const std::int64_t moved = kernel().receive_from(*node, pieces, &port);
  if (moved >= 0) give_address(from, from_size, port);
  return moved;
}

std::int64_t transmit(int fd, std::span<const iovec> pieces, const sockaddr* to,
                      socklen_t to_size) noexcept {
  Node* node = kernel().find(fd);
  if (node == nullptr) return -EBADF;
  if (node->kind != NodeKind::datagram) return told_again(node, write_node(node, pieces));
  if (interrupted()) return -EINTR;
  std::uint16_t port = 0;
  if (to != nullptr) {
    if (const int error = port_of(to, to_size, port); error != 0) return error;
  }
  return kernel().send_to(*node, pieces, port);
}

/// For a file: whether a call that must not wait is refused. Any other call takes the disk's time.
bool would_wait(const Node& node, int flags) noexcept {
  if (node.kind != NodeKind::file) return false;
  if ((flags & RWF_NOWAIT) != 0) return world().random.chance(world().faults().no_wait_refused);
  const Faults& faults = world().faults();
  const std::int64_t span = world().random.between(faults.disk_least_ns, faults.disk_most_ns);
  if (span > 0) scheduler().work(span);
  return false;
}

// -- the table ------------------------------------------------------------------------------------

// Sets every entry that is simulated; the others answer ENOSYS.
os::System make_table() noexcept {
  os::System table = os::real_system();

  // A point as well: the clock is read inside critical sections.
  table.monotonic_ns = [] {
    scheduler().point();
    return scheduler().now();
  };
  table.monotonic_coarse_ns = [] { return scheduler().now(); };
  table.has_ticks = false;
  table.realtime_us = [] { return scheduler().now() / 1000; };
  table.futex_wait = [](std::atomic<std::uint32_t>* word, std::uint32_t expected,
                        std::int64_t deadline_ns) {
    scheduler().point();
    if (word->load(std::memory_order_seq_cst) != expected) return true;
    // Only a lock's word is waited for at the value 2 without a deadline: see os/mutex.hpp.
    const bool is_lock = expected == 2 && deadline_ns == Scheduler::never;
    if (is_lock ? scheduler().sleep_for_lock(*word, deadline_ns)
                : scheduler().sleep(word, deadline_ns)) {
      return true;
    }
    return scheduler().now() < deadline_ns;
  };
  table.futex_wake = [](std::atomic<std::uint32_t>* word, std::uint32_t count) {
    scheduler().wake(word, count);
    scheduler().point();
  };
  table.yield = [] { scheduler().yield(); };
  table.lock_point = [] { scheduler().point(); };
  table.thread_start = [](std::uint64_t* thread, void (*entry)(void*), void* argument) {
    scheduler().point();
    if (kernel().draw_failure(world().faults().no_thread, EAGAIN)) return EAGAIN;
    *thread = scheduler().start(entry, argument);
    return *thread != 0 ? 0 : EAGAIN;
  };
  table.thread_join = [](std::uint64_t thread) {
    scheduler().join(static_cast<std::uint32_t>(thread));
  };
  table.thread_self = [] { return std::uint64_t{scheduler().self()}; };
  table.kill_thread = [](std::uint64_t, int) { return no_such_call<int>(); };
  table.getpid = [] { return pid_t{2}; };
  table.usable_cores = [] { return 4U; };
  table.getrlimit = [](int resource, ::rlimit* limit) {
    limit->rlim_cur = limit->rlim_max = resource == RLIMIT_FSIZE ? RLIM_INFINITY : 1024;
    return 0;
  };

  table.read = [](int fd, void* buffer, size_t size) {
    scheduler().point();
    const iovec piece{buffer, size};
    Node* node = kernel().find(fd);
    return answer<ssize_t>(told_again(node, read_node(node, {&piece, 1})));
  };
  table.write = [](int fd, const void* buffer, size_t size) {
    scheduler().point();
    const iovec piece{const_cast<void*>(buffer), size};
    Node* node = kernel().find(fd);
    return answer<ssize_t>(told_again(node, write_node(node, {&piece, 1})));
  };
  table.readv = [](int fd, const iovec* list, int count) {
    scheduler().point();
    Node* node = kernel().find(fd);
    return answer<ssize_t>(told_again(node, read_node(node, pieces_of(list, count))));
  };
  table.writev = [](int fd, const iovec* list, int count) {
    scheduler().point();
    Node* node = kernel().find(fd);
    return answer<ssize_t>(told_again(node, write_node(node, pieces_of(list, count))));
  };
  table.preadv2 = [](int fd, const iovec* list, int count, off_t offset, int flags) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer<ssize_t>(-EBADF);
    if (would_wait(*node, flags)) return answer<ssize_t>(-EAGAIN);
    if (offset == -1)
      return answer<ssize_t>(told_again(node, read_node(node, pieces_of(list, count))));
    if (interrupted()) return answer<ssize_t>(-EINTR);
    return answer<ssize_t>(
        kernel().read_at(*node, pieces_of(list, count), static_cast<std::uint64_t>(offset)));
  };
  table.pwritev2 = [](int fd, const iovec* list, int count, off_t offset, int flags) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer<ssize_t>(-EBADF);
    if (would_wait(*node, flags)) return answer<ssize_t>(-EAGAIN);
    if (offset == -1)
      return answer<ssize_t>(told_again(node, write_node(node, pieces_of(list, count))));
    if (interrupted()) return answer<ssize_t>(-EINTR);
    return answer<ssize_t>(
        kernel().write_at(*node, pieces_of(list, count), static_cast<std::uint64_t>(offset)));
  };
  table.open = [](const char* path, int flags, mode_t) {
    scheduler().point();
    return answer(kernel().open(path, flags));
  };
  table.close = [](int fd) {
    scheduler().point();
    const int closed = kernel().close(fd);
    // The number is free at once, while the close itself may take time.
    if (world().random.chance(world().faults().slow_close)) {
      ++world().in_slow_calls;
      scheduler().work(world().random.between(0, slow_close_most_ns));
      --world().in_slow_calls;
    }
    return answer(closed);
  };
  table.fcntl = [](int fd, int command, long argument) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    if (command == F_GETFL) {
      return node->access | (node->nonblocking ? O_NONBLOCK : 0) | (node->append ? O_APPEND : 0) |
             (node->direct ? O_DIRECT : 0);
    }
    if (command == F_SETFL) node->nonblocking = (argument & O_NONBLOCK) != 0;
    return 0;
  };
  table.fstat = [](int fd, struct stat* out) {
    scheduler().point();
    const Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    *out = {};
    switch (node->kind) {
      case NodeKind::file:
        out->st_mode = S_IFREG | 0600;
        out->st_size = static_cast<off_t>(node->file->bytes.size());
        break;
      case NodeKind::pipe:
        out->st_mode = S_IFIFO | 0600;
        break;
      case NodeKind::null:
        out->st_mode = S_IFCHR | 0600;
        break;
      default:
        out->st_mode = S_IFSOCK | 0600;
    }
    return 0;
  };
  table.isatty = [](int) { return 0; };
  table.unlink = [](const char*) { return no_such_call<int>(); };
  table.lseek = [](int fd, off_t offset, int whence) -> off_t {
    Node* node = kernel().find(fd);
    if (node == nullptr || node->kind != NodeKind::file) return answer<off_t>(-ESPIPE);
    if (whence == SEEK_END) offset += static_cast<off_t>(node->file->bytes.size());
    if (whence == SEEK_CUR) offset += static_cast<off_t>(node->position);
    node->position = static_cast<std::uint64_t>(offset);
    return offset;
  };
  const auto sync = [](int fd) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    static_cast<void>(would_wait(*node, 0));
    if (interrupted()) return answer(-EINTR);
    return answer(kernel().sync(*node));
  };
  table.fsync = sync;
  table.fdatasync = sync;
  table.pipe2 = [](int fds[2], int) {
    scheduler().point();
    return answer(kernel().pipe(fds));
  };
  table.eventfd = [](unsigned initial, int) {
    scheduler().point();
    return answer(kernel().event(initial));
  };
  table.getdents64 = [](int, void*, size_t) { return no_such_call<ssize_t>(); };

  table.socket = [](int domain, int type, int) {
    scheduler().point();
    if (domain != AF_INET && domain != AF_INET6) return answer(-EAFNOSUPPORT);
    const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
    const int fd = kernel().socket(kind == SOCK_DGRAM ? NodeKind::datagram : NodeKind::stream);
    if (fd >= 0) kernel().find(fd)->nonblocking = (type & SOCK_NONBLOCK) != 0;
    return answer(fd);
  };
  table.socketpair = [](int, int, int, int fds[2]) {
    scheduler().point();
    return answer(kernel().pair(fds));
  };
  table.bind = [](int fd, const sockaddr* address, socklen_t size) {
    scheduler().point();
    Node* node = kernel().find(fd);
    std::uint16_t port = 0;
    if (node == nullptr) return answer(-EBADF);
    if (const int error = port_of(address, size, port); error != 0) return answer(error);
    return answer(kernel().bind(*node, port));
  };
  table.listen = [](int fd, int backlog) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    return answer(kernel().listen(*node, backlog));
  };
  table.accept4 = [](int fd, sockaddr* address, socklen_t* size, int flags) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    if (interrupted()) return answer(-EINTR);
    std::uint16_t peer = 0;
    const int taken = kernel().accept(*node, &peer);
    if (taken >= 0) {
      kernel().find(taken)->nonblocking = (flags & SOCK_NONBLOCK) != 0;
      give_address(address, size, peer);
    }
    return answer(taken);
  };
  table.connect = [](int fd, const sockaddr* address, socklen_t size) {
    scheduler().point();
    Node* node = kernel().find(fd);
    std::uint16_t port = 0;
    if (node == nullptr) return answer(-EBADF);
    if (const int error = port_of(address, size, port); error != 0) return answer(error);
    return answer(kernel().connect(*node, port));
  };
  table.shutdown = [](int fd, int how) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    if (how == SHUT_RD) return answer(0);
    return answer(kernel().shutdown_writing(*node));
  };
  table.recv = [](int fd, void* buffer, size_t size, int) {
    scheduler().point();
    const iovec piece{buffer, size};
    Node* node = kernel().find(fd);
    return answer<ssize_t>(told_again(node, read_node(node, {&piece, 1})));
  };
  table.send = [](int fd, const void* buffer, size_t size, int) {
    scheduler().point();
    const iovec piece{const_cast<void*>(buffer), size};
    Node* node = kernel().find(fd);
    return answer<ssize_t>(told_again(node, write_node(node, {&piece, 1})));
  };
  table.recvfrom = [](int fd, void* buffer, size_t size, int, sockaddr* from,
                      socklen_t* from_size) {
    scheduler().point();
    const iovec piece{buffer, size};
    return answer<ssize_t>(receive(fd, {&piece, 1}, from, from_size));
  };
  table.sendto = [](int fd, const void* buffer, size_t size, int, const sockaddr* to,
                    socklen_t to_size) {
    scheduler().point();
    const iovec piece{const_cast<void*>(buffer), size};
    return answer<ssize_t>(transmit(fd, {&piece, 1}, to, to_size));
  };
  table.recvmsg = [](int fd, msghdr* message, int) {
    scheduler().point();
    return answer<ssize_t>(receive(fd, {message->msg_iov, message->msg_iovlen},
                                   static_cast<sockaddr*>(message->msg_name),
                                   &message->msg_namelen));
  };
  table.sendmsg = [](int fd, const msghdr* message, int) {
    scheduler().point();
    return answer<ssize_t>(transmit(fd, {message->msg_iov, message->msg_iovlen},
                                    static_cast<const sockaddr*>(message->msg_name),
                                    message->msg_namelen));
  };
  table.getsockopt = [](int fd, int level, int name, void* value, socklen_t* size) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    int number = 0;
    if (level == SOL_SOCKET && name == SO_ERROR) number = kernel().take_error(*node);
    if (level == SOL_SOCKET && name == SO_TYPE) {
      number = node->kind == NodeKind::datagram ? SOCK_DGRAM : SOCK_STREAM;
    }
    if (level == SOL_SOCKET && name == SO_ACCEPTCONN) number = node->kind == NodeKind::listener;
    std::memcpy(value, &number, std::min<std::size_t>(*size, sizeof(number)));
    return 0;
  };
  table.setsockopt = [](int fd, int level, int name, const void* value, socklen_t size) {
    scheduler().point();
    Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    if (level == SOL_SOCKET && name == SO_REUSEPORT) {
      int on = 0;
      std::memcpy(&on, value, std::min<std::size_t>(size, sizeof(on)));
      node->reuse_port = on != 0;
    }
    return answer(0);
  };
  table.getsockname = [](int fd, sockaddr* address, socklen_t* size) {
    scheduler().point();
    const Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    give_address(address, size, node->port);
    return 0;
  };
  table.getpeername = [](int fd, sockaddr* address, socklen_t* size) {
    scheduler().point();
    const Node* node = kernel().find(fd);
    if (node == nullptr) return answer(-EBADF);
    const bool up = node->kind == NodeKind::datagram
                        ? node->peer_port != 0
                        : node->link == Link::up && !(node->out != nullptr && node->out->reset);
    if (!up) return answer(-ENOTCONN);
    give_address(address, size, node->peer_port);
    return 0;
  };

  table.io_uring_setup = [](unsigned, void*) { return no_such_call<int>(); };
  table.io_uring_enter = [](int, unsigned, unsigned, unsigned, const void*, size_t) {
    return no_such_call<int>();
  };
  table.io_uring_register = [](int, unsigned, const void*, unsigned) {
    return no_such_call<int>();
  };
  table.io_setup = [](unsigned, unsigned long*) { return no_such_call<int>(); };
  table.io_submit = [](unsigned long, long, iocb**) { return no_such_call<int>(); };
  table.io_getevents = [](unsigned long, long, long, io_event*, timespec*) {
    return no_such_call<int>();
  };
  table.aio_read = [](aiocb*) { return no_such_call<int>(); };
  table.aio_write = [](aiocb*) { return no_such_call<int>(); };
  table.aio_fsync = [](int, aiocb*) { return no_such_call<int>(); };
  table.signalfd = [](int, const sigset_t*, int) { return no_such_call<int>(); };
  table.kill = [](pid_t, int) { return no_such_call<int>(); };
  table.thread_sigmask = [](int, const sigset_t*, sigset_t* old) {
    if (old != nullptr) sigemptyset(old);
    return 0;
  };
  table.sigaction = [](int, const struct sigaction*, struct sigaction*) {
    return no_such_call<int>();
  };
  table.sigpending = [](sigset_t* set) { return sigemptyset(set); };
  table.sigtimedwait = [](const sigset_t*, siginfo_t*, const timespec*) {
    errno = EAGAIN;
    return -1;
  };
  add_readiness(table);
  return table;
}

}  // namespace

const os::System& system() noexcept {
  static const os::System table = make_table();
  return table;
}

}  // namespace baton::sim
