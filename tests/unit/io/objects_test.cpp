// Each I/O object with its own operations, on every engine and mode.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "baton/acceptor.hpp"
#include "baton/connector.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/file.hpp"
#include "baton/pipe.hpp"
#include "baton/signal_set.hpp"
#include "baton/stream_socket.hpp"
#include "baton/timer.hpp"
#include "support/modes.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;

class Objects : public WithProactor {
 protected:
  static void SetUpTestSuite() {
    // Before any thread is started: see SignalSet.
    ASSERT_FALSE(SignalSet::block({SIGUSR1, SIGUSR2}));
  }
};

// -- connections ----------------------------------------------------------------------------------

Task<void> echo_once(StreamSocket peer) {
  std::array<char, 64> buffer{};
  const auto read = co_await peer.read(buffer);
  if (!read) co_return;
  EXPECT_TRUE(co_await peer.write_all({buffer.data(), *read}));
}

Task<void> connects_and_accepts(Proactor& proactor, Endpoint where) {
  auto acceptor = Acceptor::listen(proactor, where).value();
  const Endpoint listening = acceptor.local_endpoint().value();
  EXPECT_EQ(listening.family(), where.family());
  // The connection waits in the backlog until it is accepted.
  auto client = co_await Connector{proactor}.connect(listening);
  Endpoint peer;
  auto server = co_await acceptor.accept(peer);
  EXPECT_TRUE(client && server);
  if (!client || !server) co_return;
  EXPECT_EQ(client->remote_endpoint().value(), listening);
  if (where.family() != AddressFamily::unix_domain) {
    EXPECT_EQ(peer, client->local_endpoint().value());
    EXPECT_EQ(server->remote_endpoint().value(), peer);
  }
  proactor.spawn(echo_once(std::move(*server)));
  EXPECT_TRUE(co_await client->write_all(std::string_view{"hello"}));
  std::array<char, 5> buffer{};
  EXPECT_TRUE(co_await client->read_exactly(buffer));
  EXPECT_EQ(std::string_view(buffer.data(), 5), "hello");
}

TEST_P(Objects, acceptor_and_connector_over_ipv4) {
  complete(connects_and_accepts(proactor(), Endpoint::loopback(0)));
}
TEST_P(Objects, acceptor_and_connector_over_ipv6) {
  const int probe = ::socket(AF_INET6, SOCK_STREAM, 0);
  if (probe < 0) GTEST_SKIP() << "no IPv6 here";
  ::close(probe);
  if (Acceptor::listen(proactor(), Endpoint::loopback_v6(0)).error() ==
      std::errc::address_not_available) {
    GTEST_SKIP() << "no IPv6 address here";
  }
  complete(connects_and_accepts(proactor(), Endpoint::loopback_v6(0)));
}
TEST_P(Objects, acceptor_and_connector_over_unix) {
  const std::string name = "@baton_objects_test_" + std::to_string(::getpid());
  complete(connects_and_accepts(proactor(), Endpoint::unix_path(name).value()));
}

TEST_P(Objects, acceptor_says_why_it_cannot_listen) {
  auto first = Acceptor::listen(proactor(), Endpoint::loopback(0)).value();
  const Endpoint taken = first.local_endpoint().value();
  EXPECT_EQ(Acceptor::listen(proactor(), taken).error(), std::errc::address_in_use);
  EXPECT_EQ(Acceptor::listen(proactor(), Endpoint{}).error(),
            std::errc::address_family_not_supported);
}

TEST_P(Objects, acceptor_for_each_lane) {
  auto acceptors = Acceptor::listen_each_lane(proactor(), Endpoint::loopback(0)).value();
  ASSERT_EQ(acceptors.size(), proactor().lanes());
  const Endpoint where = acceptors.front().local_endpoint().value();
  for (std::uint32_t lane = 0; lane < proactor().lanes(); ++lane) {
    EXPECT_EQ(acceptors[lane].local_endpoint().value(), where);
    EXPECT_EQ(proactor().home_lane(*acceptors[lane].handle()), lane);
  }
}

