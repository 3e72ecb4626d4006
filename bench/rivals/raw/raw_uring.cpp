// The echo server that io_uring allows when nothing stands between: one thread, one ring, which
// ring.hpp maps by hand, a single-shot receive or send per connection into the connection's own
// buffer, and one io_uring_enter that submits a round's requests and waits for the next
// completions. The floor for Baton's io_uring engine. Needs Linux 6.1 and its header.
//
//   raw_uring [--port P] [--block B]
//   raw_uring --sessions N --block B --rounds R     in lock-step (bench/lock_step.hpp)
//
// Prints `listening PORT`, serves until SIGTERM or SIGINT, then prints one line of JSON.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "ring.hpp"
#include "rivals/rival.hpp"

namespace {

struct Connection {
  int descriptor;
  bool sending;
  unsigned offset, size;  // sent of the bytes received, and these
  std::unique_ptr<char[]> buffer;
};

// Requests of no connection; a connection's tag is its address.
constexpr std::uint64_t accept_tag = 1, signal_tag = 2;

struct Server {
  lock_step::Peers* peers = nullptr;
  rival::Ring ring{1024, 32'768};
  int listener = -1;
  unsigned block = 512;
  bool stopping = false;
  unsigned long long messages = 0;
  void start_accept() {
    ring.next(IORING_OP_ACCEPT, listener, accept_tag).accept_flags = SOCK_CLOEXEC;
  }

  void start_receive(Connection* c) {
    c->sending = false;
    auto& request = ring.next(IORING_OP_RECV, c->descriptor, reinterpret_cast<std::uint64_t>(c));
    request.addr = reinterpret_cast<std::uint64_t>(c->buffer.get());
    request.len = block;
  }

  void start_send(Connection* c) {
    c->sending = true;
    auto& request = ring.next(IORING_OP_SEND, c->descriptor, reinterpret_cast<std::uint64_t>(c));
    request.addr = reinterpret_cast<std::uint64_t>(c->buffer.get() + c->offset);
    request.len = c->size - c->offset;
    request.msg_flags = MSG_NOSIGNAL;
  }

  void add(int descriptor) {
    start_receive(new Connection{descriptor, false, 0, 0, std::make_unique<char[]>(block)});
  }

  void on_accept(int answer) {
    if (answer >= 0) {
      rival::no_delay(answer);
      add(answer);
    }
    start_accept();
  }

  void on_transfer(Connection* c, int answer) {
    if (answer <= 0) {
      ::close(c->descriptor);
      delete c;
    } else if (!c->sending) {
      ++messages;
      c->offset = 0;
      c->size = static_cast<unsigned>(answer);
      start_send(c);
    } else {
      c->offset += static_cast<unsigned>(answer);
      if (c->offset < c->size) return start_send(c);
      if (peers != nullptr) peers->answered();
      start_receive(c);
    }
  }

  void on_completion(const io_uring_cqe& completion) {
    if (completion.user_data == accept_tag) return on_accept(completion.res);
    if (completion.user_data == signal_tag) return void(stopping = true);
    on_transfer(reinterpret_cast<Connection*>(completion.user_data), completion.res);
  }

  void serve() {
    while (!stopping) {
      ring.enter(1);
      ring.reap([this](const io_uring_cqe& completion) { on_completion(completion); });
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();
  const sigset_t ending = rival::block_ending_signals();

  Server server;
  lock_step::Peers peers(argc, argv);
  server.block = static_cast<unsigned>(peers.block());
  if (peers.present()) {
    server.peers = &peers;
    for (const int fd : peers.sessions()) server.add(fd);
    peers.begin();
    server.serve();
  }
  server.listener = rival::listen_on(lock_step::number(argc, argv, "--port", 0));
  ::fcntl(server.listener, F_SETFL, 0);  // the ring waits, and would not on a non-blocking one
  const int signals = ::signalfd(-1, &ending, SFD_CLOEXEC);
  if (signals < 0 || server.block == 0) rival::die("start");
  server.ring.next(IORING_OP_POLL_ADD, signals, signal_tag).poll32_events = POLLIN;
  server.start_accept();
  server.serve();
  rival::print_statistics("raw_uring", server.messages);
  return 0;
}
