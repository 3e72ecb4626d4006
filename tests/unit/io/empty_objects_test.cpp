// Every member function of every public object that is default-constructed or moved from: it
// answers an error, does nothing, or ends the program with a sentence. empty_objects_test.py checks
// that no public member is missing here.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string_view>
#include <system_error>
#include <utility>

#include "baton/acceptor.hpp"
#include "baton/buffer_pool.hpp"
#include "baton/config.hpp"
#include "baton/connector.hpp"
#include "baton/coro/cancellation.hpp"
#include "baton/coro/run.hpp"
#include "baton/coro/scope.hpp"
#include "baton/coro/task.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/file.hpp"
#include "baton/message_block.hpp"
#include "baton/pipe.hpp"
#include "baton/proactor.hpp"
#include "baton/signal_set.hpp"
#include "baton/socket_options.hpp"
#include "baton/stream_socket.hpp"

namespace baton {
namespace {

using namespace std::chrono_literals;

class EmptyObjects : public testing::Test {
 protected:
  /// The answer of a start, an await or a query when the object is closed.
  template <class T>
  void closed(const Result<T>& answer) {
    EXPECT_EQ(answer.error(), errc::handle_closed);
  }
  void closed(std::error_code answer) { EXPECT_EQ(answer, errc::handle_closed); }
  template <class Awaitable>
  void awaited(Awaitable awaitable) {
    closed(run_until_complete(proactor_,
                              [](Awaitable operation) -> Task<decltype(operation.await_resume())> {
                                auto answer = co_await std::move(operation);
                                co_return answer;
                              }(std::move(awaitable))));
  }