TEST_P(Objects, acceptor_by_callback) {
  auto acceptor = Acceptor::listen(proactor(), Endpoint::loopback(0)).value();
  std::promise<Endpoint> accepted;
  ASSERT_FALSE(acceptor.accept([&](Operation& operation) {
    auto peer = acceptor.take(operation);
    accepted.set_value(peer.value().remote_endpoint().value());
  }));
  auto client = complete([](Proactor& p, Endpoint where) -> Task<Result<StreamSocket>> {
    co_return co_await Connector{p}.connect(where);
  }(proactor(), acceptor.local_endpoint().value()));
  EXPECT_EQ(accepted.get_future().get(), client.value().local_endpoint().value());
}

TEST_P(Objects, connector_by_callback) {
  auto acceptor = Acceptor::listen(proactor(), Endpoint::loopback(0)).value();
  Endpoint where = acceptor.local_endpoint().value();
  Connector connector{proactor()};
  std::promise<bool> cached, own, any;
  ASSERT_FALSE(connector.connect(where, [&](Operation& operation) {
    cached.set_value(connector.take(operation).has_value());
  }));
  struct Context {
    Connector& connector;
    std::promise<bool>& done;
  } context{connector, own};
  Operation operation;
  ASSERT_FALSE(connector.connect(operation, where, [&context](Operation& self) {
    context.done.set_value(context.connector.take(self).has_value());
  }));
  connector.connect_any({where}, 10s, {},
                        [&](Result<StreamSocket> peer) { any.set_value(peer.has_value()); });
  EXPECT_TRUE(cached.get_future().get());
  EXPECT_TRUE(own.get_future().get());
  EXPECT_TRUE(any.get_future().get());
}

TEST_P(Objects, connector_is_refused) {
  const auto descriptors = proactor().statistics().handles;
  Endpoint where = Endpoint::loopback(0);
  // A port that nobody listens on, and that nobody else is given meanwhile.
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(taken, static_cast<const sockaddr*>(where.data()), where.size()), 0);
  ASSERT_EQ(::getsockname(taken, static_cast<sockaddr*>(where.data()), where.size_pointer()), 0);
  complete([](Proactor& p, const Endpoint nobody) -> Task<void> {
    auto refused = co_await Connector{p}.connect(nobody);
    EXPECT_EQ(refused.error(), std::errc::connection_refused);
    auto nowhere = co_await Connector{p}.connect(Endpoint{});
    EXPECT_EQ(nowhere.error(), std::errc::address_family_not_supported);
  }(proactor(), where));
  while (proactor().statistics().handles != descriptors) std::this_thread::yield();
  ::close(taken);
}

TEST_P(Objects, connector_tries_one_address_after_the_other) {
  complete([](Proactor& p) -> Task<void> {
    auto acceptor = Acceptor::listen(p, Endpoint::loopback(0)).value();
    Endpoint missing = Endpoint::unix_path("@baton_nobody_is_here").value();
    Connector connector{p};
    // The list is made first: gcc 12 cannot keep a braced list across an await.
    const std::vector<Endpoint> several{missing, Endpoint{}, acceptor.local_endpoint().value(),
                                        missing};
    auto peer = co_await connector.connect_any(several);
    EXPECT_TRUE(peer) << peer.error().message();
    const std::vector<Endpoint> wrong{missing, missing};
    auto none = co_await connector.connect_any(wrong);
    EXPECT_EQ(none.error(), std::errc::connection_refused);
    auto empty = co_await connector.connect_any({});
    EXPECT_EQ(empty.error(), std::errc::invalid_argument);
  }(proactor()));
}

