// 06: a chat server. Each line of a client goes to all others.
//
//   06_chat [PORT]        prints "listening PORT"; then, in several terminals: nc 127.0.0.1 PORT
//
// All sessions share the strand of their scope: however many threads run the proactor, the room is
// used by one of them at a time and needs no lock. While a line is on its way to a listener, that
// one may leave; so a shared pointer keeps each listener.

#include <array>
#include <baton/baton.hpp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "command_line.hpp"

namespace {

using namespace std::chrono_literals;

struct Member {
  baton::StreamSocket socket;
  std::string name;
};
using Room = std::set<std::shared_ptr<Member>>;

// A client that does not read for a second is put out: its session's pending read ends as
// cancelled.
baton::Task<void> tell(std::shared_ptr<Member> listener, const std::string& text) {
  const auto heard = co_await listener->socket.write_all(text).timeout(1s);
  if (!heard) listener->socket.cancel();
}

baton::Task<void> say(baton::Proactor& proactor, const Room& room, std::shared_ptr<Member> speaker,
                      std::string line) {
  const std::string text = speaker->name + ": " + line + "\n";
  // To all at once: however many do not read, the others wait for no more than that second.
  baton::Scope listeners{proactor, {.strand = false}};
  for (const auto& member : room) {
    if (member != speaker) listeners.spawn(tell(member, text));
  }
  co_await listeners.join();
}

baton::Task<void> session(baton::Proactor& proactor, Room& room, std::shared_ptr<Member> member) {
  room.insert(member);
  co_await say(proactor, room, member, "(enters)");
  constexpr std::string_view end_of_line = "\n";
  std::array<char, 512> buffer;
  std::size_t filled = 0;
  for (;;) {
    const auto received = co_await member->socket.read_until(buffer, filled, end_of_line);
    if (!received) break;  // gone, put out, or a line of more than 512 bytes
    // One read may bring several lines, and the beginning of another.
    std::string_view rest{buffer.data(), *received};
    for (std::size_t end = 0; (end = rest.find(end_of_line)) != rest.npos;
         rest.remove_prefix(end + 1)) {
      co_await say(proactor, room, member, std::string(rest.substr(0, end)));
    }
    std::memmove(buffer.data(), rest.data(), filled = rest.size());
  }
  room.erase(member);
  co_await say(proactor, room, member, "(leaves)");
}

baton::Task<void> serve(baton::Proactor& proactor, baton::Acceptor acceptor,
                        std::error_code& ended) {
  Room room;
  baton::Scope sessions{proactor};
  for (int number = 1;; ++number) {
    auto peer = co_await acceptor.accept();
    if (!peer) {
      ended = peer.error();
      break;
    }
    auto member = std::make_shared<Member>();
    member->socket = std::move(*peer);
    member->name = "guest " + std::to_string(number);
    sessions.spawn(session(proactor, room, std::move(member)));
  }
  sessions.cancel();
  co_await sessions.join();  // the room outlives its sessions
  proactor.stop();           // without accepts the server ends
}

}  // namespace

int main(int argc, char** argv) try {
  const std::uint16_t port = examples::port_or_exit(argc, argv);
  baton::Config config;
  config.processors = {{.threads = 2}};  // for per_thread, if it is chosen: as many as we start
  std::error_code ended;
  baton::Proactor proactor{baton::Config::from_environment(config)};
  auto acceptor = baton::Acceptor::listen(proactor, baton::Endpoint::loopback(port));
  if (!acceptor) {
    std::fprintf(stderr, "cannot listen: %s\n", acceptor.error().message().c_str());
    return 1;
  }
  std::printf("listening %u\n", acceptor->local_endpoint().value().port());
  if (!examples::flush_output()) return 1;
  proactor.spawn(serve(proactor, std::move(*acceptor), ended));
  std::thread helper{[&] { proactor.run(); }};
  proactor.run();
  helper.join();
  std::fprintf(stderr, "no more connections: %s\n", ended.message().c_str());
  return 1;
} catch (const std::exception& error) {
  return examples::failed(error);
}
