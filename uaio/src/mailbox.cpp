#include "mailbox.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "baton/config.hpp"

namespace uaio {
namespace {

// System calls by number: libc's functions for these are cancellation points.
constexpr int message_flags = MSG_NOSIGNAL;
constexpr int backlog = 4;
constexpr std::size_t beyond_limit = 4'096;
constexpr timespec moment{0, 100'000};
constexpr int moments_max = 50'000;
constexpr int limit_tries_max = 100;

/// Room for one descriptor.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

int make_socket() noexcept { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }

void close_by_number(int descriptor) noexcept { ::syscall(SYS_close, descriptor); }

/// Sends the pointer, and the open file unless `fildes` < 0. -1 with errno.
long put(int sender, void** pointer, int fildes) noexcept {
  iovec text{pointer, sizeof(*pointer)};
  Control control{};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (fildes >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fildes, sizeof(fildes));
  }
  return ::syscall(SYS_sendmsg, sender, &message, message_flags);
}

}  // namespace

DescriptorRoom::DescriptorRoom(std::size_t count) noexcept {
  if (::getrlimit(RLIMIT_NOFILE, &before_) != 0 || before_.rlim_cur >= count) return;
  more_ = before_;
  more_.rlim_cur = std::min<rlim_t>(before_.rlim_max, count);
  // The program may have set another limit meanwhile: keep the one that is replaced.
  raised_ = ::prlimit(0, RLIMIT_NOFILE, &more_, &before_) == 0;
}

DescriptorRoom::~DescriptorRoom() {
  rlimit now{};
  if (!raised_ || ::prlimit(0, RLIMIT_NOFILE, &before_, &now) != 0) return;
  // A different limit was set by the program just now.
  if (now.rlim_cur != more_.rlim_cur) ::setrlimit(RLIMIT_NOFILE, &now);
}

int Mailbox::connect() noexcept {
  for (Sender& each : known_) {
    if (!is_here(each)) continue;
    // The sender of an earlier keeper has lost its peer.
    pollfd state{each.number, 0, 0};
    const timespec none{0, 0};
    if (::syscall(SYS_ppoll, &state, 1L, &none, nullptr, 0L) == 0) {
      use(each);
      return 0;
    }
    close_by_number(each.number);
    each = Sender{};
  }
  int sender = make_socket();
  if (sender < 0 && errno == EMFILE) {
    const DescriptorRoom room{beyond_limit};
    sender = make_socket();
  }
  if (sender < 0) return errno;
  if (::syscall(SYS_connect, sender, &address_, address_size_) != 0) {
    const int error = errno;
    close_by_number(sender);
    return error;
  }
  // Read before it moves to the high number, which the program may close or reuse.
  struct stat status{};
  ::fstat(sender, &status);
  if (const int high = ::fcntl(sender, F_DUPFD_CLOEXEC, baton::Config::lowest_high_descriptor());
      high >= 0) {
    close_by_number(sender);
    sender = high;
  }
  Sender& place = known_[next_++ % tables_max];
  place = Sender{sender, status.st_dev, status.st_ino};
  use(place);
  return 0;
}

int Mailbox::listen() noexcept {
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return -1;
  // With an empty address the kernel chooses one.
  sockaddr_un nameless{};
  nameless.sun_family = AF_UNIX;
  address_size_ = sizeof(address_);
  const bool listens =
      ::bind(listener, reinterpret_cast<sockaddr*>(&nameless), sizeof(sa_family_t)) == 0 &&
      ::listen(listener, backlog) == 0 &&
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address_), &address_size_) == 0;
  const int error = listens ? try_out(listener) : errno;
  if (error == 0) return listener;
  ::close(listener);
  errno = error;
  return -1;
}

/// Tests whether a message arrives: a filter may allow only some of the system calls that this
/// takes. 0 or an errno.
int Mailbox::try_out(int listener) const noexcept {
  const int sender = make_socket();
  if (sender < 0) return errno;
  int error = 0;
  int receiver = -1;
  void* pointer = nullptr;
  int native = -1;
  if (::syscall(SYS_connect, sender, &address_, address_size_) != 0 ||
      (receiver = accept(listener)) < 0 || put(sender, &pointer, sender) < 0) {
    error = errno;
  } else if (receive(receiver, 0, pointer, native) != Received::message) {
    error = ENOSYS;
  }
  for (const int each : {sender, receiver, native}) {
    if (each >= 0) close_by_number(each);
  }
  return error;
}

