// The echo on libevent at its fastest: one persistent read event a connection and the system calls
// by hand, as in programs for which bufferevents are too slow. One thread, one base.
#include <event2/event.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <vector>

#include "rivals/rival.hpp"

namespace {

unsigned long long messages = 0;
handler_work::Plan plan;

struct Server {
  lock_step::Peers& peers;
  event_base* base;
  std::vector<char> block;
};

struct Session {
  Server& server;
  event* readable = nullptr;
  handler_work::Work work = plan.next();
};

void end(Session* session, int fd) {
  event_free(session->readable);
  ::close(fd);
  delete session;
}

// The peers of this benchmark read their answers, so that what is sent has room: else it waits.
bool send_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent < 0) continue;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

void on_readable(evutil_socket_t fd, short, void* argument) {
  auto* session = static_cast<Session*>(argument);
  Server& server = session->server;
  const ssize_t got = ::recv(fd, server.block.data(), server.block.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return end(session, fd);
  session->work();
  if (!send_all(fd, server.block.data(), static_cast<std::size_t>(got))) return end(session, fd);
  ++messages;
  if (server.peers.present()) server.peers.answered();
}

void add(Server& server, int fd) {
  auto* session = new Session{server};
  session->readable = event_new(server.base, fd, EV_READ | EV_PERSIST, on_readable, session);
  event_add(session->readable, nullptr);
}

void on_connection(evutil_socket_t listener, short, void* argument) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    rival::no_delay(fd);
    add(*static_cast<Server*>(argument), fd);
  }
}

void on_signal(evutil_socket_t, short, void* base) {
  event_base_loopbreak(static_cast<event_base*>(base));
}

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();
  lock_step::Peers peers(argc, argv);
  plan.set(rival::work_of(argc, argv));
  Server server{peers, event_base_new(), std::vector<char>(peers.block())};
  for (const int fd : peers.sessions()) {
    ::fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
    add(server, fd);
  }
  if (peers.present()) {
    peers.begin();
    event_base_dispatch(server.base);
  }
  const int listener = rival::listen_on(lock_step::number(argc, argv, "--port", 0));
  event_add(event_new(server.base, listener, EV_READ | EV_PERSIST, on_connection, &server),
            nullptr);
  for (const int ending : {SIGTERM, SIGINT}) {
    event_add(evsignal_new(server.base, ending, on_signal, server.base), nullptr);
  }
  event_base_dispatch(server.base);
  rival::print_statistics("libevent", messages);
}
