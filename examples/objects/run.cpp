// Runs the code of every page in docs/guide/objects once. The build extracts it from the pages.
#include <cstdlib>
#include <exception>
#include <memory>

#include "acceptor_fragments.cpp"
#include "buffer_pool_fragments.cpp"
#include "command_line.hpp"
#include "connector_fragments.cpp"
#include "datagram_socket_fragments.cpp"
#include "endpoint_fragments.cpp"
#include "file_fragments.cpp"
#include "pipe_fragments.cpp"
#include "signal_set_fragments.cpp"
#include "socket_options_fragments.cpp"
#include "strand_fragments.cpp"
#include "stream_socket_fragments.cpp"
#include "timer_fragments.cpp"

namespace {

using namespace std::chrono_literals;

int failures = 0;

void check(bool holds, const char* page) {
  std::printf("%s %s\n", holds ? "ok    " : "FAILED", page);
  if (!holds) ++failures;
}

baton::Task<void> acceptor_and_connector(baton::Proactor& proactor) {
  auto acceptor = baton::Acceptor::listen(proactor, baton::Endpoint::loopback(0)).value();
  const baton::Endpoint address = acceptor.local_endpoint().value();
  baton::Scope scope{proactor};
  scope.spawn(tell_addresses(acceptor));
  auto peer = co_await connect_patiently(proactor, address, 3);
  check(peer.has_value(), "connector");
  if (peer) {
    check(!prepare(*peer) && receive_buffer(*peer) > 0, "socket_options");
    std::string text(64, '\0');
    auto received = co_await peer->read_until(text, 0, "\n");
    const std::string own = peer->local_endpoint().value().to_string() + "\n";
    check(received && text.substr(0, *received) == own, "acceptor");
  }
  scope.cancel();
  co_await scope.join();
}

baton::Task<void> buffer_pool(baton::Proactor& proactor) {
  baton::BufferPool pool{64, 1};
  auto ends = baton::StreamSocket::pair(proactor).value();
  void* const block = pool.take();  // the first read finds none
  baton::Scope scope{proactor};
  scope.spawn(echo_from_pool(std::move(ends.first), pool));
  auto sent = co_await ends.second.write_all(std::string_view{"hello"});
  auto slept = co_await baton::sleep_for(proactor, 5ms);
  pool.give(block);
  std::array<char, 5> back{};
  auto received = co_await ends.second.read_exactly(back).timeout(20s);
  auto ended = co_await ends.second.shutdown();
  co_await scope.join();
  check(sent && slept && received && ended && pool.available() == 1, "buffer_pool");
}

baton::Task<void> datagram_socket(baton::Proactor& proactor) {
  auto server = baton::DatagramSocket::bind(proactor, baton::Endpoint::loopback(0)).value();
  auto client = baton::DatagramSocket::open(proactor, baton::AddressFamily::ipv4).value();
  baton::Scope scope{proactor};
  scope.spawn(tell_time(server));
  std::array<char, 32> buffer{};
  const bool connected = !client.connect(server.local_endpoint().value());
  auto sent = co_await client.write(std::string_view{"?"});
  auto received = co_await client.read(buffer).timeout(20s);
  check(connected && sent && received && *received > 0, "datagram_socket");
  scope.cancel();
  co_await scope.join();
}

baton::Task<void> file(baton::Proactor& proactor, std::string path) {
  using baton::FileFlags;
  auto from = baton::File::open(proactor, path, FileFlags::read_write).value();
  const std::string text(100'000, 'x');
  auto written = co_await from.write_all_at(0, text);
  auto to = baton::File::open(proactor, path + ".copy", FileFlags::write | FileFlags::create);
  const std::uint64_t copied = co_await copy(from, *to);
  check(written && copied == text.size() && to->size().value() == copied, "file");
}

baton::Task<void> pipe_of_child(baton::Proactor& proactor) {
  const std::string output = co_await output_of(proactor, "pwd");
  check(output.starts_with("/") && output.ends_with("\n"), "pipe");
}

baton::Task<void> stream_socket(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  std::vector<std::byte> body;
  std::array<char, 7> message{'\0', '\0', '\0', '\3', 'a', 'b', 'c'};
  auto sent = co_await ends.second.write_all(message);
  const bool answered = co_await answer_message(ends.first, body);
  auto received = co_await ends.second.read_exactly(message);
  check(sent && answered && received && message.back() == 'c', "stream_socket");
}

baton::Task<void> all(baton::Proactor& proactor, std::string path) {
  co_await acceptor_and_connector(proactor);
  co_await buffer_pool(proactor);
  co_await datagram_socket(proactor);
  co_await file(proactor, std::move(path));
  co_await pipe_of_child(proactor);
  co_await stream_socket(proactor);
}

void endpoint() {
  bool refused = false;
  try {
    static_cast<void>(address_of("example.com:80"));
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  check(refused && address_of("80") == baton::Endpoint::any_v6(80), "endpoint");
}

void strand(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  Counted counted{std::move(ends.first)};
  if (counted.receive() || counted.send("hello")) std::abort();
  if (::write(ends.second.native(), "abc", 3) != 3) std::abort();
  while (counted.moved() < 8) proactor.handle_events();
  check(counted.moved() == 8, "strand");
}

void timer(baton::Proactor& proactor) {
  int alarms = 0;
  Watchdog watchdog{proactor, 2ms, [&] { ++alarms; }};
  if (watchdog.touch() || watchdog.touch()) std::abort();
  while (alarms == 0) proactor.handle_events();
  check(alarms == 1, "timer");
}

void signal_set(baton::Proactor& proactor) {
  int reloads = 0;
  ::kill(::getpid(), SIGHUP);
  proactor.spawn(obey_signals(proactor, [&] {
    ++reloads;
    ::kill(::getpid(), SIGTERM);
  }));
  proactor.run();
  check(reloads == 1 && proactor.stopped(), "signal_set");
}

}  // namespace

int main() try {
  if (baton::SignalSet::block({SIGHUP, SIGTERM})) return 1;
  baton::Proactor proactor{baton::Config::from_environment()};
  char path[] = "/tmp/objects.XXXXXX";
  const int temporary = ::mkstemp(path);
  if (temporary < 0) return 1;
  ::close(temporary);
  endpoint();
  baton::run_until_complete(proactor, all(proactor, path));
  ::unlink(path);
  ::unlink((std::string{path} + ".copy").c_str());
  strand(proactor);
  timer(proactor);
  signal_set(proactor);
  return examples::flush_output() && failures == 0 ? 0 : 1;
} catch (const std::exception& error) {
  return examples::failed(error);
}
