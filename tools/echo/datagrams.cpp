// The echo over UDP, by callbacks and by coroutines. The server handles several datagrams at once,
// each with a block, which receives the next one when the datagram was sent back.
#include <memory>
#include <utility>

#include "baton/coro/scope.hpp"
#include "baton/coro/task.hpp"
#include "server.hpp"

namespace baton::tools {
namespace {

constexpr int receive_buffer_bytes = 1 << 20;

// Room for the datagrams that arrive while all blocks are taken. If the system gives less, more
// datagrams may be lost, which is allowed.
void prepare(DatagramSocket& socket) {
  static_cast<void>(socket.set_option(option::ReceiveBuffer{receive_buffer_bytes}));
}

// Deletes itself when the server drains.
class Datagram {
 public:
  Datagram(EchoServer& server, DatagramSocket& socket)
      : server_(server),
        socket_(socket),
        block_(std::make_unique_for_overwrite<std::byte[]>(server.block())) {
    if (server.works()) work_ = server.next_work();
  }
  ~Datagram() { server_.add(traffic_); }

  void receive() {
    if (server_.draining()) return end({});
    const auto handler = [this](Operation&) { on_received(); };
    const MutableBuffer buffer{block_.get(), server_.block()};
    if (const auto error = socket_.receive_from(operation_, buffer, peer_, handler)) end(error);
  }

 private:
  void on_received() {
    if (operation_.failed()) return end(operation_.error());
    const ConstBuffer received{block_.get(), operation_.bytes()};
    server_.count_message(traffic_, received.size);
    work_();
    const auto handler = [this](Operation&) { receive(); };  // also if it could not be sent
    if (const auto error = socket_.send_to(operation_, received, peer_, handler)) end(error);
  }

  void end(std::error_code error) {
    server_.ended(error);
    delete this;
  }

  EchoServer& server_;
  DatagramSocket& socket_;
  Endpoint peer_;
  std::unique_ptr<std::byte[]> block_;
  EchoServer::Traffic traffic_;
  handler_work::Work work_;
  Operation operation_;
};

Task<void> echo_datagrams(EchoServer& server, DatagramSocket& socket) {
  const auto block = std::make_unique_for_overwrite<std::byte[]>(server.block());
  handler_work::Work work = server.works() ? server.next_work() : handler_work::Work{};
  EchoServer::Traffic traffic;
  Endpoint peer;
  std::error_code error;
  while (!error && !server.draining()) {
    const auto received = co_await socket.receive_from({block.get(), server.block()}, peer);
    if (!received) {
      error = received.error();
      continue;
    }
    server.count_message(traffic, *received);
    work();
    static_cast<void>(co_await socket.send_to({block.get(), *received}, peer));  // may be lost
  }
  server.add(traffic);
  server.ended(error);
}

}  // namespace

void serve_datagrams_by_callback(EchoServer& server, DatagramSocket socket) {
  prepare(socket);
  DatagramSocket& taken = server.take(std::move(socket));
  for (std::size_t i = 0; i < EchoServer::datagrams_max; ++i) {
    (new Datagram(server, taken))->receive();
  }
}

void serve_datagrams_by_coroutine(EchoServer& server, DatagramSocket socket) {
  prepare(socket);
  DatagramSocket& taken = server.take(std::move(socket));
  for (std::size_t i = 0; i < EchoServer::datagrams_max; ++i) {
    server.proactor().spawn(echo_datagrams(server, taken));
  }
}

}  // namespace baton::tools
