// 12: a server that is started with its listener (socket activation, sd_listen_fds(3)).
//
//   systemd-socket-activate -l 7007 ./12_activated       then try: nc 127.0.0.1 7007
//
// The parent - systemd, inetd, a server that forks its workers - has opened the socket and passes
// it on as descriptor 3. LISTEN_FDS tells how many there are, LISTEN_PID for which process. The
// socket blocks, and other processes may accept from it, too. A process that finds a connection may
// be late, and would sleep in accept(2) until the next. Adopted as owned, as here, it is made
// non-blocking for all of them, and no process sleeps. A borrowed one is left as it is.

#include <unistd.h>

#include <array>
#include <baton/baton.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "command_line.hpp"

namespace {

constexpr int first_descriptor = 3;

int number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  const std::string_view digits{text != nullptr ? text : ""};
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc{} && end == digits.data() + digits.size() ? number : 0;
}

baton::Task<void> session(baton::StreamSocket peer) {
  std::array<std::byte, 8192> buffer;
  for (;;) {
    auto received = co_await peer.read(buffer);
    if (!received || *received == 0) co_return;
    if (auto sent = co_await peer.write_all({buffer.data(), *received}); !sent) co_return;
  }
}

baton::Task<void> serve(baton::Acceptor acceptor) {
  while (auto peer = co_await acceptor.accept()) {
    acceptor.proactor().spawn(session(std::move(*peer)));
  }
}

}  // namespace

int main() try {
  const int count = number_of("LISTEN_PID") == ::getpid() ? number_of("LISTEN_FDS") : 0;
  if (count <= 0) {
    std::fprintf(stderr,
                 "no listener was passed on: LISTEN_PID is not this process, or "
                 "LISTEN_FDS not above 0; try systemd-socket-activate(1)\n");
    return 1;
  }
  // The children of this process are not meant.
  ::unsetenv("LISTEN_PID");
  ::unsetenv("LISTEN_FDS");

  baton::Proactor proactor{baton::Config::from_environment()};
  std::vector<baton::Acceptor> acceptors;
  for (int i = 0; i < count; ++i) {
    auto acceptor = baton::Acceptor::adopt(proactor, first_descriptor + i);
    if (!acceptor) {
      std::fprintf(stderr, "descriptor %d: %s\n", first_descriptor + i,
                   acceptor.error().message().c_str());
      return 1;
    }
    acceptors.push_back(std::move(*acceptor));
  }
  for (baton::Acceptor& acceptor : acceptors) proactor.spawn(serve(std::move(acceptor)));
  proactor.run();
} catch (const std::exception& error) {
  return examples::failed(error);
}
