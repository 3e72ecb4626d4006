// 03: datagrams, with operations from the proactor's cache.
//
//   03_udp [PORT]        prints "listening PORT"; then try: nc -u 127.0.0.1 PORT
//
// An overload that takes no operation takes one from the cache, which gets it back when the handler
// has run. Its handler has room for 64 bytes. Operations that are started together may complete in
// any order: datagrams promise none.

#include <array>
#include <atomic>
#include <baton/baton.hpp>
#include <cstdio>
#include <exception>
#include <utility>

#include "command_line.hpp"

namespace {

std::atomic<bool> failed{false};

// One of several that wait for datagrams at the same time.
class Echo {
 public:
  void begin(baton::DatagramSocket& socket) {
    socket_ = &socket;
    receive();
  }

 private:
  void receive() {
    // Buffer and endpoint belong to Baton until the handler is entered.
    const auto error = socket_->receive_from(buffer_, peer_, [this](baton::Operation& received) {
      if (!received.failed()) answer(received.bytes());
      if (received.error() != std::errc::operation_canceled && received.failed()) receive();
    });
    if (error && error != baton::errc::stopped) {
      std::fprintf(stderr, "not received: %s\n", error.message().c_str());
      failed = true;
      socket_->proactor().stop();
    }
  }
  void answer(std::size_t bytes) {
    const auto error = socket_->send_to({buffer_.data(), bytes}, peer_, [this](baton::Operation&) {
      receive();  // whether it was sent or not: datagrams may be lost
    });
    if (error) std::fprintf(stderr, "not sent: %s\n", error.message().c_str());
  }

  baton::DatagramSocket* socket_ = nullptr;
  baton::Endpoint peer_;
  std::array<std::byte, 65'536> buffer_;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::uint16_t port = examples::port_or_exit(argc, argv);
  baton::Proactor proactor{baton::Config::from_environment()};

  auto socket = baton::DatagramSocket::bind(proactor, baton::Endpoint::loopback(port));
  if (!socket) {
    std::fprintf(stderr, "cannot bind: %s\n", socket.error().message().c_str());
    return 1;
  }
  socket->set_option(baton::option::ReceiveBuffer{1 << 20});
  std::printf("listening %u\n", socket->local_endpoint().value().port());
  if (!examples::flush_output()) return 1;

  static std::array<Echo, 4> echoes;
  for (Echo& echo : echoes) echo.begin(*socket);
  proactor.run();
  return failed ? 1 : 0;
} catch (const std::exception& error) {
  return examples::failed(error);
}
