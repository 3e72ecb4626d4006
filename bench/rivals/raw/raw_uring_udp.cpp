// The echo of datagrams that io_uring allows when nothing stands between: one thread, one ring
// (ring.hpp), several blocks, each with a single-shot receive or send on its way, and one
// io_uring_enter that submits a round's requests and waits for the next completions. The floor for
// UDP on Baton's io_uring engine.
//
//   raw_uring_udp [--port P] [--block B]
//
// Prints `listening PORT`, serves until SIGTERM or SIGINT, then prints one line of JSON.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <vector>

#include "ring.hpp"
#include "rivals/rival.hpp"

namespace {

constexpr std::size_t blocks = 32;
constexpr std::uint64_t signal_tag = 1;  // any other is the address of a block

struct Block {
  std::vector<char> buffer;
  sockaddr_in peer{};
  iovec piece{};
  msghdr message{};
  bool sending = false;
};

struct Server {
  rival::Ring ring{256, 1024};
  int socket = -1;
  bool stopping = false;
  unsigned long long messages = 0;

  void start(Block& block, bool sending, std::size_t size) {
    block.sending = sending;
    block.piece = {block.buffer.data(), size};
    block.message.msg_name = &block.peer;
    block.message.msg_namelen = sizeof block.peer;
    block.message.msg_iov = &block.piece;
    block.message.msg_iovlen = 1;
    auto& request = ring.next(sending ? IORING_OP_SENDMSG : IORING_OP_RECVMSG, socket,
                              reinterpret_cast<std::uint64_t>(&block));
    request.addr = reinterpret_cast<std::uint64_t>(&block.message);
    request.len = 1;
  }

  void on_completion(const io_uring_cqe& completion) {
    if (completion.user_data == signal_tag) return void(stopping = true);
    Block& block = *reinterpret_cast<Block*>(completion.user_data);
    // Sent or not: datagrams may be lost.
    if (block.sending || completion.res < 0) return start(block, false, block.buffer.size());
    ++messages;
    start(block, true, static_cast<std::size_t>(completion.res));
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
  const sigset_t ending = rival::block_ending_signals();
  Server server;
  std::vector<Block> all(blocks);
  server.socket = rival::datagrams_on(lock_step::number(argc, argv, "--port", 0));
  for (Block& block : all) {
    block.buffer.resize(lock_step::number(argc, argv, "--block", 512));
    server.start(block, false, block.buffer.size());
  }
  const int signals = ::signalfd(-1, &ending, SFD_CLOEXEC);
  if (signals < 0) rival::die("signalfd");
  server.ring.next(IORING_OP_POLL_ADD, signals, signal_tag).poll32_events = POLLIN;
  server.serve();
  rival::print_statistics("raw_uring_udp", server.messages);
}
