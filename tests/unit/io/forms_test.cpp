// The three forms of a request, and their results when nothing can be started.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "baton/acceptor.hpp"
#include "baton/buffer_pool.hpp"
#include "baton/connector.hpp"
#include "baton/coro/run.hpp"
#include "baton/proactor.hpp"
#include "baton/stream_socket.hpp"

namespace baton {
namespace {

using namespace std::chrono_literals;

class Forms : public testing::Test {
 protected:
  Forms() {
    auto ends = StreamSocket::pair(proactor_).value();
    left_ = std::move(ends.first);
    right_ = std::move(ends.second);
  }
  void run_until(const bool& done) {
    while (!done) proactor_.run_one();
  }
  /// Until no more handles are open than `count`; at most a minute.
  void run_until_handles(std::uint64_t count) {
    const Deadline patience = Deadline::after(60s, proactor_.now());
    while (proactor_.statistics().handles > count && proactor_.now() < patience) {
      proactor_.run_one(Deadline::after(1ms, proactor_.now()));
    }
    EXPECT_EQ(proactor_.statistics().handles, count);
  }

  Proactor proactor_;
  StreamSocket left_;
  StreamSocket right_;
  std::array<char, 64> buffer_{};
};

TEST_F(Forms, operation_of_the_caller) {
  Operation reading, writing;
  bool done = false;
  ASSERT_FALSE(right_.read(reading, buffer_, [&done](Operation& operation) {
    EXPECT_EQ(operation.bytes(), 5U);
    EXPECT_FALSE(operation.failed());
    done = true;
  }));
  ASSERT_FALSE(left_.write_all(writing, std::string_view{"hello"}, [](Operation&) {}));
  run_until(done);
  EXPECT_EQ(std::string_view(buffer_.data(), 5), "hello");
}

TEST_F(Forms, operation_of_the_caller_keeps_its_handler) {
  Operation reading, writing;
  int count = 0;
  bool done = false;
  reading.set_handler([&count, &done](Operation& operation) {
    count += static_cast<int>(operation.bytes());
    done = true;
  });
  for (int round = 0; round < 3; ++round) {
    done = false;
    ASSERT_FALSE(right_.read(reading, buffer_));
    ASSERT_FALSE(left_.write(writing, std::string_view{"ab"}));
    run_until(done);
    while (writing.is_pending()) proactor_.run_one();
  }
  EXPECT_EQ(count, 6);
}

TEST_F(Forms, operation_from_the_cache) {
  bool done = false;
  // More than two pointers, and not trivial: such a handler needs an operation from the cache.
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = alive;
  std::size_t bytes = 0;
  ASSERT_FALSE(right_.read(buffer_, [&, alive = std::move(alive)](Operation& operation) {
    bytes = operation.bytes() + static_cast<std::size_t>(*alive);
    done = true;
  }));
  EXPECT_FALSE(watch.expired());
  ASSERT_FALSE(left_.write_all(std::string_view{"hello"}, [](Operation&) {}));
  run_until(done);
  EXPECT_EQ(bytes, 6U);
  EXPECT_TRUE(watch.expired()) << "the handler is destroyed when it has run";
}

TEST_F(Forms, an_operation_in_use_is_refused_and_undisturbed) {
  Operation operation;
  bool done = false;
  ASSERT_FALSE(right_.read(operation, buffer_, [&done](Operation&) { done = true; }));
  EXPECT_EQ(right_.read(operation, buffer_, [](Operation&) { FAIL(); }), errc::operation_in_use);
  EXPECT_EQ(left_.close(operation), errc::operation_in_use);
  EXPECT_TRUE(left_.is_open());
  EXPECT_EQ(right_.cancel(), CancelResult::requested);
  run_until(done);
  EXPECT_EQ(operation.error(), std::errc::operation_canceled);
}

TEST_F(Forms, a_closed_object_answers_handle_closed) {
  StreamSocket closed;
  Operation operation;
  const auto never = [](Operation&) { FAIL(); };
  EXPECT_EQ(closed.read(operation, buffer_, never), errc::handle_closed);
  EXPECT_EQ(closed.read(buffer_, never), errc::handle_closed);
  EXPECT_EQ(closed.close(never), errc::handle_closed);
  EXPECT_EQ(closed.close(operation, never), errc::handle_closed);
  EXPECT_EQ(closed.cancel(), CancelResult::nothing_pending);
  EXPECT_EQ(closed.native(), invalid_handle);
  closed.close_detached();
  StreamSocket moved = std::move(left_);
  EXPECT_EQ(left_.read(buffer_, never), errc::handle_closed);  // NOLINT: the tested case
  EXPECT_TRUE(moved.is_open());
}

TEST_F(Forms, a_start_that_fails_destroys_the_cached_handler) {
  auto alive = std::make_shared<int>(1);
  proactor_.stop();
  EXPECT_EQ(right_.read(buffer_, [alive](Operation&) { FAIL(); }), errc::stopped);
  EXPECT_EQ(alive.use_count(), 1);
  proactor_.restart();
}

TEST_F(Forms, close_completes_last) {
  Operation reading;
  bool read_done = false, closed = false;
  ASSERT_FALSE(right_.read(reading, buffer_, [&read_done](Operation& operation) {
    EXPECT_EQ(operation.error(), std::errc::operation_canceled);
    read_done = true;
  }));
  ASSERT_FALSE(right_.close([&](Operation& operation) {
    EXPECT_FALSE(operation.failed());
    EXPECT_TRUE(read_done);
    closed = true;
  }));
  EXPECT_FALSE(right_.is_open()) << "from the start of the close on";
  run_until(closed);
}

TEST_F(Forms, a_destroyed_object_closes_behind_itself) {
  bool done = false;
  right_ = StreamSocket{};
  ASSERT_FALSE(left_.read(buffer_, [&done](Operation& operation) {
    EXPECT_EQ(operation.result().value(), 0U) << "the other end is closed";
    done = true;
  }));
  run_until(done);
}

TEST_F(Forms, release_gives_the_handle_away) {
  Handle* const handle = right_.release();
  ASSERT_NE(handle, nullptr);
  EXPECT_FALSE(right_.is_open());
  proactor_.close_detached(*handle);
}

TEST_F(Forms, the_shorthands_for_several_buffers) {
  std::array<char, 3> first{};
  std::array<char, 8> second{};
  const std::array<MutableBuffer, 2> into{MutableBuffer{first}, MutableBuffer{second}};
  const std::array<ConstBuffer, 2> from{ConstBuffer{std::string_view{"one"}},
                                        ConstBuffer{std::string_view{"two"}}};
  const auto body = [&]() -> Task<void> {
    EXPECT_EQ((co_await left_.write_all_vectored(from)).value(), 6U);
    EXPECT_EQ((co_await right_.read_vectored(into)).value(), 6U);
  };
  run_until_complete(proactor_, body());
  EXPECT_EQ(std::string_view(first.data(), 3), "one");
  EXPECT_EQ(std::string_view(second.data(), 3), "two");
}

TEST_F(Forms, read_until_in_three_forms) {
  constexpr std::string_view end = "\r\n";
  Operation operation;
  bool done = false;
  ASSERT_FALSE(left_.write_all(std::string_view{"a\r\nb\r\nc\r\n"}, [](Operation&) {}));
  ASSERT_FALSE(right_.read_until(operation, {buffer_.data(), 3}, 0, end,
                                 [&done](Operation&) { done = true; }));
  run_until(done);
  EXPECT_EQ(operation.result().value(), 3U);
  done = false;
  ASSERT_FALSE(right_.read_until({buffer_.data(), 3}, 0, end, [&done](Operation& cached) {
    EXPECT_EQ(cached.result().value(), 3U);
    done = true;
  }));
  run_until(done);
  const auto body = [&]() -> Task<void> {
    buffer_[0] = 'x';  // one byte that is already data
    EXPECT_EQ((co_await right_.read_until(buffer_, 1, end)).value(), 4U);
    // The data is already there: nothing is read.
    EXPECT_EQ((co_await right_.read_until(buffer_, 4, end)).value(), 4U);
  };
  run_until_complete(proactor_, body());
  EXPECT_EQ(std::string_view(buffer_.data(), 4), "xc\r\n");
}

TEST_F(Forms, reads_into_pooled_buffers) {
  BufferPool pool{32, 1};
  const auto body = [&]() -> Task<void> {
    EXPECT_TRUE(co_await left_.write_all(std::string_view{"pooled"}));
    {
      const auto block = co_await right_.read_pooled(pool);
      EXPECT_EQ(block.value().bytes().size(), 6U);
      EXPECT_EQ(pool.available(), 0U);
    }
    EXPECT_EQ(pool.available(), 1U);
    EXPECT_EQ((co_await right_.read_pooled(pool).timeout(Duration{1})).error(),
              std::errc::timed_out);
    EXPECT_TRUE(co_await left_.shutdown());
    EXPECT_TRUE((co_await right_.read_pooled(pool)).value().bytes().empty());
    EXPECT_EQ(pool.available(), 1U);
  };
  run_until_complete(proactor_, body());
  bool done = false;
  ASSERT_FALSE(right_.write_all(std::string_view{"back"}, [](Operation&) {}));
  ASSERT_FALSE(left_.read_pooled(pool, [&](Operation& operation) {
    EXPECT_EQ(Stream::take_pooled(operation, pool).value().bytes().size(), 4U);
    done = true;
  }));
  run_until(done);
  EXPECT_EQ(pool.available(), 1U);
}

// The library frees the results that a handler of a cached operation leaves.
TEST_F(Forms, a_result_that_is_not_taken_is_closed_or_given_back) {
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0)).value();
  const Endpoint where = acceptor.local_endpoint().value();
  Connector connector{proactor_};
  const auto handles = proactor_.statistics().handles;
  bool accepted = false;
  bool connected = false;
  ASSERT_FALSE(acceptor.accept([&](Operation& operation) {
    EXPECT_FALSE(operation.failed());
    accepted = true;
  }));
  ASSERT_FALSE(connector.connect(where, [&](Operation& operation) {
    EXPECT_FALSE(operation.failed());
    connected = true;
  }));
  run_until(accepted);
  run_until(connected);
  run_until_handles(handles);

