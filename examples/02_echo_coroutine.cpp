// 02: the same server by coroutines.
//
//   02_echo_coroutine [PORT]        prints "listening PORT"; then try: nc 127.0.0.1 PORT
//
// A session is a loop again. The operations live in the coroutine's frame, so that nothing is
// allocated here either, once frames come from their cache.

#include <array>
#include <baton/baton.hpp>
#include <cstdio>
#include <exception>
#include <utility>

#include "command_line.hpp"

baton::Task<void> session(baton::StreamSocket peer) {
  std::array<std::byte, 8192> buffer;
  for (;;) {
    auto received = co_await peer.read(buffer);
    if (!received || *received == 0) co_return;
    if (auto sent = co_await peer.write_all({buffer.data(), *received}); !sent) co_return;
  }
}

baton::Task<void> serve(baton::Acceptor acceptor, std::error_code& ended) {
  baton::Proactor& proactor = acceptor.proactor();
  while (!ended) {
    auto peer = co_await acceptor.accept();
    if (peer)
      proactor.spawn(session(std::move(*peer)));
    else
      ended = peer.error();
  }
  proactor.stop();  // without accepts the server ends
}

int main(int argc, char** argv) try {
  const std::uint16_t port = examples::port_or_exit(argc, argv);
  std::error_code ended;
  baton::Proactor proactor{baton::Config::from_environment()};
  auto acceptor = baton::Acceptor::listen(proactor, baton::Endpoint::loopback(port));
  if (!acceptor) {
    std::fprintf(stderr, "cannot listen: %s\n", acceptor.error().message().c_str());
    return 1;
  }
  std::printf("listening %u\n", acceptor->local_endpoint().value().port());
  if (!examples::flush_output()) return 1;
  proactor.spawn(serve(std::move(*acceptor), ended));
  proactor.run();
  std::fprintf(stderr, "no more connections: %s\n", ended.message().c_str());
  return 1;
} catch (const std::exception& error) {
  return examples::failed(error);
}
