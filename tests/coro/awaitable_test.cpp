// Awaitables as values: named, returned, stored, moved, awaited twice; and the lifetime of the
// objects that made them.
#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <system_error>
#include <utility>

#include "baton/acceptor.hpp"
#include "baton/connector.hpp"
#include "baton/coro/cancellation.hpp"
#include "baton/coro/run.hpp"
#include "baton/coro/scope.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/coro/task.hpp"
#include "baton/stream_socket.hpp"
#include "baton/timer.hpp"
#include "os/system.hpp"
#include "support/modes.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;

class Awaitables : public WithProactor {
 protected:
  using Ends = std::pair<StreamSocket, StreamSocket>;
  Ends pair() { return StreamSocket::pair(proactor()).value(); }
};

auto timed_read(StreamSocket& socket, MutableBuffer buffer) {
  return socket.read(buffer).timeout(1h);
}
auto cancellable_read(StreamSocket& socket, MutableBuffer buffer, CancellationToken token) {
  return socket.read(buffer).cancel_with(std::move(token)).timeout(1h);
}
auto stoppable_read(StreamSocket& socket, MutableBuffer buffer, std::stop_token token) {
  return socket.read(buffer).timeout(1h).cancel_with(std::move(token));
}

template <class Read>
Task<void> expect_letter(Read read, StreamSocket& peer, const char& into) {
  EXPECT_TRUE(co_await peer.write_all(std::string_view{"x"}));
  const auto got = co_await read;
  EXPECT_EQ(got.value(), 1U);
  EXPECT_EQ(into, 'x');
}

TEST_P(Awaitables, are_named_returned_and_stored) {
  complete([](Ends ends) -> Task<void> {
    char letter = 0;
    const MutableBuffer buffer{&letter, 1};
    CancellationSource source{ends.first.proactor()};
    std::stop_source stop;
    co_await expect_letter(ends.first.read(buffer), ends.second, letter);
    co_await expect_letter(timed_read(ends.first, buffer), ends.second, letter);
    co_await expect_letter(cancellable_read(ends.first, buffer, source.token()), ends.second,
                           letter);
    co_await expect_letter(stoppable_read(ends.first, buffer, stop.get_token()), ends.second,
                           letter);
    // Each still listens to what modified it.
    source.cancel();
    auto cancelled = cancellable_read(ends.first, buffer, source.token());
    const auto by_source = co_await cancelled;
    EXPECT_EQ(by_source.error(), std::errc::operation_canceled);
    stop.request_stop();
    auto stopped = stoppable_read(ends.first, buffer, stop.get_token());
    const auto by_token = co_await stopped;
    EXPECT_EQ(by_token.error(), std::errc::operation_canceled);
    auto timed = ends.first.read(buffer).timeout(1ms);
    auto moved = std::move(timed);
    const auto late = co_await moved;
    EXPECT_EQ(late.error(), errc::timed_out);
  }(pair()));
}

TEST_P(Awaitables, own_their_parts) {
  complete([](Proactor& proactor, Ends ends) -> Task<void> {
    std::array<char, 8> buffer{};
    auto until = ends.first.read_until(buffer, 0, ";").timeout(1h);
    EXPECT_TRUE(co_await ends.second.write_all(std::string_view{"ab;"}));
    const auto filled = co_await until;
    EXPECT_EQ(filled.value(), 3U);
    auto acceptor = Acceptor::listen(proactor, Endpoint::loopback(0)).value();
    auto connect = Connector{proactor}.connect(acceptor.local_endpoint().value()).timeout(1h);
    const auto connected = co_await connect;
    EXPECT_TRUE(connected);
    const auto accepted = co_await acceptor.accept();
    EXPECT_TRUE(accepted);
  }(proactor(), pair()));
}

template <class Read>
Task<void> await_first(Read& read, bool& begun, std::size_t& bytes) {
  begun = true;
  const auto got = co_await read;
  bytes = got.value();
}