  BufferPool pool{32, 1};
  bool read = false;
  ASSERT_FALSE(right_.write_all(std::string_view{"left"}, [](Operation&) {}));
  ASSERT_FALSE(left_.read_pooled(pool, [&](Operation& operation) {
    EXPECT_EQ(operation.bytes(), 4U);
    read = true;
  }));
  run_until(read);
  EXPECT_EQ(pool.available(), 1U);
}

TEST_F(Forms, a_refused_connect_leaves_nothing_behind) {
  const Endpoint where = Endpoint::loopback(1);  // a number that the system never gives out
  const auto handles = proactor_.statistics().handles;
  Connector connector{proactor_};
  for (int i = 0; i < 50; ++i) {
    bool done = false;
    ASSERT_FALSE(connector.connect(where, [&](Operation& operation) {
      EXPECT_EQ(operation.error(), std::errc::connection_refused);
      done = true;
    }));
    run_until(done);
  }
  run_until_handles(handles);
}

TEST_F(Forms, a_handler_that_throws_has_left_its_result) {
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0)).value();
  const auto handles = proactor_.statistics().handles;
  auto client = Connector{proactor_};
  ASSERT_FALSE(acceptor.accept([](Operation&) { throw std::runtime_error("not now"); }));
  ASSERT_FALSE(client.connect(acceptor.local_endpoint().value(), [](Operation&) {}));
  bool thrown = false;
  while (!thrown) {
    try {
      proactor_.run_one();
    } catch (const std::runtime_error&) {
      thrown = true;
    }
  }
  run_until_handles(handles);
}

