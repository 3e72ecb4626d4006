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

namespace uaio {
namespace {

// System calls by number: libc's functions for these are cancellation points.
constexpr int message_flags = MSG_NOSIGNAL;
constexpr int backlog = 4;
constexpr std::size_t beyond_limit = 4'096;
constexpr timespec moment{0, 100'000};

/// Room for one descriptor.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

int make_socket() noexcept { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }

void close_by_number(int descriptor) noexcept { ::syscall(SYS_close, descriptor); }

}  // namespace

DescriptorRoom::DescriptorRoom(std::size_t count) noexcept {
  if (::getrlimit(RLIMIT_NOFILE, &before_) != 0 || before_.rlim_cur >= count) return;
  rlimit more = before_;
  more.rlim_cur = std::min<rlim_t>(before_.rlim_max, count);
  raised_ = ::setrlimit(RLIMIT_NOFILE, &more) == 0;
}

DescriptorRoom::~DescriptorRoom() {
  if (raised_) ::setrlimit(RLIMIT_NOFILE, &before_);
}

int high_number() noexcept {
  // Of a table that is small enough to cost nothing, the end.
  constexpr rlim_t highest = 4'096;
  constexpr rlim_t spare = 64;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t end = std::min(limit.rlim_cur, highest);
  return end > 2 * spare ? static_cast<int>(end - spare) : 0;
}

int Mailbox::connect() noexcept {
  const int before = sender_.load(std::memory_order_acquire);
  if (is_ours(before)) {
    // Another thread may have been quicker. The peer of an earlier keeper's is gone.
    pollfd state{before, 0, 0};
    const timespec none{0, 0};
    if (::syscall(SYS_ppoll, &state, 1L, &none, nullptr, 0L) == 0) return 0;
    close_sender();
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
  // Looked at here, where programs do not choose their numbers.
  struct stat status{};
  ::fstat(sender, &status);
  if (const int high = ::fcntl(sender, F_DUPFD_CLOEXEC, high_number()); high >= 0) {
    close_by_number(sender);
    sender = high;
  }
  device_.store(status.st_dev, std::memory_order_relaxed);
  inode_.store(status.st_ino, std::memory_order_relaxed);
  sender_.store(sender, std::memory_order_release);
  return 0;
}

int Mailbox::listen() noexcept {
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return -1;
  // An address without a name has the kernel choose one.
  sockaddr_un nameless{};
  nameless.sun_family = AF_UNIX;
  address_size_ = sizeof(address_);
  const bool listens =
      ::bind(listener, reinterpret_cast<sockaddr*>(&nameless), sizeof(sa_family_t)) == 0 &&
      ::listen(listener, backlog) == 0 &&
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address_), &address_size_) == 0;
  if (listens) return listener;
  const int error = errno;
  ::close(listener);
  errno = error;
  return -1;
}

int Mailbox::accept(int listener) noexcept {
  for (;;) {
    const int receiver = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (receiver < 0) return -1;
    // A message is a pointer: only this very process may send any.
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (::getsockopt(receiver, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.pid == ::getpid()) {
      return receiver;
    }
    ::close(receiver);
  }
}

bool Mailbox::is_ours(int sender) const noexcept {
  struct stat status{};
  return sender >= 0 && ::fstat(sender, &status) == 0 &&
         status.st_ino == inode_.load(std::memory_order_relaxed) &&
         status.st_dev == device_.load(std::memory_order_relaxed);
}

void Mailbox::close_sender() noexcept {
  const int sender = sender_.exchange(-1, std::memory_order_acq_rel);
  if (is_ours(sender)) close_by_number(sender);
}

namespace {

/// A message that a thread is about to send.
struct Outgoing {
  int sender;
  void* pointer;
  iovec text;
  alignas(cmsghdr) char control[sizeof(Control)];
  mmsghdr message;
  Outgoing* below;  // the call that a handler has interrupted
  bool sent_by_handler = false;
};

[[gnu::tls_model("initial-exec")]] thread_local Outgoing* outgoing = nullptr;

void prepare(Outgoing& out, int sender, void* pointer, int fildes) noexcept {
  out.sender = sender;
  out.pointer = pointer;
  out.text = {&out.pointer, sizeof(out.pointer)};
  std::memset(out.control, 0, sizeof(out.control));
  out.message = {};
  msghdr& header = out.message.msg_hdr;
  header.msg_iov = &out.text;
  header.msg_iovlen = 1;
  if (fildes < 0) return;
  header.msg_control = out.control;
  header.msg_controllen = sizeof(out.control);
  cmsghdr* const files = CMSG_FIRSTHDR(&header);
  files->cmsg_level = SOL_SOCKET;
  files->cmsg_type = SCM_RIGHTS;
  files->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(files), &fildes, sizeof(fildes));
}

/// One try. 0 or an errno.
int send_once(Outgoing& out) noexcept {
  if (::syscall(SYS_sendmmsg, out.sender, &out.message, 1L, message_flags) == 1) return 0;
  if (errno != ENOSYS && errno != EPERM) return errno;
  // A filter knows only the older call.
  return ::syscall(SYS_sendmsg, out.sender, &out.message.msg_hdr, message_flags) >= 0 ? 0 : errno;
}

}  // namespace

// The kernel itself tells a handler whether a message was sent: it writes its length. And it reads
// the message when it is called, so that the call which the handler has interrupted sends what the
// handler has left there, a message that says nothing.
void Mailbox::help() noexcept {
  for (Outgoing* out = outgoing; out != nullptr; out = out->below) {
    if (out->message.msg_len != 0 || out->sent_by_handler) continue;
    if (::syscall(SYS_sendmsg, out->sender, &out->message.msg_hdr, message_flags) < 0) continue;
    out->pointer = nothing;
    out->message.msg_hdr.msg_control = nullptr;
    out->message.msg_hdr.msg_controllen = 0;
    out->sent_by_handler = true;
  }
}

Mailbox::Sent Mailbox::send(void* pointer, int fildes, void (*begin)(void*)) noexcept {
  const int sender = sender_.load(std::memory_order_acquire);
  if (!is_ours(sender)) return Sent::lost;
  Outgoing out;
  prepare(out, sender, pointer, fildes);
  out.below = outgoing;
  outgoing = &out;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // from here on handlers help
  if (begin != nullptr) begin(pointer);
  int error = 0;
  do {
    error = send_once(out);
    // Of a user's files only so many may be on the way (RLIMIT_NOFILE): the keeper takes them in.
    if (error == ETOOMANYREFS) ::syscall(SYS_nanosleep, &moment, nullptr);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } while ((error == ETOOMANYREFS || error == EINTR) && !out.sent_by_handler);
  outgoing = out.below;
  if (error == 0 || out.sent_by_handler) return Sent::sent;
  if (error == EPIPE || error == ECONNRESET) return Sent::lost;
  if (!is_ours(sender)) return Sent::lost;  // the program has used the number meanwhile
  errno = error;
  return Sent::failed;
}

Mailbox::Received Mailbox::receive(int receiver, void*& pointer, int& native) noexcept {
  iovec text{&pointer, sizeof(pointer)};
  Control control{};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof(control);
  native = -1;
  const ssize_t got = ::recvmsg(receiver, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Received::nothing : Received::ended;
  if (got != sizeof(pointer)) return Received::ended;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&native, CMSG_DATA(header), sizeof(native));
  }
  return Received::message;
}

}  // namespace uaio