TEST_P(Awaitables, a_second_await_is_refused_and_leaves_the_first) {
  complete([](Proactor& proactor, Ends ends) -> Task<void> {
    std::array<char, 8> bytes_read{};
    CancellationSource source{proactor};
    auto both = ends.first.read(bytes_read).cancel_with(source.token());
    bool begun = false;
    std::size_t bytes = 0;
    Scope scope{proactor, {.strand = true}};
    scope.spawn(await_first(both, begun, bytes));
    scope.spawn([](Proactor& where, decltype(both)& pending, StreamSocket& peer,
                   const bool& is_begun) -> Task<void> {
      while (!is_begun) static_cast<void>(co_await yield(where));
      const auto second = co_await pending;
      EXPECT_EQ(second.error(), errc::operation_in_use);
      EXPECT_TRUE(co_await peer.write_all(std::string_view{"abc"}));
    }(proactor, both, ends.second, begun));
    co_await scope.join();
    EXPECT_EQ(bytes, 3U);
    const auto third = co_await both;
    EXPECT_EQ(third.error(), errc::operation_in_use) << "complete: its result is taken";
    // Without any source of a cancel.
    std::array<char, 8> buffer{};
    auto read = ends.first.read(buffer);
    EXPECT_TRUE(co_await ends.second.write_all(std::string_view{"abc"}));
    const auto first = co_await read;
    EXPECT_EQ(first.value(), 3U);
    const auto second = co_await read;
    EXPECT_EQ(second.error(), errc::operation_in_use);
  }(proactor(), pair()));
}

TEST_P(Awaitables, an_await_that_started_nothing_may_be_tried_again) {
  complete([](Proactor& proactor, Ends ends) -> Task<void> {
    std::array<char, 8> buffer{};
    CancellationSource source{proactor};
    source.cancel();
    auto read = ends.first.read(buffer).cancel_with(source.token());
    auto until = ends.first.read_until(buffer, 0, ";").cancel_with(source.token());
    auto slept = sleep_for(proactor, 1h).cancel_with(source.token());
    for (int i = 0; i < 2; ++i) {
      const auto cancelled_read = co_await read;
      EXPECT_EQ(cancelled_read.error(), std::errc::operation_canceled);
      const auto cancelled_until = co_await until;
      EXPECT_EQ(cancelled_until.error(), std::errc::operation_canceled);
      const auto cancelled_sleep = co_await slept;
      EXPECT_EQ(cancelled_sleep.error(), std::errc::operation_canceled);
    }
    StreamSocket closed;
    auto of_closed = closed.read(buffer);
    for (int i = 0; i < 2; ++i) {
      const auto refused = co_await of_closed;
      EXPECT_EQ(refused.error(), errc::handle_closed);
    }
  }(proactor(), pair()));
}

TEST_P(Awaitables, a_wait_of_a_timer_is_awaited_once) {
  complete([](Proactor& proactor) -> Task<void> {
    Timer timer{proactor};
    auto wait = timer.wait_for(1ms);
    EXPECT_TRUE(co_await wait);
    const auto second = co_await wait;
    EXPECT_EQ(second.error(), errc::operation_in_use);
    EXPECT_TRUE(co_await timer.wait_for(1ms)) << "the timer can be used again";
    // An awaitable that was refused may be awaited again, as others may.
    CancellationSource source{proactor};
    source.cancel();
    auto refused = timer.wait_for(1h).cancel_with(source.token());
    for (int i = 0; i < 2; ++i) {
      const auto cancelled = co_await refused;
      EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
    }
  }(proactor()));
}

TEST_P(Awaitables, an_acceptor_moves_while_it_accepts) {
  complete([](Proactor& proactor) -> Task<void> {
    auto acceptor =
        std::make_unique<Acceptor>(Acceptor::listen(proactor, Endpoint::loopback(0)).value());
    const Endpoint where = acceptor->local_endpoint().value();
    bool accepted = false;
    Scope scope{proactor, {.strand = false}};
    scope.spawn([](Acceptor& from, bool& done) -> Task<void> {
      auto peer = co_await from.accept();
      done = peer.has_value() && peer->is_open();
    }(*acceptor, accepted));
    Acceptor elsewhere = std::move(*acceptor);
    acceptor.reset();
    const auto connected = co_await Connector{proactor}.connect(where);
    EXPECT_TRUE(connected);
    co_await scope.join();
    EXPECT_TRUE(accepted);
  }(proactor()));
}

