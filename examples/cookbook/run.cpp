// Runs every recipe of docs/guide/cookbook.md once. The build extracts the recipes from the page.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "command_line.hpp"
#include "cookbook_fragments.cpp"

namespace {

using namespace std::chrono_literals;

int failures = 0;

void check(bool holds, const char* recipe) {
  std::printf("%s %s\n", holds ? "ok    " : "FAILED", recipe);
  if (!holds) ++failures;
}

std::string_view text_of(const std::array<char, 64>& buffer, std::size_t bytes) {
  return {buffer.data(), bytes};
}

baton::Task<void> datagrams(baton::Proactor& proactor) {
  auto server = baton::DatagramSocket::bind(proactor, baton::Endpoint::loopback(0)).value();
  const baton::Endpoint address = server.local_endpoint().value();
  proactor.spawn(answer_datagrams(std::move(server)));
  auto client = baton::DatagramSocket::open(proactor, baton::AddressFamily::ipv4).value();
  std::array<char, 64> buffer{};
  baton::Endpoint from;
  auto sent = co_await client.send_to(std::string_view{"ping"}, address);
  auto received = co_await client.receive_from(buffer, from).timeout(20s);
  check(sent && received && text_of(buffer, *received) == "ping", "answer datagrams");
}

baton::Task<void> serve_http(baton::Acceptor& acceptor) {
  auto peer = co_await acceptor.accept();
  std::string request(4096, '\0');
  auto received = co_await peer->read_until(request, 0, "\r\n\r\n");
  if (!received) co_return;
  auto sent = co_await peer->write_all(std::string_view{"HTTP/1.1 200 OK\r\n\r\nhello"});
  static_cast<void>(sent);
}

baton::Task<void> http(baton::Proactor& proactor) {
  auto acceptor = listen_on(proactor, "127.0.0.1:0");
  baton::Scope scope{proactor};
  scope.spawn(serve_http(acceptor));
  std::vector<baton::Endpoint> addresses{acceptor.local_endpoint().value()};
  const std::string answer = co_await http_get(proactor, std::move(addresses), "localhost", "/");
  check(answer.ends_with("hello"), "make an HTTP request; listen on an address");
  co_await scope.join();
}

baton::Task<void> lines(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  baton::Scope scope{proactor};
  scope.spawn(print_lines(std::move(ends.first)));
  auto sent = co_await ends.second.write_all(std::string_view{"one\ntwo\nthree\n"});
  auto ended = co_await ends.second.shutdown();
  co_await scope.join();
  check(sent && ended, "read lines");
}

// Talks to an echo and closes.
baton::Task<bool> echoes(baton::StreamSocket peer) {
  std::array<char, 64> buffer{};
  auto sent = co_await peer.write_all(std::string_view{"hello"});
  auto received = co_await peer.read_exactly({buffer.data(), 5});
  co_return sent&& received&& text_of(buffer, 5) == "hello";
}

baton::Task<void> idle(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  tune(ends.first);  // not TCP: the recipe reports it
  baton::Scope scope{proactor};
  scope.spawn(echo_until_idle(std::move(ends.first)));
  const bool answered = co_await echoes(std::move(ends.second));
  co_await scope.join();
  check(answered, "drop idle connections; set socket options");
}

baton::Task<void> pooled(baton::Proactor& proactor) {
  baton::BufferPool pool{4096, 4};
  auto ends = baton::StreamSocket::pair(proactor).value();
  baton::Scope scope{proactor};
  scope.spawn(echo_pooled(std::move(ends.first), pool));
  const bool answered = co_await echoes(std::move(ends.second));
  co_await scope.join();
  check(answered && pool.available() == 4, "hold many idle connections");
}

baton::Task<void> gathered(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  std::array<char, 64> buffer{};
  const bool sent = co_await send_message(ends.first, "body");
  auto received = co_await ends.second.read_exactly({buffer.data(), 6});
  check(sent && received && text_of(buffer, 6) == "4\nbody", "send a header and a body at once");
}

baton::Task<void> files(baton::Proactor& proactor, std::string path) {
  using baton::FileFlags;
  auto log =
      baton::File::open(proactor, path, FileFlags::write | FileFlags::append | FileFlags::create);
  co_await append_line(*log, "first");
  co_await append_line(*log, "second");
  const std::string content = co_await read_file(proactor, path);
  check(content == "first\nsecond\n", "read a whole file; append to a log");
}

baton::Task<void> input(baton::Proactor& proactor) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0 || ::write(ends[1], "12345", 5) != 5) std::abort();
  ::close(ends[1]);
  const std::size_t counted = co_await count_input(proactor, ends[0]);
  ::close(ends[0]);
  check(counted == 5, "read standard input");
}

