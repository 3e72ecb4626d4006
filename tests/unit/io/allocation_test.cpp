// Starting an operation allocates nothing, in any of the three forms, once the caches are warm.
// allocation_counter.cpp counts calls of operator new.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../support/real_engines.hpp"
#include "../../support/team.hpp"
#include "baton/acceptor.hpp"
#include "baton/connector.hpp"
#include "baton/coro/run.hpp"
#include "baton/coro/scope.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/file.hpp"
#include "baton/pipe.hpp"
#include "baton/registry.hpp"
#include "baton/stream_socket.hpp"
#include "baton/timer.hpp"

long allocations() noexcept;

namespace baton {
namespace {

using namespace std::chrono_literals;

class Allocation : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Config config;
    config.processors = {{.engine = GetParam()}};
    for (const auto& engine : registry().engines()) {
      if (engine.name == GetParam() && engine.files_only) test::make_team(config);
    }
    auto opened = Proactor::open(config);
    if (!opened) GTEST_SKIP() << opened.error().reason;
    if ((*opened)->explain().find("engine=" + GetParam()) == std::string::npos) GTEST_SKIP();
    proactor_ = std::move(*opened);
  }

  /// Runs `round` until everything is warm, and then counts.
  template <class Round>
  void expect_none(const char* what, Round round) {
    for (int i = 0; i < 200; ++i) round();
    const long before = allocations();
    for (int i = 0; i < 200; ++i) round();
    EXPECT_EQ(allocations() - before, 0) << what;
  }
  void run_until(const bool& done) {
    while (!done) proactor_->run_one();
  }

  std::unique_ptr<Proactor> proactor_;
};

TEST_P(Allocation, stream_in_three_forms) {
  auto [left, right] = StreamSocket::pair(*proactor_).value();
  std::array<char, 64> buffer{};
  Operation reading, writing;
  const std::string_view text = "some text";

  expect_none("operations of the caller", [&] {
    bool done = false;
    EXPECT_FALSE(right.read(reading, buffer, [&done](Operation&) { done = true; }));
    EXPECT_FALSE(left.write_all(writing, text, [](Operation&) {}));
    run_until(done);
    while (writing.is_pending()) proactor_->run_one();
  });
  expect_none("operations from the cache", [&] {
    int done = 0;
    EXPECT_FALSE(right.read(buffer, [&done](Operation&) { ++done; }));
    EXPECT_FALSE(left.write_all(text, [&done](Operation&) { ++done; }));
    while (done < 2) proactor_->run_one();
  });
  const auto body = [&]() -> Task<void> {
    const auto sent = co_await left.write_all(text);
    const auto read = co_await right.read_exactly({buffer.data(), text.size()}).timeout(1h);
    EXPECT_TRUE(sent && read);
  };
  expect_none("awaited", [&] { run_until_complete(*proactor_, body()); });
  BufferPool pool{64, 4};
  const auto pooled = [&]() -> Task<void> {
    const auto sent = co_await left.write_all(text);
    const auto read = co_await right.read_pooled(pool);
    EXPECT_TRUE(sent && read);
  };
  expect_none("pooled", [&] { run_until_complete(*proactor_, pooled()); });
}

TEST_P(Allocation, everything_else) {
  auto left = DatagramSocket::bind(*proactor_, Endpoint::loopback(0)).value();
  auto right = DatagramSocket::bind(*proactor_, Endpoint::loopback(0)).value();
  const Endpoint to = right.local_endpoint().value();
  std::array<char, 64> buffer{};
  Endpoint from;
  expect_none("datagrams", [&] {
    bool done = false;
    EXPECT_FALSE(right.receive_from(buffer, from, [&done](Operation&) { done = true; }));
    EXPECT_FALSE(left.send_to(std::string_view{"text"}, to, [](Operation&) {}));
    run_until(done);
  });

  const std::string path = testing::TempDir() + "baton_allocation_test";
  auto file = File::open(*proactor_, path, FileFlags::read_write | FileFlags::create).value();
  std::remove(path.c_str());
  const auto files = [&]() -> Task<void> {
    const auto written = co_await file.write_all_at(0, std::string_view{"text"});
    const auto read = co_await file.read_exactly_at(0, {buffer.data(), 4});
    const auto synced = co_await file.data_sync();
    EXPECT_TRUE(written && read && synced);
  };
  expect_none("files", [&] { run_until_complete(*proactor_, files()); });

  auto pipe = Pipe::create(*proactor_).value();
  const auto pipes = [&]() -> Task<void> {
    const auto written = co_await pipe.writer.write_all(std::string_view{"text"});
    const auto read = co_await pipe.reader.read(buffer);
    EXPECT_TRUE(written && read);
  };
  expect_none("pipes", [&] { run_until_complete(*proactor_, pipes()); });

  Timer timer{*proactor_};
  expect_none("timers", [&] {
    bool done = false;
    EXPECT_FALSE(timer.wait_for(0ns, [&done](Operation&) { done = true; }));
    run_until(done);
  });
  const auto times = [&]() -> Task<void> {
    const auto slept = co_await sleep_for(*proactor_, 1us);
    const auto waited = co_await timer.wait_for(1us);
    const auto yielded = co_await yield(*proactor_);
    EXPECT_TRUE(slept && waited && yielded);
  };
  expect_none("sleeping", [&] { run_until_complete(*proactor_, times()); });
  expect_none("posting", [&] {
    bool done = false;
    EXPECT_FALSE(proactor_->post([&done] { done = true; }));
    run_until(done);
  });
}

TEST_P(Allocation, a_whole_session) {
  auto acceptor = Acceptor::listen(*proactor_, Endpoint::loopback(0)).value();
  const Endpoint where = acceptor.local_endpoint().value();
  Connector connector{*proactor_};
  const auto serve = [&]() -> Task<void> {
    auto peer = co_await acceptor.accept();
    std::array<char, 16> buffer{};
    const auto read = co_await peer->read_exactly({buffer.data(), 4});
    const auto back = co_await peer->write_all({buffer.data(), read.value_or(0U)});
    EXPECT_TRUE(read && back);
  };
  const auto session = [&]() -> Task<void> {
    proactor_->spawn(serve());
    auto peer = co_await connector.connect(where);
    const auto sent = co_await peer->write_all(std::string_view{"text"});
    std::array<char, 4> buffer{};
    const auto read = co_await peer->read_exactly(buffer);
    EXPECT_TRUE(sent && read);
    const auto closed = co_await peer->close();
    EXPECT_TRUE(closed);
  };
  expect_none("accept, connect, close, spawn", [&] { run_until_complete(*proactor_, session()); });
}

std::vector<std::string> engines() {
  std::vector<std::string> names;
  for (const auto& engine : test::real_engines()) names.push_back(engine.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(engines, Allocation, testing::ValuesIn(engines()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace baton
