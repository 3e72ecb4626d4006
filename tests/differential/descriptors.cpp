#include "descriptors.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <termios.h>

#include <string>
#include <utility>

namespace baton::test {
namespace {

// Blocking by default; descriptors for Baton's own use are made non-blocking by the caller.
Subject one(int fd) {
  EXPECT_GE(fd, 0) << "errno " << errno;
  Subject subject;
  subject.ours = Fd(fd);
  return subject;
}
Subject pair_of(int ours, int other) {
  Subject subject = one(ours);
  subject.others.emplace_back(other);
  return subject;
}
Subject sockets(int type) {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds), 0);
  return pair_of(fds[0], fds[1]);
}
void put(const Fd& fd, std::string_view text = "12345678") {
  EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}
Subject with_data(Subject subject) {
  put(subject.others[0]);
  return subject;
}
// Nothing fits any more; the descriptor is as blocking as before.
Subject full(Subject subject) {
  const int flags = ::fcntl(subject.ours.get(), F_GETFL);
  ::fcntl(subject.ours.get(), F_SETFL, flags | O_NONBLOCK);
  const std::string block(4'096, 'x');
  for (std::size_t size = block.size(); size > 0; size /= 2) {
    while (::write(subject.ours.get(), block.data(), size) > 0) {
    }
  }
  ::fcntl(subject.ours.get(), F_SETFL, flags);
  return subject;
}
Subject alone(Subject subject) {
  subject.others.clear();
  return subject;
}
Subject half_closed(Subject subject) {
  EXPECT_EQ(::shutdown(subject.others[0].get(), SHUT_WR), 0);
  return subject;
}

sockaddr_in loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}
Subject listener() {
  Subject subject = one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback();
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  EXPECT_EQ(::bind(subject.ours.get(), any, sizeof address), 0);
  EXPECT_EQ(::listen(subject.ours.get(), 4), 0);
  return subject;
}
Fd connected_to(const Fd& listening) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::getsockname(listening.get(), any, &size), 0);
  Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(client.get(), any, size), 0);
  return client;
}
Subject waiting_listener() {
  Subject subject = listener();
  subject.others.push_back(connected_to(subject.ours));
  return subject;
}
Subject tcp() {
  Subject listening = listener();
  Fd client = connected_to(listening.ours);
  const int accepted = ::accept4(listening.ours.get(), nullptr, nullptr, SOCK_CLOEXEC);
  return pair_of(accepted, client.release());
}
Subject tcp_reset() {
  Subject subject = tcp();
  const ::linger at_once{1, 0};
  EXPECT_EQ(::setsockopt(subject.others[0].get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once),
            0);
  subject.others.clear();
  pollfd one_of{subject.ours.get(), POLLIN, 0};  // it has arrived
  EXPECT_EQ(::poll(&one_of, 1, 10'000), 1);
  return subject;
}
Subject udp() {
  Subject subject = one(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback();
  EXPECT_EQ(::bind(subject.ours.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return subject;
}

Subject pipe_to_read() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  return pair_of(fds[0], fds[1]);
}
Subject pipe_to_write() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  return pair_of(fds[1], fds[0]);
}
// Both sides of a terminal that passes everything on unchanged.
std::pair<Fd, Fd> terminal() {
  Fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  EXPECT_EQ(::grantpt(master.get()), 0);
  EXPECT_EQ(::unlockpt(master.get()), 0);
  char name[64] = {};
  EXPECT_EQ(::ptsname_r(master.get(), name, sizeof name), 0);
  Fd slave(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios raw{};
  EXPECT_EQ(::tcgetattr(slave.get(), &raw), 0);
  ::cfmakeraw(&raw);
  EXPECT_EQ(::tcsetattr(slave.get(), TCSANOW, &raw), 0);
  return {std::move(master), std::move(slave)};
}
Subject pty() {
  auto [master, slave] = terminal();
  return pair_of(master.release(), slave.release());
}
Subject tty() {
  auto [master, slave] = terminal();
  return pair_of(slave.release(), master.release());
}

Subject file(int flags) {
  const char* const folder = ::getenv("TMPDIR");
  std::string path = std::string{folder != nullptr ? folder : "/tmp"} + "/baton.XXXXXX";
  const Fd made(::mkostemp(path.data(), O_CLOEXEC));
  put(made);
  Subject subject = one(::open(path.c_str(), flags | O_CLOEXEC));
  ::unlink(path.c_str());
  return subject;
}
Subject event(unsigned count) { return one(::eventfd(count, EFD_CLOEXEC)); }
Subject timer(bool expired) {
  Subject subject = one(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  itimerspec when{};
  when.it_value.tv_nsec = 1;
  if (expired) {
    EXPECT_EQ(::timerfd_settime(subject.ours.get(), 0, &when, nullptr), 0);
  }
  return subject;
}
Subject signals() {
  sigset_t none;
  sigemptyset(&none);
  return one(::signalfd(-1, &none, SFD_CLOEXEC));
}
Subject memory() {
  Subject subject = one(::memfd_create("baton", MFD_CLOEXEC));
  put(subject.ours);
  return subject;
}
Subject device(const char* path) { return one(::open(path, O_RDWR | O_CLOEXEC)); }

constexpr auto stream = HandleKind::stream_socket;
constexpr auto datagram = HandleKind::datagram_socket;
constexpr auto piped = HandleKind::pipe;
constexpr auto filed = HandleKind::file;
constexpr auto listening = HandleKind::listener;

constexpr DescriptorKind kinds[] = {
    {"unix stream, quiet", stream, [] { return sockets(SOCK_STREAM); }},
    {"unix stream, data", stream, [] { return with_data(sockets(SOCK_STREAM)); }},
    {"unix stream, full", stream, [] { return full(sockets(SOCK_STREAM)); }},
    {"unix stream, peer half closed", stream, [] { return half_closed(sockets(SOCK_STREAM)); }},
    {"unix stream, peer gone", stream, [] { return alone(sockets(SOCK_STREAM)); }},
    {"unix stream, data, peer gone", stream, [] { return alone(with_data(sockets(SOCK_STREAM))); }},
    {"unix stream as pipe", piped, [] { return sockets(SOCK_STREAM); }},
    {"unix stream as datagrams", datagram, [] { return sockets(SOCK_STREAM); }},
    {"tcp, quiet", stream, tcp},
    {"tcp, data", stream, [] { return with_data(tcp()); }},
    {"tcp, reset", stream, tcp_reset},
    {"tcp, never connected", stream, [] { return one(::socket(AF_INET, SOCK_STREAM, 0)); }},
    {"seqpacket, quiet", datagram, [] { return sockets(SOCK_SEQPACKET); }},
    {"seqpacket, data", datagram, [] { return with_data(sockets(SOCK_SEQPACKET)); }},
    {"seqpacket, peer gone", datagram, [] { return alone(sockets(SOCK_SEQPACKET)); }},
    {"seqpacket as stream, data", stream, [] { return with_data(sockets(SOCK_SEQPACKET)); }},
    {"unix datagrams, quiet", datagram, [] { return sockets(SOCK_DGRAM); }},
    {"unix datagrams, data", datagram, [] { return with_data(sockets(SOCK_DGRAM)); }},
    {"unix datagrams, full", datagram, [] { return full(sockets(SOCK_DGRAM)); }},
    {"unix datagrams, peer gone", datagram, [] { return alone(sockets(SOCK_DGRAM)); }},
    {"udp, quiet", datagram, udp},
    {"listener, quiet", listening, listener},
    {"listener, one waits", listening, waiting_listener},
    {"listener that does not listen", listening,
     [] { return one(::socket(AF_INET, SOCK_STREAM, 0)); }},
    {"pipe to read, quiet", piped, pipe_to_read},
    {"pipe to read, data", piped, [] { return with_data(pipe_to_read()); }},
    {"pipe to read, no writer", piped, [] { return alone(pipe_to_read()); }},
    {"pipe to write, quiet", piped, pipe_to_write},
    {"pipe to write, full", piped, [] { return full(pipe_to_write()); }},
    {"pipe to write, no reader", piped, [] { return alone(pipe_to_write()); }},
    {"pipe as file", filed, [] { return with_data(pipe_to_read()); }, true},
    {"pipe as stream", stream, [] { return with_data(pipe_to_read()); }},
    {"pty, quiet", piped, pty},
    {"pty, data", piped, [] { return with_data(pty()); }},
    {"pty, other side gone", piped, [] { return alone(pty()); }},
    {"tty, quiet", piped, tty},
    {"tty, data", piped, [] { return with_data(tty()); }},
    {"tty, hung up", piped, [] { return alone(tty()); }},
    {"file", filed, [] { return file(O_RDWR); }},
    {"file, read only", filed, [] { return file(O_RDONLY); }},
    {"file, write only", filed, [] { return file(O_WRONLY); }},
    {"file as pipe", piped, [] { return file(O_RDWR); }},
    {"file as stream", stream, [] { return file(O_RDWR); }},
    {"directory", filed, [] { return one(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }},
    {"directory as pipe", piped,
     [] { return one(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }},
    {"O_PATH", filed, [] { return one(::open("/", O_PATH | O_CLOEXEC)); }},
    {"O_PATH as pipe", piped, [] { return one(::open("/", O_PATH | O_CLOEXEC)); }},
    {"memfd", filed, memory},
    {"eventfd, 0", piped, [] { return event(0); }},
    {"eventfd, 3", piped, [] { return event(3); }},
    {"eventfd as file", filed, [] { return event(3); }, true},
    {"timerfd, not set", piped, [] { return timer(false); }},
    {"timerfd, expired", piped, [] { return timer(true); }},
    {"signalfd", piped, signals},
    {"inotify", piped, [] { return one(::inotify_init1(IN_CLOEXEC)); }},
    {"epoll", piped, [] { return one(::epoll_create1(EPOLL_CLOEXEC)); }},
    {"/dev/null", piped, [] { return device("/dev/null"); }},
    {"/dev/null as file", filed, [] { return device("/dev/null"); }},
    {"/dev/zero", piped, [] { return device("/dev/zero"); }},
    {"/dev/full", piped, [] { return device("/dev/full"); }},
    {"/dev/full as file", filed, [] { return device("/dev/full"); }},
};

}  // namespace

std::span<const DescriptorKind> descriptor_kinds() { return kinds; }

}  // namespace baton::test