TEST_P(Awaitables, an_acceptor_goes_while_it_accepts) {
  complete([](Proactor& proactor) -> Task<void> {
    auto acceptor =
        std::make_unique<Acceptor>(Acceptor::listen(proactor, Endpoint::loopback(0)).value());
    std::error_code error;
    Scope scope{proactor, {.strand = false}};
    scope.spawn([](Acceptor& from, std::error_code& ended) -> Task<void> {
      const auto peer = co_await from.accept();
      ended = peer.error();
    }(*acceptor, error));
    acceptor.reset();
    co_await scope.join();
    EXPECT_EQ(error, std::errc::operation_canceled);
  }(proactor()));
}

TEST_P(Awaitables, sleeps_and_timers_time_out) {
  complete([](Proactor& proactor) -> Task<void> {
    Timer timer{proactor};
    const auto slept = co_await sleep_for(proactor, 1h).timeout(1ms);
    EXPECT_EQ(slept.error(), errc::timed_out);
    const auto waited = co_await timer.wait_for(1h).timeout(1ms);
    EXPECT_EQ(waited.error(), errc::timed_out);
    // A later end changes nothing.
    EXPECT_TRUE(co_await sleep_for(proactor, 1ms).timeout(1h));
    EXPECT_TRUE(co_await timer.wait_for(1ms).timeout(1h));
  }(proactor()));
}

Task<void> wait_out(Timer& timer, Duration span, std::size_t& fired) {
  EXPECT_TRUE(co_await timer.wait_for(span));
  ++fired;
}

TEST_P(Awaitables, a_refused_wait_of_a_timer_disturbs_no_timer) {
  complete([](Proactor& proactor) -> Task<void> {
    constexpr std::size_t count = 40;
    std::array<std::optional<Timer>, count> timers;
    std::size_t fired = 0;
    Scope scope{proactor};
    for (std::size_t i = 0; i < count; ++i) {
      timers[i].emplace(proactor);
      scope.spawn(wait_out(*timers[i], 5ms + i * 100us, fired));
    }
    // Its own wait has not ended before it is refused the others, however slow this thread is.
    Timer long_timer{proactor};
    scope.spawn([](Timer& pending) -> Task<void> {
      const auto waited = co_await pending.wait_for(30min);
      EXPECT_EQ(waited.error(), std::errc::operation_canceled);
    }(long_timer));
    scope.spawn([](Timer& pending) -> Task<void> {
      const auto first = co_await pending.wait_for(1h).timeout(2h);
      EXPECT_EQ(first.error(), errc::operation_in_use);
      const auto second = co_await pending.wait_for(1h).deadline(Deadline::immediately());
      EXPECT_EQ(second.error(), errc::operation_in_use);
      pending.cancel();
    }(long_timer));
    co_await scope.join();
    EXPECT_EQ(fired, count);
  }(proactor()));
}

// A system that calls during_start at the first watch of a descriptor.
std::function<void()> during_start;
const os::System& interfering_system() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.epoll_ctl = [](int epoll, int operation, int fd, epoll_event* event) {
      if (auto call = std::exchange(during_start, nullptr)) call();
      return os::real_system().epoll_ctl(epoll, operation, fd, event);
    };
    return made;
  }();
  return table;
}

// After the starter has looked whether it is cancelled already, and before its start has returned.
TEST(Cancellation, that_comes_during_the_start_is_not_lost) {
  Config config = Config::parse("engine=emulated,wait=epoll,mode=shared", Config{}).value();
  config.system = &interfering_system();
  Proactor proactor{std::move(config)};
  auto ends = StreamSocket::pair(proactor).value();
  CancellationSource source{proactor};
  const auto read = [](StreamSocket& from, CancellationSource& source) -> Task<std::error_code> {
    char letter = 0;
    during_start = [&source] { source.cancel(); };
    const auto got = co_await from.read(MutableBuffer{&letter, 1})
                         .cancel_with(source.token())
                         .timeout(patience() / 2);
    co_return got.error();
  };
  EXPECT_EQ(run_until_complete(proactor, read(ends.first, source)), std::errc::operation_canceled);
  EXPECT_EQ(during_start, nullptr) << "there was a watch";
}

BATON_EVERY_MODE(Awaitables);

}  // namespace
}  // namespace baton::test