TEST_F(Forms, a_copy_that_throws_posts_nothing_and_loses_nothing) {
  struct Throws {
    Throws() = default;
    Throws(const Throws&) { throw std::runtime_error("no copy"); }
    Throws(Throws&&) noexcept {}
    void operator()() const { FAIL(); }
  };
  const Throws function;
  EXPECT_THROW(static_cast<void>(proactor_.post(function)), std::runtime_error);
  EXPECT_EQ(proactor_.poll(), 0U);
  EXPECT_EQ(proactor_.statistics().pending, 0U);
}

TEST_F(Forms, a_result_is_taken_once) {
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0)).value();
  Endpoint where = acceptor.local_endpoint().value();
  Connector connector{proactor_};
  Operation accept;
  Operation connect;
  int done = 0;
  ASSERT_FALSE(acceptor.accept(accept, [&done](Operation&) { ++done; }));
  ASSERT_FALSE(connector.connect(connect, where, [&done](Operation&) { ++done; }));
  while (done < 2) proactor_.run_one();
  EXPECT_TRUE(acceptor.take(accept));
  EXPECT_EQ(acceptor.take(accept).error(), errc::handle_closed);
  EXPECT_TRUE(connector.take(connect));
  EXPECT_EQ(connector.take(connect).error(), errc::handle_closed);
}

TEST_F(Forms, what_has_accepted_nothing_gives_no_connection) {
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0)).value();
  Operation operation;
  EXPECT_EQ(acceptor.take(operation).error(), errc::handle_closed) << "never started";
  ASSERT_FALSE(acceptor.accept(operation, [](Operation&) {}));
  EXPECT_EQ(acceptor.take(operation).error(), errc::handle_closed) << "pending";
  acceptor.cancel();
  while (operation.is_pending()) proactor_.run_one();
  EXPECT_EQ(acceptor.take(operation).error(), std::errc::operation_canceled);
  ASSERT_FALSE(proactor_.start_timer(operation, Deadline::immediately()));
  while (operation.is_pending()) proactor_.run_one();
  EXPECT_EQ(acceptor.take(operation).error(), errc::handle_closed) << "not an accept";
}