baton::Task<void> fails(baton::Proactor& proactor) {
  static_cast<void>(co_await baton::sleep_for(proactor, 1ms));
  throw std::runtime_error("work");
}

baton::Task<void> control(baton::Proactor& proactor) {
  co_await tick(proactor, 2, 1ms);
  check(true, "do something every second");
  const bool late = co_await within(proactor, 1ms, wait_for_ever(proactor));
  const bool in_time = co_await within(proactor, 1h, tick(proactor, 1, 1ms));
  bool threw = false;
  try {
    static_cast<void>(co_await within(proactor, 1h, fails(proactor)));
  } catch (const std::runtime_error&) {
    threw = true;
  }
  check(!late && in_time && threw, "give a whole task a deadline");
  co_await cancel_group(proactor);
  check(true, "cancel a group of tasks");
  const int sum = co_await ask_all(proactor, 5);
  check(sum == 30, "ask many, wait for all");
}

baton::Task<void> activation(baton::Proactor& proactor) {
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un unnamed{AF_UNIX, {}};
  if (::bind(listener, reinterpret_cast<sockaddr*>(&unnamed), sizeof(unnamed.sun_family)) != 0 ||
      ::listen(listener, 1) != 0) {
    std::abort();
  }
  auto acceptor = activated(proactor, listener);
  auto connected =
      co_await baton::Connector{proactor}.connect(acceptor.local_endpoint().value()).timeout(20s);
  auto accepted = co_await acceptor.accept();
  check(connected && accepted, "take a listener from systemd");
}

baton::Task<void> all(baton::Proactor& proactor, std::string path) {
  co_await datagrams(proactor);
  co_await http(proactor);
  co_await lines(proactor);
  co_await idle(proactor);
  co_await pooled(proactor);
  co_await gathered(proactor);
  co_await files(proactor, std::move(path));
  co_await input(proactor);
  co_await control(proactor);
  co_await activation(proactor);
}

// A program that is told to use the forbidden engine does not start.
void sandbox() {
  const char* const told = std::getenv("BATON");
  const bool contradiction =
      told != nullptr && std::string_view{told}.find("io_uring") != std::string_view::npos;
  bool refused = false;
  try {
    baton::Proactor proactor{without_io_uring()};
  } catch (const std::system_error&) {
    refused = true;
  }
  check(refused == contradiction, "run in a sandbox");
}

void blocking_work(baton::Proactor& proactor) {
  int answer = 0;
  run_blocking(proactor, [] { return 42; }, [&](int result) { answer = result; });
  while (answer == 0) proactor.handle_events();
  check(answer == 42, "run blocking work");
}

void foreign_loop() {
  baton::Config config;
  config.processors = {{.threads = 1}};
  baton::Proactor proactor{baton::Config::from_environment(config)};
  auto ends = baton::StreamSocket::pair(proactor).value();
  std::array<char, 64> buffer{};
  bool arrived = false;
  auto refused = ends.first.read(buffer, [&](baton::Operation& op) { arrived = op.bytes() == 2; });
  if (refused || ::write(ends.second.native(), "hi", 2) != 2) std::abort();
  drive_from_another_loop(proactor, [&] { return !arrived; });
  check(arrived, "live inside another event loop");
}

// On a proactor of its own: the drain waits for what is pending.
void at_the_end() {
  baton::Proactor proactor{baton::Config::from_environment()};
  const std::string text = metrics(proactor);
  check(text.find("service=\"mail\"") != std::string::npos, "publish metrics");
  proactor.spawn(drain_at_signal(proactor, baton::SignalSet::open(proactor, {SIGTERM}).value()));
  ::kill(::getpid(), SIGTERM);
  proactor.run();
  check(proactor.stopped(), "end in good order at SIGTERM");
}

}  // namespace

int main() try {
  if (baton::SignalSet::block({SIGTERM})) return 1;
  baton::Proactor proactor{baton::Config::from_environment()};
  char path[] = "/tmp/cookbook.XXXXXX";
  const int file = ::mkstemp(path);
  if (file < 0) return 1;
  ::close(file);
  sandbox();
  baton::run_until_complete(proactor, all(proactor, path));
  ::unlink(path);
  blocking_work(proactor);
  foreign_loop();
  at_the_end();
  return examples::flush_output() && failures == 0 ? 0 : 1;
} catch (const std::exception& error) {
  return examples::failed(error);
}
