// Awaiting operations: results, timeouts, cancellation by token and by std::stop_token, and races
// between start, completion and cancellation.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "baton/coro/cancellation.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/coro/task.hpp"
#include "baton/pipe.hpp"
#include "baton/stream_socket.hpp"
#include "support/descriptors.hpp"
#include "support/modes.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;

class Await : public WithProactor {
 protected:
  std::pair<StreamSocket, StreamSocket> pair() { return StreamSocket::pair(proactor()).value(); }
};

TEST_P(Await, moves_bytes_both_ways) {
  complete([](std::pair<StreamSocket, StreamSocket> ends) -> Task<void> {
    auto& [left, right] = ends;
    std::array<char, 64> buffer{};
    const auto written = co_await left.write_all(std::string_view{"over and"});
    EXPECT_EQ(written.value(), 8U);
    const auto read = co_await right.read(buffer);
    EXPECT_EQ(std::string_view(buffer.data(), read.value()), "over and");
    EXPECT_TRUE(co_await right.write_all(std::string_view{"back"}));
    EXPECT_EQ((co_await left.read_exactly({buffer.data(), 4})).value(), 4U);
    EXPECT_TRUE(co_await right.shutdown());
    EXPECT_EQ((co_await left.read(buffer)).value(), 0U);
    EXPECT_TRUE(co_await left.close());
    EXPECT_FALSE(left.is_open());
    EXPECT_EQ((co_await left.read(buffer)).error(), errc::handle_closed);
  }(pair()));
}

TEST_P(Await, a_start_that_fails_resumes_at_once) {
  complete([](Proactor& proactor) -> Task<void> {
    StreamSocket closed;
    std::array<char, 8> buffer{};
    EXPECT_EQ((co_await closed.read(buffer)).error(), errc::handle_closed);
    EXPECT_EQ((co_await closed.close()).error(), errc::handle_closed);
    static_cast<void>(proactor);
  }(proactor()));
}

TEST_P(Await, tells_the_bytes_that_were_moved_before_an_error) {
  complete([](std::pair<StreamSocket, StreamSocket> ends) -> Task<void> {
    std::array<char, 8> buffer{};
    EXPECT_TRUE(co_await ends.second.write_all(std::string_view{"1234"}));
    const auto late = co_await ends.first.read_exactly(buffer).timeout(5ms);
    EXPECT_EQ(late.error(), std::errc::timed_out);
    EXPECT_TRUE(co_await ends.second.write_all(std::string_view{"5"}));
    const MutableBuffer others{buffer.data(), 5 - late.bytes()};
    EXPECT_EQ((co_await ends.first.read_exactly(others).timeout(patience())).bytes(), others.size);
    const std::string many(std::size_t{1} << 24U, 'x');  // more than a socket holds
    const auto cut = co_await ends.second.write_all(many).timeout(5ms);
    EXPECT_EQ(cut.error(), std::errc::timed_out);
    EXPECT_LT(cut.bytes(), many.size());
    static_cast<void>(co_await ends.second.close());
    std::vector<char> rest(many.size());
    const auto end = co_await ends.first.read_exactly(rest);
    EXPECT_EQ(end.error(), errc::end_of_stream);
    EXPECT_EQ(end.bytes(), cut.bytes());
    const auto refused = co_await ends.second.read(buffer);
    EXPECT_EQ(refused.error(), errc::handle_closed);
    EXPECT_EQ(refused.bytes(), 0U);
  }(pair()));
}

TEST_P(Await, times_out) {
  complete([](std::pair<StreamSocket, StreamSocket> ends) -> Task<void> {
    std::array<char, 8> buffer{};
    const auto read = co_await ends.first.read(buffer).timeout(5ms);
    EXPECT_EQ(read.error(), std::errc::timed_out);
    // A deadline is for one activation: the next read has none.
    EXPECT_TRUE(co_await ends.second.write_all(std::string_view{"x"}));
    EXPECT_EQ((co_await ends.first.read(buffer)).value(), 1U);
  }(pair()));
}

TEST_P(Await, sleeps_not_too_short) {
  complete([](Proactor& proactor) -> Task<void> {
    const Deadline until = Deadline::after(3ms, proactor.now());
    EXPECT_TRUE(co_await sleep_for(proactor, 3ms));
    EXPECT_GE(proactor.now(), until);
    EXPECT_TRUE(co_await sleep_until(proactor, Deadline::immediately()));
  }(proactor()));
}

TEST_P(Await, yields) {
  complete([](Proactor& proactor) -> Task<void> {
    for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(co_await yield(proactor));
  }(proactor()));
}