  /// The members that all objects have.
  template <class Object>
  void try_common(Object& object, bool was_open) {
    EXPECT_FALSE(object.is_open());
    EXPECT_EQ(object.handle(), nullptr);
    EXPECT_EQ(object.native(), invalid_handle);
    EXPECT_EQ(object.cancel(), CancelResult::nothing_pending);
    awaited(object.close());
    closed(object.close(unreached()));
    closed(object.close(operation_, unreached()));
    closed(object.close(operation_));
    object.close_detached();
    EXPECT_EQ(object.release(), nullptr);
    if (was_open) {
      EXPECT_EQ(&object.proactor(), &proactor_);
    } else {
      EXPECT_DEATH(static_cast<void>(object.proactor()), "baton: an object that was default-con");
    }
    Object moved = std::move(object);
    object = std::move(moved);
    EXPECT_FALSE(object.is_open());
  }
  template <class Socket>
  void try_options(Socket& socket) {
    closed(socket.set_option(option::NoDelay{true}));
    closed(socket.set_option(option::Linger{true, 1s}));
    closed(socket.template get_option<option::NoDelay>());
    closed(socket.template get_option<option::Linger>());
  }
  void try_stream(Stream& stream) {
    awaited(stream.read(buffer_));
    closed(stream.read(buffer_, unreached()));
    closed(stream.read(operation_, buffer_, unreached()));
    awaited(stream.read_exactly(buffer_));
    closed(stream.read_exactly(buffer_, unreached()));
    closed(stream.read_exactly(operation_, buffer_));
    awaited(stream.read_until(buffer_, 0, "x"));
    closed(stream.read_until(buffer_, 0, "x", unreached()));
    closed(stream.read_until(operation_, buffer_, 0, delimiter_));
    awaited(stream.read_vectored(into_));
    closed(stream.read_vectored(into_, unreached()));
    closed(stream.read_vectored(operation_, into_));
    awaited(stream.read_pooled(pool_).timeout(1s));
    closed(stream.read_pooled(pool_, unreached()));
    closed(stream.read_pooled(operation_, pool_));
    EXPECT_TRUE(Stream::take_pooled(operation_, pool_));
    awaited(stream.write(from_));
    closed(stream.write(from_, unreached()));
    closed(stream.write(operation_, from_));
    awaited(stream.write_all(from_).cancel_with(CancellationToken{}));
    closed(stream.write_all(from_, unreached()));
    closed(stream.write_all(operation_, from_));
    awaited(stream.write_all_vectored(pieces_));
    closed(stream.write_all_vectored(pieces_, unreached()));
    closed(stream.write_all_vectored(operation_, pieces_));
    awaited(stream.wait_ready(Interest::in));
    closed(stream.wait_ready(Interest::in, unreached()));
    closed(stream.wait_ready(operation_, Interest::in));
    awaited(stream.wait_readable());
    awaited(stream.wait_writable());
  }
  void try_it(StreamSocket& socket, bool was_open) {
    try_common(socket, was_open);
    try_options(socket);
    try_stream(socket);
    awaited(socket.shutdown());
    closed(socket.shutdown(unreached()));
    closed(socket.shutdown(operation_));
    closed(socket.local_endpoint());
    closed(socket.remote_endpoint());
  }
  void try_it(Pipe& pipe, bool was_open) {
    try_common(pipe, was_open);
    try_stream(pipe);
  }
  void try_it(Acceptor& acceptor, bool was_open) {
    try_common(acceptor, was_open);
    try_options(acceptor);
    awaited(acceptor.accept());
    awaited(acceptor.accept(peer_));
    closed(acceptor.accept(unreached()));
    closed(acceptor.accept(operation_));
    closed(acceptor.accept(operation_, peer_));
    operation_.set_bytes(static_cast<std::size_t>(-1));
    EXPECT_FALSE(acceptor.take(operation_));
    closed(acceptor.local_endpoint());
  }
  void try_it(DatagramSocket& socket, bool was_open) {
    try_common(socket, was_open);
    try_options(socket);
    closed(socket.connect(Endpoint::loopback(9)));
    awaited(socket.receive_from(buffer_, peer_));
    closed(socket.receive_from(buffer_, peer_, unreached()));
    closed(socket.receive_from(operation_, buffer_, peer_));
    awaited(socket.send_to(from_, peer_));
    closed(socket.send_to(from_, peer_, unreached()));
    closed(socket.send_to(operation_, from_, peer_));
    awaited(socket.read(buffer_));
    closed(socket.read(buffer_, unreached()));
    closed(socket.read(operation_, buffer_));
    awaited(socket.write(from_));
    closed(socket.write(from_, unreached()));
    closed(socket.write(operation_, from_));
    awaited(socket.read_vectored(into_));
    closed(socket.read_vectored(into_, unreached()));
    closed(socket.read_vectored(operation_, into_));
    awaited(socket.write_vectored(pieces_));
    closed(socket.write_vectored(pieces_, unreached()));
    closed(socket.write_vectored(operation_, pieces_));
    closed(socket.local_endpoint());
    closed(socket.remote_endpoint());
  }
  void try_it(File& file, bool was_open) {
    try_common(file, was_open);
    awaited(file.read_at(0, buffer_));
    closed(file.read_at(0, buffer_, unreached()));
    closed(file.read_at(operation_, 0, buffer_));
    awaited(file.read_exactly_at(0, buffer_));
    closed(file.read_exactly_at(0, buffer_, unreached()));
    closed(file.read_exactly_at(operation_, 0, buffer_));
    awaited(file.read_vectored_at(0, into_));
    closed(file.read_vectored_at(0, into_, unreached()));
    closed(file.read_vectored_at(operation_, 0, into_));
    awaited(file.write_at(0, from_));
    closed(file.write_at(0, from_, unreached()));
    closed(file.write_at(operation_, 0, from_));
    awaited(file.write_all_at(0, from_));
    closed(file.write_all_at(0, from_, unreached()));
    closed(file.write_all_at(operation_, 0, from_));
    awaited(file.write_all_vectored_at(0, pieces_));
    closed(file.write_all_vectored_at(0, pieces_, unreached()));
    closed(file.write_all_vectored_at(operation_, 0, pieces_));
    awaited(file.append_all(from_));
    closed(file.append_all(from_, unreached()));
    closed(file.append_all(operation_, from_));
    awaited(file.sync());
    closed(file.sync(unreached()));
    closed(file.sync(operation_));
    awaited(file.data_sync());
    closed(file.data_sync(unreached()));
    closed(file.data_sync(operation_));
    closed(file.size());
  }
  void try_it(SignalSet& signals, bool was_open) {
    try_common(signals, was_open);
    awaited(signals.wait());
    closed(signals.wait(info_, unreached()));
    closed(signals.wait(operation_, info_));
  }
  /// Default-constructed, then moved from.
  template <class Object>
  void try_both(Result<Object> open) {
    Object never_open;
    try_it(never_open, false);
    ASSERT_TRUE(open) << open.error().message();
    const Object owner = std::move(*open);
    try_it(*open, true);
    EXPECT_TRUE(owner.is_open());
  }

  struct Unreached {
    void operator()(Operation&) const { ADD_FAILURE() << "nothing was started"; }
  };
  static Unreached unreached() { return {}; }

