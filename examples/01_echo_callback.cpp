// 01: an echo server by callbacks, with operations that the program owns.
//
//   01_echo_callback [PORT]        prints "listening PORT"; then try: nc 127.0.0.1 PORT
//
// Each session has one operation and one buffer, and uses them again and again. Nothing is
// allocated after a session has begun. A handler has room for two pointers: `[this]` is one.

#include <array>
#include <baton/baton.hpp>
#include <cstdio>
#include <exception>
#include <utility>

#include "command_line.hpp"

namespace {

class Session {
 public:
  static void begin(baton::StreamSocket peer) { (new Session(std::move(peer)))->receive(); }

 private:
  explicit Session(baton::StreamSocket peer) : peer_(std::move(peer)) {}

  void receive() {
    // An error here means that nothing was started: no handler will be called.
    if (peer_.read(operation_, buffer_, [this](baton::Operation&) { received(); })) delete this;
  }
  void received() {
    // 0 bytes without an error: the peer has nothing more to say. Inside its own handler an
    // operation is ours again, and may even be destroyed.
    if (operation_.failed() || operation_.bytes() == 0) {
      delete this;  // closes the socket
      return;
    }
    const baton::ConstBuffer message{buffer_.data(), operation_.bytes()};
    if (peer_.write_all(operation_, message, [this](baton::Operation&) { sent(); })) delete this;
  }
  void sent() {
    if (operation_.failed()) {
      delete this;
    } else {
      receive();
    }
  }

  baton::StreamSocket peer_;
  baton::Operation operation_;
  std::array<std::byte, 8192> buffer_;
};

class Server {
 public:
  explicit Server(baton::Acceptor acceptor) : acceptor_(std::move(acceptor)) { accept(); }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void accept() {
    const auto error = acceptor_.accept(operation_, [this](baton::Operation& operation) {
      // An accept stays pending through a shortage of descriptors; it ends for good by cancel, by
      // close, or when the listener or the engine is lost. To accept again would fail again.
      auto peer = acceptor_.take(operation);
      if (!peer) return ended(peer.error());
      Session::begin(std::move(*peer));
      accept();
    });
    // Nothing was started, and no handler will run.
    if (error) ended(error);
  }
  void ended(std::error_code error) {
    if (error == baton::errc::stopped || error == std::errc::operation_canceled) return;  // the end
    std::fprintf(stderr, "no more connections: %s\n", error.message().c_str());
    failed_ = true;
    acceptor_.proactor().stop();
  }

  baton::Acceptor acceptor_;
  baton::Operation operation_;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::uint16_t port = examples::port_or_exit(argc, argv);
  baton::Proactor proactor{baton::Config::from_environment()};

  auto acceptor = baton::Acceptor::listen(proactor, baton::Endpoint::loopback(port));
  if (!acceptor) {
    std::fprintf(stderr, "cannot listen: %s\n", acceptor.error().message().c_str());
    return 1;
  }
  std::printf("listening %u\n", acceptor->local_endpoint().value().port());
  if (!examples::flush_output()) return 1;

  const Server server{std::move(*acceptor)};
  const baton::FinishAtEnd end{proactor};  // while the server exists, which handlers use
  proactor.run();  // in as many threads as you like: std::jthread helper{[&] { proactor.run(); }};
  return server.failed() ? 1 : 0;
} catch (const std::exception& error) {
  return examples::failed(error);
}
