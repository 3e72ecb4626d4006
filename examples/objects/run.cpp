// Runs the code of every page in docs/guide/objects once. The build extracts it from the pages.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>

#include "acceptor_fragments.cpp"
#include "attachment_fragments.cpp"
#include "buffer_pool_fragments.cpp"
#include "buffers_fragments.cpp"
#include "cancellation_fragments.cpp"
#include "command_line.hpp"
#include "config_fragments.cpp"
#include "connector_fragments.cpp"
#include "datagram_socket_fragments.cpp"
#include "deadline_fragments.cpp"
#include "endpoint_fragments.cpp"
#include "file_fragments.cpp"
#include "log_fragments.cpp"
#include "message_block_fragments.cpp"
#include "operation_fragments.cpp"
#include "pipe_fragments.cpp"
#include "proactor_fragments.cpp"
#include "reactor_fragments.cpp"
#include "result_fragments.cpp"
#include "scope_fragments.cpp"
#include "signal_set_fragments.cpp"
#include "simulation_0.cpp"
#include "socket_options_fragments.cpp"
#include "strand_fragments.cpp"
#include "stream_socket_fragments.cpp"
#include "task_fragments.cpp"
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

baton::Task<void> buffers(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  const bool sent = co_await send_with_header(ends.first, 7, "abc");
  std::array<char, sizeof(Header) + 3> message{};
  auto received = co_await ends.second.read_exactly(message).timeout(20s);
  Header header{};
  std::memcpy(&header, message.data(), sizeof(header));
  check(sent && received && header.kind == 7 && header.size == 3 && message.back() == 'c',
        "buffers");
}

baton::Task<void> keep(baton::Task<std::size_t> counting, std::size_t& counted) {
  counted = co_await std::move(counting);
}

baton::Task<void> cancellation(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  baton::CancellationSource source{proactor};
  std::size_t counted = 0;
  baton::Scope scope{proactor};
  scope.spawn(keep(count_until(ends.first, source.token()), counted));
  auto sent = co_await ends.second.write_all(std::string_view{"abc"});
  auto slept = co_await baton::sleep_for(proactor, 5ms);
  std::thread{[&] { source.cancel(); }}.join();
  co_await scope.join();
  check(sent && slept && source.cancelled() && counted <= 3, "cancellation");
}

baton::Task<void> deadline(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  std::array<char, 8> answer{};
  auto none = co_await ask_within(ends.first, "?", answer, 1ms);
  auto sent = co_await ends.second.write_all(std::string_view{"!"});
  auto one = co_await ask_within(ends.first, "?", answer, 20s);
  check(none.error() == baton::errc::timed_out && sent && one && *one == 1, "deadline");
}

baton::Task<void> message_block(baton::Proactor& proactor) {
  auto left = baton::StreamSocket::pair(proactor).value();
  auto right = baton::StreamSocket::pair(proactor).value();
  baton::MessagePool pool{{.block_size = 16, .blocks = 8}};
  const std::string text(40, 'x');
  auto message = pool.copy(text).value();
  std::vector<baton::StreamSocket> peers;
  peers.push_back(std::move(left.first));
  peers.push_back(std::move(right.first));
  co_await send_to_all(proactor, peers, message);
  std::string first(40, '\0');
  std::string second(40, '\0');
  auto there = co_await left.second.read_exactly(first).timeout(20s);
  auto and_there = co_await right.second.read_exactly(second).timeout(20s);
  message.reset();
  check(there && and_there && first == text && second == text && pool.blocks_available() == 8,
        "message_block");
}

baton::Task<void> result(baton::Proactor& proactor, std::string path) {
  auto missing = size_or_reason(proactor, path + ".missing");
  auto folder = size_or_reason(proactor, "/tmp");
  auto whole = size_or_reason(proactor, path + ".copy");
  check(missing && *missing == 0 && !folder && folder.error().starts_with("/tmp: ") && whole &&
            *whole == 100'000,
        "result");
  co_return;
}

baton::Task<void> answer_once(baton::Acceptor& acceptor, std::string_view answer) {
  auto peer = co_await acceptor.accept();
  if (!peer) co_return;
  auto sent = co_await peer->write_all(answer);
  static_cast<void>(sent);
}