TEST_F(Forms, what_is_no_connect_gives_no_socket) {
  Operation operation;
  EXPECT_EQ(Connector::take(proactor_, operation).error(), errc::handle_closed) << "never started";
  ASSERT_FALSE(right_.read(operation, buffer_, [](Operation&) {}));
  ASSERT_FALSE(left_.write_all(std::string_view{"hello"}, [](Operation&) {}));
  while (operation.is_pending()) proactor_.run_one();
  EXPECT_EQ(Connector::take(proactor_, operation).error(), errc::handle_closed) << "a read";
  EXPECT_EQ(operation.handle(), right_.handle());
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0)).value();
  Endpoint where = acceptor.local_endpoint().value();
  Connector connector{proactor_};
  ASSERT_FALSE(connector.connect(operation, where, [](Operation&) {}));
  EXPECT_EQ(connector.take(operation).error(), errc::handle_closed) << "it is pending";
  while (operation.is_pending()) proactor_.run_one();
  EXPECT_TRUE(connector.take(operation));
}

TEST_F(Forms, what_is_no_pooled_read_gives_no_block) {
  BufferPool pool{64, 1};
  Operation operation;
  EXPECT_TRUE(Stream::take_pooled(operation, pool).value().bytes().empty()) << "never started";
  ASSERT_FALSE(right_.read(operation, buffer_, [](Operation&) {}));
  ASSERT_FALSE(left_.write_all(std::string_view{"hello"}, [](Operation&) {}));
  while (operation.is_pending()) proactor_.run_one();
  EXPECT_TRUE(Stream::take_pooled(operation, pool).value().bytes().empty()) << "a plain read";
}

// As large, and as strictly aligned, as the bound allows.
struct alignas(std::max_align_t) Largest {
  std::array<std::byte, limits::cached_handler_size - sizeof(int*)> bytes{};
  int* done;
  void operator()(Operation&) const { ++*done; }
};
static_assert(sizeof(Largest) == limits::cached_handler_size);

TEST_F(Forms, every_form_takes_the_largest_handler) {
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0)).value();
  const Endpoint where = acceptor.local_endpoint().value();
  Connector connector{proactor_};
  BufferPool pool{8, 1};
  auto ends = StreamSocket::pair(proactor_).value();
  int done = 0;
  const Largest handler{.bytes = {}, .done = &done};
  ASSERT_FALSE(acceptor.accept(handler));
  ASSERT_FALSE(connector.connect(where, handler));
  ASSERT_FALSE(ends.first.read_pooled(pool, handler));
  ASSERT_FALSE(ends.second.write(std::string_view{"x"}, handler));
  while (done < 4) proactor_.run_one();
}

TEST_F(Forms, a_deadline_of_a_pending_operation_is_not_changed_behind_the_proactor) {
  Operation timer;
  bool done = false;
  timer.set_handler([&done](Operation&) { done = true; });
  const Deadline when = Deadline::after(1ms, proactor_.now());
  ASSERT_FALSE(proactor_.start_timer(timer, when));
  EXPECT_EQ(timer.set_deadline(Deadline::never()), errc::operation_in_use);
  EXPECT_EQ(timer.deadline(), when);
  run_until(done);
  EXPECT_FALSE(timer.set_deadline(Deadline::never()));
}

TEST_F(Forms, waits_until_ready) {
  const auto body = [&]() -> Task<void> {
    EXPECT_TRUE(co_await right_.wait_writable());
    EXPECT_FALSE(co_await right_.wait_readable().timeout(Duration{1'000'000}));
    EXPECT_TRUE(co_await left_.write_all(std::string_view{"x"}));
    EXPECT_TRUE(co_await right_.wait_readable());
  };
  run_until_complete(proactor_, body());
}

TEST_F(Forms, a_second_drain_that_ends_later_changes_nothing) {
  bool done = false;
  ASSERT_FALSE(right_.read(buffer_, [&](Operation&) { done = true; }));
  proactor_.drain(Deadline::after(std::chrono::hours(1), proactor_.now()));
  proactor_.drain(Deadline::never());
  EXPECT_FALSE(proactor_.run_one(Deadline::immediately()));
  EXPECT_EQ(right_.cancel(), CancelResult::requested);
  proactor_.run();
  EXPECT_TRUE(done);
}

TEST_F(Forms, a_close_of_nothing_is_refused) {
  Operation close;
  close.prepare(OperationKind::close, nullptr);
  EXPECT_EQ(proactor_.start(close), std::errc::invalid_argument);
}

// Its own handler is still running, so it is not closed yet.
TEST_F(Forms, a_close_in_progress_is_pending) {
  bool closed = false;
  std::size_t closes = 0;
  ASSERT_FALSE(right_.read(buffer_, [&](Operation&) {
    ASSERT_FALSE(right_.close([&](Operation&) { closed = true; }));
    for (const auto& one : proactor_.pending().operations) {
      if (one.kind == OperationKind::close) ++closes;
    }
  }));
  ASSERT_FALSE(left_.write(std::string_view{"x"}, [](Operation&) {}));
  run_until(closed);
  EXPECT_EQ(closes, 1U);
}

}  // namespace
}  // namespace baton