TEST_P(Await, is_cancelled_by_token) {
  CancellationSource source{proactor()};
  auto ends = pair();
  std::thread canceller;
  complete([](Proactor& proactor, StreamSocket& socket, CancellationSource& cancel,
              std::thread& thread) -> Task<void> {
    std::array<char, 8> buffer{};
    thread = std::thread([&] { cancel.cancel(); });
    const auto read = co_await socket.read(buffer).cancel_with(cancel.token());
    EXPECT_EQ(read.error(), std::errc::operation_canceled);
    // The cancel is sticky: the operation is not even started.
    const auto again = co_await sleep_for(proactor, 1h).cancel_with(cancel.token()).timeout(1h);
    EXPECT_EQ(again.error(), std::errc::operation_canceled);
    // An empty token never cancels.
    EXPECT_TRUE(co_await sleep_for(proactor, 1us).cancel_with(CancellationToken{}));
  }(proactor(), ends.first, source, canceller));
  canceller.join();
  EXPECT_TRUE(source.cancelled());
  EXPECT_TRUE(source.token().cancelled());
}

TEST_P(Await, is_cancelled_by_stop_token) {
  auto ends = pair();
  std::jthread canceller;
  complete([](Proactor& proactor, StreamSocket& socket, std::jthread& thread) -> Task<void> {
    std::stop_source source;
    std::array<char, 8> buffer{};
    thread = std::jthread([source]() mutable { source.request_stop(); });
    const auto read = co_await socket.read(buffer).timeout(1h).cancel_with(source.get_token());
    EXPECT_EQ(read.error(), std::errc::operation_canceled);
    EXPECT_EQ((co_await sleep_for(proactor, 1h).cancel_with(source.get_token())).error(),
              std::errc::operation_canceled);
    EXPECT_TRUE(co_await sleep_for(proactor, 1us).cancel_with(std::stop_token{}));
  }(proactor(), ends.first, canceller));
}

// Start, completion and cancellation at the same time, many times: each await ends once, and the
// frame outlives all its users (checked by the sanitizers).
TEST_P(Await, survives_races_of_start_completion_and_cancel) {
  constexpr int rounds = 300;
  std::atomic<CancellationSource*> current{nullptr};
  std::atomic<bool> done{false};
  std::thread canceller([&] {
    while (!done.load()) {
      if (CancellationSource* source = current.exchange(nullptr)) {
        source->cancel();
        delete source;
      }
    }
  });
  complete([](Proactor& proactor, std::pair<StreamSocket, StreamSocket> ends,
              std::atomic<CancellationSource*>& slot) -> Task<void> {
    std::array<char, 8> buffer{};
    int cancelled = 0;
    for (int i = 0; i < rounds; ++i) {
      auto* const source = new CancellationSource(proactor);
      const CancellationToken token = source->token();
      if (i % 2 == 0) {
        EXPECT_TRUE(co_await ends.second.write_all(std::string_view{"x"}));
      }
      delete slot.exchange(source);
      const auto read = co_await ends.first.read(buffer).cancel_with(token);
      if (!read) {
        EXPECT_EQ(read.error(), std::errc::operation_canceled);
        ++cancelled;
        if (i % 2 == 0) {
          EXPECT_TRUE(co_await ends.first.read(buffer));
        }
      }
    }
    EXPECT_GE(cancelled, rounds / 2) << "nothing was there to be read";
  }(proactor(), pair(), current));
  done = true;
  canceller.join();
  delete current.load();
}

TEST_P(Await, many_tasks_at_once) {
  std::atomic<int> left{200};
  std::promise<void> all;
  for (int i = 0; i < 200; ++i) {
    proactor().spawn([](Proactor& proactor, std::pair<StreamSocket, StreamSocket> ends,
                        std::atomic<int>& count, std::promise<void>& promise) -> Task<void> {
      std::array<char, 128> buffer{};
      for (int round = 0; round < 20; ++round) {
        EXPECT_TRUE(co_await ends.first.write_all(std::string_view{"ping pong"}));
        EXPECT_EQ((co_await ends.second.read_exactly({buffer.data(), 9})).value_or(0U), 9U);
        if (round % 5 == 0) {
          EXPECT_TRUE(co_await yield(proactor));
        }
      }
      if (count.fetch_sub(1) == 1) promise.set_value();
    }(proactor(), pair(), left, all));
  }
  all.get_future().get();
}

// The peers stay outside of the proactor: it would close them, and a read may take that for the end
// of the stream.
TEST_P(Await, pending_tasks_end_with_the_proactor) {
  std::atomic<int> ended{0};
  std::array<SocketPair, 10> pairs;
  for (SocketPair& pair : pairs) {
    proactor().spawn([](StreamSocket socket, std::atomic<int>& count) -> Task<void> {
      std::array<char, 8> buffer{};
      EXPECT_FALSE(co_await socket.read(buffer));
      EXPECT_FALSE(co_await socket.read(buffer)) << "nothing can be started any more";
      ++count;
    }(StreamSocket::adopt(proactor(), pair.ours.release()).value(), ended));
  }
  end();
  EXPECT_EQ(ended.load(), 10);
}

BATON_EVERY_MODE(Await);

}  // namespace
}  // namespace baton::test