baton::Task<void> scope(baton::Proactor& proactor) {
  auto silent = baton::Acceptor::listen(proactor, baton::Endpoint::loopback(0)).value();
  auto quick = baton::Acceptor::listen(proactor, baton::Endpoint::loopback(0)).value();
  std::vector<baton::Endpoint> servers;
  servers.push_back(silent.local_endpoint().value());
  servers.push_back(quick.local_endpoint().value());
  baton::Scope answering{proactor};
  answering.spawn(answer_once(quick, "quick"));
  const std::string answer = co_await fastest(proactor, std::move(servers));
  answering.cancel();
  co_await answering.join();
  check(answer == "quick", "scope");
}

baton::Task<void> task(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  baton::Scope scope{proactor};
  scope.spawn(greet_by_name(std::move(ends.first)));
  auto sent = co_await ends.second.write_all(std::string_view{"world\n"});
  std::string text(12, '\0');
  auto received = co_await ends.second.read_exactly(text).timeout(20s);
  co_await scope.join();
  check(sent && received && text == "hello world\n", "task");
}

baton::Task<void> all(baton::Proactor& proactor, std::string path) {
  co_await acceptor_and_connector(proactor);
  co_await buffer_pool(proactor);
  co_await datagram_socket(proactor);
  co_await file(proactor, path);
  co_await pipe_of_child(proactor);
  co_await stream_socket(proactor);
  co_await buffers(proactor);
  co_await cancellation(proactor);
  co_await deadline(proactor);
  co_await message_block(proactor);
  co_await result(proactor, std::move(path));
  co_await scope(proactor);
  co_await task(proactor);
}

void attachment(baton::Proactor& proactor) {
  bool ran = false;
  if (proactor.post([&] { ran = true; })) std::abort();
  draw_frames(proactor, [&] { return !ran; });
  check(ran, "attachment");
}

void config() {
  auto one = configuration("threads=4");
  auto none = configuration("engine=none_such");
  check(one && one->processors.size() == 1 && one->handles_max == 10'000 && !none &&
            none.error().reason.find("none_such") != std::string::npos,
        "config");
}

void log() {
  LogToErrors lines;
  bool explained = false;
  with_log(lines, [&](baton::Proactor& proactor) { explained = !proactor.explain().empty(); });
  check(explained, "log");
}

void operation(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  Receiver receiver{std::move(ends.first)};
  if (receiver.receive()) std::abort();
  if (::write(ends.second.native(), "abc", 3) != 3) std::abort();
  while (receiver.total() < 3) proactor.handle_events();
  receiver.give_up();
  while (!receiver.ended()) proactor.handle_events();
  check(receiver.total() == 3, "operation");
}

void proactor_with_threads() {
  std::atomic<int> ran = 0;
  serve_with_threads(2, [&](baton::Proactor& proactor) {
    auto refused = proactor.post([&ran, &proactor] {
      ++ran;
      proactor.stop();
    });
    if (refused) std::abort();
  });
  check(ran == 1, "proactor");
}

void reactor() {
  auto reactor = baton::Reactor::open(baton::ReactorConfig{}).value();
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  std::string all;
  const bool added = watch(*reactor, ends[0], [&](std::string_view text) { all += text; });
  if (::write(ends[1], "abc", 3) != 3) std::abort();
  ::close(ends[1]);
  auto calls = reactor->run();
  ::close(ends[0]);
  check(added && calls && all == "abc" && reactor->size() == 0, "reactor");
}

void simulation() {
  const auto result = try_machines(20);
  std::fputs(result.report.c_str(), stderr);
  check(result.ok() && result.seeds == 20, "simulation");
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
  attachment(proactor);
  config();
  log();
  operation(proactor);
  proactor_with_threads();
  reactor();
  simulation();
  strand(proactor);
  timer(proactor);
  signal_set(proactor);
  return examples::flush_output() && failures == 0 ? 0 : 1;
} catch (const std::exception& error) {
  return examples::failed(error);
}