int Mailbox::accept(int listener) noexcept {
  for (;;) {
    const int receiver = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (receiver < 0) return -1;
    // A message is a pointer: only this process may send one.
    ucred peer{};
    socklen_t size = sizeof(peer);
    const bool is_known = ::getsockopt(receiver, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    if (is_known && peer.pid == ::getpid()) return receiver;
    const int error = errno;
    ::close(receiver);
    errno = error;
    if (!is_known) return -1;  // a filter refuses it
  }
}

bool Mailbox::is_here(const Sender& sender) noexcept {
  struct stat status{};
  return sender.number >= 0 && ::fstat(sender.number, &status) == 0 &&
         status.st_ino == sender.inode && status.st_dev == sender.device;
}

Mailbox::Sender Mailbox::current() const noexcept {
  const int number = sender_.load(std::memory_order_acquire);
  return {number, device_.load(std::memory_order_relaxed), inode_.load(std::memory_order_relaxed)};
}

void Mailbox::use(const Sender& sender) noexcept {
  device_.store(sender.device, std::memory_order_relaxed);
  inode_.store(sender.inode, std::memory_order_relaxed);
  sender_.store(sender.number, std::memory_order_release);
}

void Mailbox::close_sender() noexcept {
  for (Sender& each : known_) {
    if (is_here(each)) close_by_number(each.number);
    each = Sender{};
  }
  use(Sender{});
}

Mailbox::Sent Mailbox::send(void* pointer, int fildes) noexcept {
  const Sender sender = current();
  if (!is_here(sender)) return Sent::lost;
  long answer = -1;
  bool again = false;
  int moments = moments_max;
  do {
    answer = put(sender.number, &pointer, fildes);
    // The number of a user's files in flight is limited (RLIMIT_NOFILE). The keeper takes its own
    // in. But others may belong to messages of the program, which it receives late or never.
    const bool too_many = answer < 0 && errno == ETOOMANYREFS && --moments > 0;
    if (too_many) ::syscall(SYS_nanosleep, &moment, nullptr);
    again = too_many || (answer < 0 && errno == EINTR);
  } while (again);
  if (answer >= 0) return Sent::sent;
  if (errno == EPIPE || errno == ECONNRESET) return Sent::lost;
  const int error = errno;
  if (!is_here(sender)) return Sent::lost;  // the program has used the number meanwhile
  errno = error;
  return Sent::failed;
}

Mailbox::Received Mailbox::receive(int receiver, std::size_t count, void*& pointer,
                                   int& native) noexcept {
  Received received = peek(receiver, pointer, native);
  for (int tries = limit_tries_max; received == Received::truncated && tries > 0; --tries) {
    const DescriptorRoom room{count};
    received = peek(receiver, pointer, native);
    if (received != Received::truncated || room.is_short()) break;
    ::nanosleep(&moment, nullptr);  // else a program that keeps changing it might stay in step
  }
  if (received == Received::nothing || received == Received::ended) return received;
  // Removes the message, without its file; by the same call, because a filter may allow no other.
  msghdr taken{};
  static_cast<void>(::recvmsg(receiver, &taken, MSG_DONTWAIT));
  return Received::message;
}

/// Leaves the message in the socket, so that its file can be requested again: the program may lower
/// its limit at any moment.
Mailbox::Received Mailbox::peek(int receiver, void*& pointer, int& native) noexcept {
  iovec text{&pointer, sizeof(pointer)};
  Control control{};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof(control);
  native = -1;
  const ssize_t got = ::recvmsg(receiver, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Received::nothing : Received::ended;
  if (got != sizeof(pointer)) return Received::ended;
  if ((message.msg_flags & MSG_CTRUNC) != 0) return Received::truncated;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&native, CMSG_DATA(header), sizeof(native));
  }
  return Received::message;
}

}  // namespace uaio
