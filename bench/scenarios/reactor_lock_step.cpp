// The echo server of ../lock_step.hpp on Baton's Reactor: the instructions of a message.
//
//   reactor_lock_step --sessions N --block B --rounds R [--wait NAME]
#include <sys/socket.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "baton/reactor.hpp"
#include "lock_step.hpp"
#include "scenario.hpp"

namespace {

class Session final : public baton::EventHandler {
 public:
  explicit Session(lock_step::Peers& peers) : peers_(peers), buffer_(peers.block()) {}

  baton::Next on_input(baton::NativeHandle fd) override {
    const ssize_t got = ::recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got <= 0) return baton::Next::remove;
    if (::send(fd, buffer_.data(), static_cast<std::size_t>(got), MSG_DONTWAIT | MSG_NOSIGNAL) !=
        got) {
      return baton::Next::remove;
    }
    peers_.answered();
    return baton::Next::keep;
  }

 private:
  lock_step::Peers& peers_;
  std::vector<char> buffer_;
};

}  // namespace

int main(int argc, char** argv) {
  lock_step::Peers peers(argc, argv);
  if (!peers.present()) {
    std::fprintf(stderr, "reactor_lock_step --sessions N --block B --rounds R [--wait NAME]\n");
    return 2;
  }
  std::vector<std::unique_ptr<Session>> sessions;  // outlive the reactor
  baton::ReactorConfig config;
  config.wait = baton::bench::option(argc, argv, "--wait", "epoll");
  auto reactor = baton::Reactor::open(config);
  if (!reactor) {
    std::fprintf(stderr, "reactor_lock_step: %s\n", reactor.error().reason.c_str());
    return 1;
  }
  for (const int fd : peers.sessions()) {
    sessions.push_back(std::make_unique<Session>(peers));
    if (!(*reactor)->add(fd, baton::Interest::in, *sessions.back())) return 1;
  }
  peers.begin();
  return (*reactor)->run() ? 0 : 1;
}