TEST_P(Objects, connector_gives_an_address_up_after_its_time) {
  complete([](Proactor& p) -> Task<void> {
    // A full backlog: the kernel drops later connections, and the connect waits.
    auto full = Acceptor::listen(p, Endpoint::loopback(0), {.backlog = 0}).value();
    const Endpoint where = full.local_endpoint().value();
    Connector connector{p};
    std::vector<StreamSocket> filling;
    for (;;) {
      auto one = co_await connector.connect(where).timeout(50ms);
      if (!one) {
        EXPECT_EQ(one.error(), std::errc::timed_out);
        break;
      }
      filling.push_back(std::move(*one));
    }
    auto good = Acceptor::listen(p, Endpoint::loopback(0)).value();
    const std::vector<Endpoint> both{where, good.local_endpoint().value()};
    // The kernel gives it up, too, but after minutes.
    CancellationSource too_late{p};
    Timer timer{p};
    std::atomic<bool> ended{false};
    EXPECT_FALSE(timer.wait_for(patience() / 2, [&](Operation& operation) {
      if (!operation.failed()) too_late.cancel();
      ended = true;  // the last: the coroutine destroys both
    }));
    auto peer = co_await connector.connect_any(both, 250ms, too_late.token());
    EXPECT_TRUE(peer) << peer.error().message();
    timer.cancel();
    while (!ended) static_cast<void>(co_await sleep_for(p, 0ms));
    CancellationSource source{p};
    source.cancel();
    auto cancelled = co_await connector.connect_any(both, 20ms, source.token());
    EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
  }(proactor()));
}

