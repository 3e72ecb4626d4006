// The echo server that epoll allows when nothing stands between: level-triggered (or, with
// --edge 1, edge-triggered: registered once, read until there is no more), one thread, one receive
// buffer for all connections, answers written at once, and only what the socket did not take is
// kept. This is the floor that an echo server on Baton's emulated engine is compared to.
//
//   raw_epoll [--port P] [--block B] [--edge 1]
//   raw_epoll --sessions N --block B --rounds R     in lock-step (bench/lock_step.hpp)
//
// Prints `listening PORT`, serves until SIGTERM or SIGINT, then prints one line of JSON.
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rivals/rival.hpp"

namespace {

struct Connection {
  int descriptor;
  std::string unsent;  // empty almost always: then the socket took everything
};

struct Server {
  lock_step::Peers* peers = nullptr;
  bool edge = false;
  int epoll = -1;
  int listener = -1;
  int signals = -1;
  std::vector<char> buffer;
  std::vector<std::unique_ptr<Connection>> connections;  // by descriptor
  unsigned long long messages = 0;
};

void watch(const Server& server, int operation, int descriptor, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  if (::epoll_ctl(server.epoll, operation, descriptor, &event) != 0) rival::die("epoll_ctl");
}

void add(Server& server, int fd) {
  const auto index = static_cast<std::size_t>(fd);
  if (server.connections.size() <= index) server.connections.resize(index + 1);
  server.connections[index] = std::make_unique<Connection>(Connection{fd, {}});
  watch(server, EPOLL_CTL_ADD, fd,
        server.edge ? EPOLLIN | EPOLLOUT | EPOLLET : std::uint32_t{EPOLLIN});
}

void accept_all(Server& server) {
  for (;;) {
    const int fd = ::accept4(server.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    rival::no_delay(fd);
    add(server, fd);
  }
}

void drop(Server& server, Connection& connection) {
  const int fd = connection.descriptor;
  ::close(fd);
  server.connections[static_cast<std::size_t>(fd)].reset();
}

// Sends as much as the socket takes and answers the number of bytes; -1: the connection is broken.
ssize_t send_some(const Connection& connection, const char* data, std::size_t size) {
  const ssize_t sent = ::send(connection.descriptor, data, size, MSG_NOSIGNAL);
  return sent < 0 && errno == EAGAIN ? 0 : sent;
}

// While something is unsent nothing more is read: the peer that does not read its answers stops
// being served and costs no more than one buffer.
// True: there may be more to read.
[[gnu::always_inline]] inline bool read_once(Server& server, Connection& connection) {
  const ssize_t got = ::recv(connection.descriptor, server.buffer.data(), server.buffer.size(), 0);
  if (got <= 0) {
    if (got == 0 || errno != EAGAIN) drop(server, connection);
    return false;
  }
  const auto size = static_cast<std::size_t>(got);
  ++server.messages;
  const ssize_t sent = send_some(connection, server.buffer.data(), size);
  if (sent < 0) {
    drop(server, connection);
    return false;
  }
  if (static_cast<std::size_t>(sent) < size) {
    connection.unsent.assign(server.buffer.data() + sent, size - static_cast<std::size_t>(sent));
    if (!server.edge) watch(server, EPOLL_CTL_MOD, connection.descriptor, EPOLLOUT);
    return false;
  }
  if (server.peers != nullptr) server.peers->answered();
  return size == server.buffer.size();
}

void on_readable(Server& server, Connection& connection) {
  // An edge is reported once: read until there is no more.
  while (read_once(server, connection) && server.edge) {
  }
}

void on_writable(Server& server, Connection& connection) {
  const ssize_t sent = send_some(connection, connection.unsent.data(), connection.unsent.size());
  if (sent < 0) return drop(server, connection);
  connection.unsent.erase(0, static_cast<std::size_t>(sent));
  if (connection.unsent.empty()) {
    connection.unsent.shrink_to_fit();
    if (server.edge) return on_readable(server, connection);
    watch(server, EPOLL_CTL_MOD, connection.descriptor, EPOLLIN);
  }
}

void serve(Server& server) {
  epoll_event events[256];
  for (;;) {
    const int count = ::epoll_wait(server.epoll, events, 256, -1);
    if (count < 0 && errno != EINTR) rival::die("epoll_wait");
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == server.listener) {
        accept_all(server);
      } else if (fd == server.signals) {
        return;
      } else if (Connection* const c = server.connections[static_cast<std::size_t>(fd)].get()) {
        (c->unsent.empty() ? on_readable : on_writable)(server, *c);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();

  // A signal is one more readable descriptor, so the loop has one place where it ends.
  const sigset_t ending = rival::block_ending_signals();

  Server server;
  server.buffer.resize(lock_step::number(argc, argv, "--block", 512));
  server.edge = lock_step::number(argc, argv, "--edge", 0) != 0;
  server.signals = ::signalfd(-1, &ending, SFD_NONBLOCK | SFD_CLOEXEC);
  server.epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (server.signals < 0 || server.epoll < 0 || server.buffer.empty()) rival::die("start");
  lock_step::Peers peers(argc, argv);
  if (peers.present()) {
    server.peers = &peers;
    for (const int fd : peers.sessions()) {
      ::fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
      add(server, fd);
    }
    peers.begin();
    serve(server);
  }
  server.listener = rival::listen_on(lock_step::number(argc, argv, "--port", 0));
  watch(server, EPOLL_CTL_ADD, server.listener, EPOLLIN);
  watch(server, EPOLL_CTL_ADD, server.signals, EPOLLIN);
  serve(server);
  rival::print_statistics("raw_epoll", server.messages);
  return 0;
}