  Proactor proactor_;
  BufferPool pool_{16, 1};
  Operation operation_;
  Endpoint peer_;
  SignalInfo info_;
  std::string_view delimiter_ = "x";
  std::array<char, 8> buffer_{};
  ConstBuffer from_{buffer_.data(), buffer_.size()};
  std::array<MutableBuffer, 1> into_{MutableBuffer{buffer_}};
  std::array<ConstBuffer, 1> pieces_{from_};
};

TEST_F(EmptyObjects, stream_socket) {
  auto ends = StreamSocket::pair(proactor_).value();
  try_both<StreamSocket>(std::move(ends.first));
}
TEST_F(EmptyObjects, pipe) {
  auto ends = Pipe::create(proactor_).value();
  try_both<Pipe>(std::move(ends.reader));
}
TEST_F(EmptyObjects, acceptor) { try_both(Acceptor::listen(proactor_, Endpoint::loopback(0))); }
TEST_F(EmptyObjects, datagram_socket) {
  try_both(DatagramSocket::bind(proactor_, Endpoint::loopback(0)));
}
TEST_F(EmptyObjects, file) { try_both(File::open(proactor_, "/proc/self/exe", FileFlags::read)); }
TEST_F(EmptyObjects, signal_set) { try_both(SignalSet::open(proactor_, {SIGUSR2})); }

TEST_F(EmptyObjects, connector_without_an_address) {
  Connector connector{proactor_};
  EXPECT_EQ(&connector.proactor(), &proactor_);
  Endpoint nowhere;
  constexpr auto refusal = std::errc::address_family_not_supported;
  EXPECT_EQ(connector.connect(nowhere, unreached()), refusal);
  EXPECT_EQ(connector.connect(operation_, nowhere), refusal);
  closed(connector.take(operation_));
  EXPECT_EQ(run_until_complete(proactor_, connector.connect_any({}, 1s)).error(),
            std::errc::invalid_argument);
}

TEST_F(EmptyObjects, cancellation) {
  CancellationToken none;
  EXPECT_FALSE(none.cancelled());
  EXPECT_EQ(none.state(), nullptr);
  CancellationSource source{proactor_};
  const CancellationSource owner = std::move(source);
  source.cancel();  // NOLINT: the tested case, here and below
  EXPECT_FALSE(source.cancelled());
  EXPECT_FALSE(source.token().cancelled());
  EXPECT_FALSE(owner.cancelled());
}

TEST_F(EmptyObjects, task) {
  Task<void> none;
  EXPECT_FALSE(static_cast<bool>(none));
  proactor_.spawn(std::move(none));
  Scope scope{proactor_};
  scope.spawn(Task<void>{});
  EXPECT_EQ(scope.running(), 0U);
  EXPECT_DEATH(run_until_complete(proactor_, Task<void>{}), "baton: an empty task was awaited");
}

TEST_F(EmptyObjects, pooled_buffer) {
  PooledBuffer none;
  EXPECT_TRUE(none.bytes().empty());
  none.reset();
  PooledBuffer taken{pool_, pool_.take(), 3};
  PooledBuffer owner = std::move(taken);
  EXPECT_TRUE(taken.bytes().empty());  // NOLINT
  taken.reset();
  EXPECT_EQ(owner.bytes().size(), 3U);
}

TEST_F(EmptyObjects, message_block) {
  MessagePool pool{{.block_size = 8, .blocks = 4}};
  const auto try_block = [&](MessageBlock& none, errc growth) {
    EXPECT_EQ(none.size(), 0U);
    EXPECT_TRUE(none.empty());
    EXPECT_EQ(none.room().size, 0U);
    none.commit(0);
    none.consume(0);
    EXPECT_EQ(none.grow(1), growth);
    EXPECT_EQ(none.write(from_), growth);
    EXPECT_FALSE(none.grow(0));
    EXPECT_TRUE(none.parts(pieces_).empty());
    EXPECT_EQ(none.peek(buffer_), 0U);
    EXPECT_TRUE(none.split(0).value().empty());
    EXPECT_TRUE(none.duplicate().value().empty());
    none.append(MessageBlock{});
    MessageBlock other;
    none.swap(other);
    none.reset();
  };
  MessageBlock never_made;
  try_block(never_made, errc::pool_exhausted);
  MessageBlock taken = pool.take().value();
  const MessageBlock owner = std::move(taken);
  try_block(taken, errc::pool_exhausted);  // NOLINT
}

TEST(EmptyResults, the_value_of_an_error_ends_the_program_and_is_named) {
  const Result<int> failed = unexpected{make_error_code(errc::pool_exhausted)};
  EXPECT_DEATH(static_cast<void>(failed.value()), "baton: the value of a Result was requested.*13");
  const Result<void> also = unexpected{std::make_error_code(std::errc::address_in_use)};
  EXPECT_DEATH(also.value(), "baton: the value of a Result was requested.*Address already in use");
  EXPECT_DEATH(static_cast<void>(Config::parse("engine=none", Config{}).value()), "baton: .*none");
}

}  // namespace
}  // namespace baton