// Read without the library, which would set and read back a wrong name under the same wrong name.
TEST_P(Objects, socket_options_are_the_system_s_of_that_name) {
  auto acceptor = Acceptor::listen(proactor(), Endpoint::loopback(0)).value();
  auto socket = complete([](Proactor& p, Endpoint where) -> Task<StreamSocket> {
    auto peer = co_await Connector{p}.connect(where);
    co_return std::move(*peer);
  }(proactor(), acceptor.local_endpoint().value()));
  const auto system_s = [](const Handle* handle, int level, int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    EXPECT_EQ(::getsockopt(handle->native(), level, name, &value, &size), 0);
    return value;
  };
  const Handle* const stream = socket.handle();
  EXPECT_FALSE(socket.set_option(option::KeepAliveIdle{91s}));
  EXPECT_FALSE(socket.set_option(option::KeepAliveInterval{7s}));
  EXPECT_FALSE(socket.set_option(option::KeepAliveCount{3}));
  EXPECT_EQ(system_s(stream, IPPROTO_TCP, TCP_KEEPIDLE), 91);
  EXPECT_EQ(system_s(stream, IPPROTO_TCP, TCP_KEEPINTVL), 7);
  EXPECT_EQ(system_s(stream, IPPROTO_TCP, TCP_KEEPCNT), 3);
  EXPECT_EQ(socket.get_option<option::KeepAliveIdle>().value().span, 91s);
  EXPECT_EQ(socket.get_option<option::KeepAliveInterval>().value().span, 7s);
  EXPECT_EQ(socket.get_option<option::KeepAliveCount>().value().probes, 3);
  EXPECT_FALSE(socket.set_option(option::ReceiveBuffer{50'000}));
  EXPECT_FALSE(socket.set_option(option::SendBuffer{70'000}));
  EXPECT_EQ(system_s(stream, SOL_SOCKET, SO_RCVBUF), 100'000);
  EXPECT_EQ(system_s(stream, SOL_SOCKET, SO_SNDBUF), 140'000);
  EXPECT_EQ(socket.get_option<option::ReceiveBuffer>().value().bytes, 100'000);
  EXPECT_EQ(socket.get_option<option::SendBuffer>().value().bytes, 140'000);
  auto six = DatagramSocket::open(proactor(), AddressFamily::ipv6).value();
  const auto flag = [&](auto& object, auto one, int level, int name) {
    using Option = decltype(one);
    for (const bool yes : {true, false}) {
      EXPECT_FALSE(object.set_option(Option{yes}));
      EXPECT_EQ(system_s(object.handle(), level, name) != 0, yes) << level << ' ' << name;
      EXPECT_EQ(object.template get_option<Option>().value().enabled, yes);
    }
  };
  flag(socket, option::NoDelay{}, IPPROTO_TCP, TCP_NODELAY);
  flag(socket, option::KeepAlive{}, SOL_SOCKET, SO_KEEPALIVE);
  flag(six, option::ReuseAddress{}, SOL_SOCKET, SO_REUSEADDR);
  flag(six, option::ReusePort{}, SOL_SOCKET, SO_REUSEPORT);
  flag(six, option::V6Only{}, IPPROTO_IPV6, IPV6_V6ONLY);
  auto datagrams = DatagramSocket::open(proactor(), AddressFamily::ipv4).value();
  flag(datagrams, option::Broadcast{}, SOL_SOCKET, SO_BROADCAST);
}

TEST_P(Objects, a_connection_lingers_as_its_listener_does) {
  auto acceptor = Acceptor::listen(proactor(), Endpoint::loopback(0)).value();
  for (const bool lingers : {true, false}) {
    EXPECT_FALSE(acceptor.set_option(option::Linger{lingers, 2s}));
    auto accepted = complete([](Proactor& p, Acceptor& from) -> Task<StreamSocket> {
      const auto peer = co_await Connector{p}.connect(from.local_endpoint().value());
      co_return std::move(*co_await from.accept());
    }(proactor(), acceptor));
    EXPECT_EQ(accepted.get_option<option::Linger>().value().enabled, lingers);
    EXPECT_EQ(accepted.handle()->close_may_block(), lingers) << "then a worker closes it";
  }
}

TEST_P(Objects, socket_options) {
  auto acceptor = Acceptor::listen(proactor(), Endpoint::loopback(0)).value();
  EXPECT_TRUE(acceptor.get_option<option::ReuseAddress>().value().enabled);
  auto socket = complete([](Proactor& p, Endpoint where) -> Task<StreamSocket> {
    auto peer = co_await Connector{p}.connect(where);
    co_return std::move(*peer);
  }(proactor(), acceptor.local_endpoint().value()));
  EXPECT_FALSE(socket.set_option(option::NoDelay{true}));
  EXPECT_TRUE(socket.get_option<option::NoDelay>().value().enabled);
  EXPECT_FALSE(socket.set_option(option::NoDelay{false}));
  EXPECT_FALSE(socket.get_option<option::NoDelay>().value().enabled);
  EXPECT_FALSE(socket.set_option(option::KeepAlive{}));
  EXPECT_FALSE(socket.set_option(option::KeepAliveIdle{90s}));
  EXPECT_EQ(socket.get_option<option::KeepAliveIdle>().value().span, 90s);
  EXPECT_FALSE(socket.set_option(option::KeepAliveInterval{7s}));
  EXPECT_FALSE(socket.set_option(option::KeepAliveCount{3}));
  EXPECT_EQ(socket.get_option<option::KeepAliveCount>().value().probes, 3);
  EXPECT_FALSE(socket.set_option(option::ReceiveBuffer{100'000}));
  EXPECT_GE(socket.get_option<option::ReceiveBuffer>().value().bytes, 100'000);
  EXPECT_FALSE(socket.set_option(option::SendBuffer{100'000}));
  EXPECT_FALSE(socket.set_option(option::Linger{true, 2s}));
  EXPECT_TRUE(socket.get_option<option::Linger>().value().enabled);
  EXPECT_EQ(socket.get_option<option::Linger>().value().span, 2s);
  EXPECT_TRUE(socket.handle()->close_may_block());
  EXPECT_FALSE(socket.set_option(option::Linger{true, 0s}));
  EXPECT_FALSE(socket.handle()->close_may_block()) << "a reset does not wait";
  EXPECT_TRUE(socket.set_option(option::V6Only{true})) << "not on an IPv4 socket";
  // A value that an int cannot hold does not become another value: a long linger is not a reset.
  constexpr std::chrono::seconds beyond_int{std::int64_t{1} << 32};
  const std::error_code invalid = std::make_error_code(std::errc::invalid_argument);
  EXPECT_FALSE(socket.set_option(option::Linger{true, 2s}));
  for (const auto span : {beyond_int, beyond_int + 7s, -beyond_int, std::chrono::seconds{-1}}) {
    EXPECT_EQ(socket.set_option(option::Linger{true, span}), invalid);
    EXPECT_EQ(socket.set_option(option::KeepAliveIdle{span}), invalid);
    EXPECT_EQ(socket.set_option(option::KeepAliveInterval{span}), invalid);
  }
  EXPECT_EQ(socket.set_option(option::ReceiveBuffer{-1}), invalid);
  EXPECT_EQ(socket.set_option(option::KeepAliveCount{-1}), invalid);
  EXPECT_EQ(socket.get_option<option::Linger>().value().span, 2s);
  EXPECT_EQ(socket.get_option<option::KeepAliveIdle>().value().span, 90s);
  auto datagrams = DatagramSocket::open(proactor(), AddressFamily::ipv4).value();
  EXPECT_FALSE(datagrams.set_option(option::Broadcast{}));
  EXPECT_TRUE(datagrams.get_option<option::Broadcast>().value().enabled);
}

// -- datagrams ------------------------------------------------------------------------------------

TEST_P(Objects, datagrams) {
  complete([](Proactor& p) -> Task<void> {
    auto left = DatagramSocket::bind(p, Endpoint::loopback(0)).value();
    auto right = DatagramSocket::bind(p, Endpoint::loopback(0)).value();
    const Endpoint left_at = left.local_endpoint().value();
    const Endpoint right_at = right.local_endpoint().value();
    std::array<char, 64> buffer{};
    Endpoint from;
    EXPECT_TRUE(co_await left.send_to(std::string_view{"one"}, right_at));
    EXPECT_EQ((co_await right.receive_from(buffer, from)).value(), 3U);
    EXPECT_EQ(from, left_at);
    EXPECT_EQ((co_await right.send_to(std::string_view{}, from)).value(), 0U);
    EXPECT_EQ((co_await left.receive_from(buffer, from)).value(), 0U) << "empty is a datagram, too";
  }(proactor()));
}

TEST_P(Objects, connected_datagrams) {
  complete([](Proactor& p) -> Task<void> {
    auto left = DatagramSocket::bind(p, Endpoint::loopback(0)).value();
    auto right = DatagramSocket::bind(p, Endpoint::loopback(0)).value();
    std::array<char, 64> buffer{};
    EXPECT_FALSE(left.connect(right.local_endpoint().value()));
    EXPECT_FALSE(right.connect(left.local_endpoint().value()));
    EXPECT_EQ(left.remote_endpoint().value(), right.local_endpoint().value());
    EXPECT_TRUE(co_await left.write(std::string_view{"boundaries"}));
    EXPECT_TRUE(co_await left.write(std::string_view{"stay"}));
    EXPECT_EQ((co_await right.read(buffer)).value(), 10U);
    EXPECT_EQ((co_await right.read({buffer.data(), 2})).value(), 2U) << "cut";
    const std::array<ConstBuffer, 2> pieces{ConstBuffer{std::string_view{"in "}},
                                            ConstBuffer{std::string_view{"pieces"}}};
    EXPECT_EQ((co_await left.write_vectored(pieces)).value(), 9U);
    std::array<char, 3> first{};
    const std::array<MutableBuffer, 2> into{MutableBuffer{first}, MutableBuffer{buffer}};
    EXPECT_EQ((co_await right.read_vectored(into)).value(), 9U);
    EXPECT_EQ(std::string_view(buffer.data(), 6), "pieces");
  }(proactor()));
}

// -- files, pipes ---------------------------------------------------------------------------------

class TemporaryFile {
 public:
  TemporaryFile() : path_(testing::TempDir() + "baton_objects_test_" + std::to_string(::getpid())) {
    std::remove(path_.c_str());
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_P(Objects, files) {
  const TemporaryFile temporary;
  complete([](Proactor& p, std::string path) -> Task<void> {
    const auto flags = FileFlags::read_write | FileFlags::create | FileFlags::exclusive;
    EXPECT_EQ(File::open(p, path, FileFlags::read).error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(File::open(p, path, FileFlags::create).error(), std::errc::invalid_argument);
    auto file = File::open(p, path, flags).value();
    EXPECT_EQ(File::open(p, path, flags).error(), std::errc::file_exists);
    EXPECT_EQ(File::open(p, "/", FileFlags::read).error(), std::errc::is_a_directory);
    EXPECT_EQ(File::open(p, "/dev/null", FileFlags::read).error(), std::errc::invalid_argument);

    constexpr std::uint64_t far = (std::uint64_t{5} << 30) + 1;  // beyond 4 GiB
    EXPECT_EQ((co_await file.write_all_at(far, std::string_view{"far away"})).value(), 8U);
    EXPECT_TRUE(co_await file.sync());
    EXPECT_TRUE(co_await file.data_sync());
    EXPECT_EQ(file.size().value(), far + 8);
    std::array<char, 16> buffer{};
    EXPECT_EQ((co_await file.read_at(far + 4, buffer)).value(), 4U);
    EXPECT_EQ(std::string_view(buffer.data(), 4), "away");
    EXPECT_EQ((co_await file.read_at(far + 100, buffer)).value(), 0U) << "the end of the file";
    const auto beyond = co_await file.read_exactly_at(far, buffer);
    EXPECT_EQ(beyond.error(), errc::end_of_stream);

    const std::array<ConstBuffer, 2> pieces{ConstBuffer{std::string_view{"one"}},
                                            ConstBuffer{std::string_view{"two"}}};
    EXPECT_EQ((co_await file.write_all_vectored_at(10, pieces)).value(), 6U);
    std::array<char, 2> first{};
    const std::array<MutableBuffer, 2> into{MutableBuffer{first}, MutableBuffer{buffer.data(), 4}};
    EXPECT_EQ((co_await file.read_vectored_at(10, into)).value(), 6U);
    EXPECT_EQ(std::string_view(buffer.data(), 4), "etwo");
  }(proactor(), temporary.path()));
}

TEST_P(Objects, a_file_is_not_made_of_another_kind) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  for (const int end : pipe) {
    EXPECT_EQ(File::adopt(proactor(), end, Ownership::borrowed).error(),
              std::errc::invalid_argument);
    EXPECT_EQ(proactor().adopt(end, HandleKind::file, Ownership::borrowed).error(),
              std::errc::invalid_argument);
    ::close(end);
  }
  for (const auto& [path, error] :
       {std::pair{"/dev/null", std::errc::invalid_argument}, {"/", std::errc::is_a_directory}}) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(File::adopt(proactor(), fd, Ownership::borrowed).error(), error) << path;
    ::close(fd);
  }
}

TEST_P(Objects, files_append_in_the_order_of_the_start) {
  const TemporaryFile temporary;
  auto file = File::open(proactor(), temporary.path(),
                         FileFlags::read | FileFlags::append | FileFlags::create)
                  .value();
  constexpr int count = 50;
  std::atomic<int> left{count};
  std::promise<void> all;
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(std::to_string(i) + ";");
  std::string expected;
  for (const std::string& text : texts) {
    expected += text;
    ASSERT_FALSE(file.append_all(text, [&](Operation& operation) {
      EXPECT_FALSE(operation.failed()) << operation.error().message();
      if (left.fetch_sub(1) == 1) all.set_value();
    }));
  }
  all.get_future().get();
  std::string found(expected.size(), '\0');
  complete([](File& f, std::string& text) -> Task<void> {
    EXPECT_TRUE(co_await f.read_exactly_at(0, text));
  }(file, found));
  EXPECT_EQ(found, expected);
}

TEST_P(Objects, pipes) {
  complete([](Proactor& p) -> Task<void> {
    auto [reader, writer] = Pipe::create(p).value();
    std::array<char, 8> buffer{};
    EXPECT_TRUE(co_await writer.write_all(std::string_view{"through"}));
    EXPECT_EQ((co_await reader.read(buffer)).value(), 7U);
    EXPECT_TRUE(co_await writer.close());
    EXPECT_EQ((co_await reader.read(buffer)).value(), 0U);
  }(proactor()));
}

TEST_P(Objects, borrowed_descriptors_are_left_open) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  {
    auto reader = Pipe::adopt(proactor(), fds[0], Ownership::borrowed).value();
    EXPECT_EQ(::write(fds[1], "x", 1), 1);
    complete([](Pipe& pipe) -> Task<void> {
      std::array<char, 8> buffer{};
      EXPECT_EQ((co_await pipe.read(buffer)).value(), 1U);
      EXPECT_TRUE(co_await pipe.close());
    }(reader));
  }
  EXPECT_EQ(::close(fds[0]), 0) << "still ours";
  EXPECT_EQ(::close(fds[1]), 0);
}

// -- time, signals --------------------------------------------------------------------------------

TEST_P(Objects, timer_ticks_and_is_cancelled) {
  struct Ticker {
    Timer timer;
    int left = 5;
    std::promise<void> done;
    explicit Ticker(Proactor& p) : timer(p) {}
    void tick(Operation& operation) {
      EXPECT_FALSE(operation.failed());
      EXPECT_LE(timer.expires(), timer.proactor().now());
      if (--left == 0) {
        done.set_value();
      } else {
        EXPECT_FALSE(timer.wait_for(100us, [this](Operation& op) { tick(op); }));
      }
    }
  } ticker{proactor()};
  ASSERT_FALSE(ticker.timer.wait_for(100us, [&](Operation& op) { ticker.tick(op); }));
  ticker.done.get_future().get();

  std::promise<std::error_code> ended;
  ASSERT_FALSE(
      ticker.timer.wait_for(1h, [&](Operation& operation) { ended.set_value(operation.error()); }));
  EXPECT_TRUE(ticker.timer.is_pending());
  EXPECT_EQ(ticker.timer.wait_for(1h, [](Operation&) {}), errc::operation_in_use);
  EXPECT_EQ(ticker.timer.cancel(), CancelResult::requested);
  EXPECT_EQ(ended.get_future().get(), std::errc::operation_canceled);
  end();  // the handler has returned
}

TEST_P(Objects, timer_is_awaited) {
  complete([](Proactor& p) -> Task<void> {
    Timer timer{p};
    EXPECT_TRUE(co_await timer.wait_for(1ms));
    EXPECT_TRUE(co_await timer.wait_until(Deadline::immediately()));
    std::thread canceller;
    CancellationSource source{p};
    canceller = std::thread([&] { source.cancel(); });
    const auto waited = co_await timer.wait_for(1h).cancel_with(source.token());
    EXPECT_EQ(waited.error(), std::errc::operation_canceled);
    canceller.join();
  }(proactor()));
}

TEST_P(Objects, timer_handler_may_destroy_its_timer) {
  auto* const timer = new Timer{proactor()};
  std::promise<void> done;
  ASSERT_FALSE(timer->wait_for(1us, [timer, &done](Operation&) {
    delete timer;
    done.set_value();
  }));
  done.get_future().get();
}

TEST_P(Objects, signals) {
  auto signals = SignalSet::open(proactor(), {SIGUSR1, SIGUSR2}).value();
  EXPECT_EQ(SignalSet::open(proactor(), {SIGKILL}).error(), std::errc::invalid_argument);
  EXPECT_EQ(SignalSet::open(proactor(), {-1}).error(), std::errc::invalid_argument);
  complete([](SignalSet& set) -> Task<void> {
    EXPECT_EQ(::kill(::getpid(), SIGUSR1), 0);
    EXPECT_EQ((co_await set.wait()).value(), SIGUSR1);
    EXPECT_EQ(::kill(::getpid(), SIGUSR2), 0);
    EXPECT_EQ((co_await set.wait()).value(), SIGUSR2);
  }(signals));
  SignalInfo info;
  std::promise<void> arrived;
  ASSERT_FALSE(signals.wait(info, [&](Operation& operation) {
    EXPECT_FALSE(operation.failed());
    arrived.set_value();
  }));
  EXPECT_EQ(::kill(::getpid(), SIGUSR1), 0);
  arrived.get_future().get();
  EXPECT_EQ(info.number(), SIGUSR1);
  EXPECT_EQ(info.sender_process(), ::getpid());
}

BATON_EVERY_MODE(Objects);

}  // namespace
}  // namespace baton::test
