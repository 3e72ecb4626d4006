// Every kind of operation, in each form of the engine.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>

#include "../../support/counting_system.hpp"
#include "baton/buffer_pool.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

class Kinds : public testing::TestWithParam<Form> {
 protected:
  Driver driver{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Forms, Kinds, testing::Values(Form::any, Form::single, Form::pinned),
                         form_name);

TEST_P(Kinds, declares_its_form) {
  const EngineInfo& info = driver.engine().info();
  EXPECT_EQ(info.name, "io_uring");
  EXPECT_EQ(info.interrupt_name, "eventfd");
  EXPECT_EQ(info.leader_rule, GetParam() == Form::pinned ? LeaderRule::pinned : LeaderRule::any);
  EXPECT_EQ(info.start_from_any_thread, GetParam() == Form::any);
  EXPECT_TRUE(driver.explained().empty());
}

// Its probes have some of their own for a moment.
TEST_P(Kinds, keeps_no_descriptor_when_it_is_gone) {
  const auto count = [] {
    const std::filesystem::directory_iterator all{"/proc/self/fd"};
    return std::distance(begin(all), end(all));
  };
  const auto before = count();
  for (const char* interrupt : {"auto", "ring"}) {
    {
      const Driver other{test::Setup{.form = GetParam(), .interrupt = interrupt}};
    }
    EXPECT_EQ(count(), before) << interrupt;
  }
}

TEST_P(Kinds, read_waits_for_data) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  char buffer[64];
  Operation read;
  set_read(read, handle, buffer);
  EXPECT_EQ(driver.start(read), Submission::pending);
  driver.expect_quiet();
  write_all(pair.right, "hello");
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 5U);
  EXPECT_EQ(std::string_view(buffer, 5), "hello");
  ::close(pair.right);
  set_read(read, handle, buffer);
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 0U) << "end of stream";
}

TEST_P(Kinds, write_moves_bytes) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  Operation write;
  set_write(write, handle, std::string_view{"hello"});
  driver.start(write);
  ASSERT_TRUE(driver.run_until(write));
  EXPECT_EQ(*write.result(), 5U);
  EXPECT_EQ(read_all(pair.right), "hello");
  ::close(pair.right);
}

TEST_P(Kinds, vectored_both_ways) {
  const Pair pair = stream_pair();
  Handle* const left = driver.adopt(pair.left, HandleKind::stream_socket);
  Handle* const right = driver.adopt(pair.right, HandleKind::stream_socket);
  const ConstBuffer out[] = {std::string_view{"one "}, std::string_view{"two "},
                             std::string_view{"three"}};
  char first[6], second[32];
  const MutableBuffer in[] = {first, second};
  Operation write, read;
  write.prepare(OperationKind::write_stream, left, Operation::exactly);
  write.set_buffers(ConstBuffers{out});
  read.prepare(OperationKind::read_stream, right);
  read.set_buffers(MutableBuffers{in});
  driver.start(read);
  driver.start(write);
  Operation* const both[] = {&read, &write};
  ASSERT_TRUE(driver.run_until(both));
  EXPECT_EQ(*write.result(), 13U);
  EXPECT_EQ(*read.result(), 13U);
  EXPECT_EQ(std::string_view(first, 6), "one tw");
  EXPECT_EQ(std::string_view(second, 7), "o three");
}

TEST_P(Kinds, zero_bytes_complete_at_once) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  Operation read;
  set_read(read, handle, MutableBuffer{});
  EXPECT_EQ(driver.start(read), Submission::completed);
  EXPECT_EQ(*read.result(), 0U);
  ::close(pair.right);
}

TEST_P(Kinds, file_at_offsets_beyond_4_gib) {
  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  const std::uint64_t far = (std::uint64_t{5} << 30) + 7;
  Operation write, read, past;
  write.prepare(OperationKind::write_file, file, Operation::exactly);
  write.set_buffer(ConstBuffer{std::string_view{"distant"}});
  write.set_offset(far);
  driver.start(write);
  ASSERT_TRUE(driver.run_until(write));
  EXPECT_EQ(*write.result(), 7U);
  char buffer[32];
  read.prepare(OperationKind::read_file, file);
  read.set_buffer(MutableBuffer{buffer});
  read.set_offset(far);
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 7U);
  EXPECT_EQ(std::string_view(buffer, 7), "distant");
  past.prepare(OperationKind::read_file, file, Operation::exactly);
  past.set_buffer(MutableBuffer{buffer});
  past.set_offset(far);
  driver.start(past);
  ASSERT_TRUE(driver.run_until(past));
  EXPECT_EQ(past.error(), errc::end_of_stream);
  EXPECT_EQ(past.bytes(), 7U);
}

TEST_P(Kinds, vectored_file) {
  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  const ConstBuffer out[] = {std::string_view{"abc"}, std::string_view{"defg"}};
  Operation write, sync, read;
  write.prepare(OperationKind::write_file, file);
  write.set_buffers(ConstBuffers{out});
  write.set_offset(3);
  driver.start(write);
  ASSERT_TRUE(driver.run_until(write));
  EXPECT_EQ(*write.result(), 7U);
  for (const auto flags : {std::uint16_t{0}, std::uint16_t{Operation::data_only}}) {
    sync.prepare(OperationKind::sync_file, file, flags);
    driver.start(sync);
    ASSERT_TRUE(driver.run_until(sync));
    EXPECT_FALSE(sync.failed());
  }
  char first[5], second[16];
  const MutableBuffer in[] = {first, second};
  read.prepare(OperationKind::read_file, file);
  read.set_buffers(MutableBuffers{in});
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 10U);
  EXPECT_EQ(std::string_view(first, 5), std::string_view("\0\0\0ab", 5));
  EXPECT_EQ(std::string_view(second, 5), "cdefg");
}

TEST_P(Kinds, sync_of_a_pipe_is_an_error_of_its_completion) {
  const Pair pipe = pipe_pair(O_NONBLOCK);
  Handle* const out = driver.adopt(pipe.right, HandleKind::pipe);
  Operation sync;
  sync.prepare(OperationKind::sync_file, out);
  driver.start(sync);
  ASSERT_TRUE(driver.run_until(sync));
  EXPECT_EQ(sync.error(), std::errc::invalid_argument);
  ::close(pipe.left);
}

TEST_P(Kinds, pipes_blocking_or_not) {
  for (const int mode : {0, O_NONBLOCK}) {
    const Pair pipe = pipe_pair(mode);
    const Ownership ownership = mode == 0 ? Ownership::borrowed : Ownership::owned;
    Handle* const in = driver.adopt(pipe.left, HandleKind::pipe, ownership);
    Handle* const out = driver.adopt(pipe.right, HandleKind::pipe, ownership);
    char buffer[64];
    Operation read, write;
    set_read(read, in, buffer);
    driver.start(read);
    driver.expect_quiet();
    set_write(write, out, std::string_view{"through"});
    driver.start(write);
    Operation* const both[] = {&read, &write};
    ASSERT_TRUE(driver.run_until(both));
    EXPECT_EQ(*write.result(), 7U);
    EXPECT_EQ(*read.result(), 7U);
    driver.forget();
    // More than a pipe holds, and a reader that takes it bit by bit.
    const std::string text = pattern(300'000);
    std::string received(text.size(), '\0');
    set_write(write, out, text, Operation::exactly);
    set_read(read, in, received, Operation::exactly);
    driver.start(write);
    driver.start(read);
    ASSERT_TRUE(driver.run_until(both));
    EXPECT_EQ(*write.result(), text.size());
    EXPECT_EQ(*read.result(), text.size());
    EXPECT_EQ(received, text);
    driver.forget();
  }
}

TEST_P(Kinds, no_signal_from_a_pipe_or_socket_without_reader) {
  struct sigaction fatal{};
  fatal.sa_handler = SIG_DFL;
  ASSERT_EQ(::sigaction(SIGPIPE, &fatal, nullptr), 0);
  const Pair pipe = pipe_pair(O_NONBLOCK);
  Handle* const out = driver.adopt(pipe.right, HandleKind::pipe);
  Operation write;
  ::close(pipe.left);
  set_write(write, out, std::string_view{"nobody"});
  driver.start(write);
  ASSERT_TRUE(driver.run_until(write));
  EXPECT_EQ(write.error(), std::errc::broken_pipe);

  // The reader goes while a write waits for room.
  const Pair full = pipe_pair(O_NONBLOCK);
  Handle* const filled = driver.adopt(full.right, HandleKind::pipe);
  const std::string text = pattern(200'000);
  set_write(write, filled, text, Operation::exactly);
  driver.start(write);
  driver.expect_quiet();
  ::close(full.left);
  ASSERT_TRUE(driver.run_until(write));
  EXPECT_EQ(write.error(), std::errc::broken_pipe);
  EXPECT_GT(write.bytes(), 0U);

  const Pair pair = stream_pair();
  Handle* const socket = driver.adopt(pair.left, HandleKind::stream_socket);
  ::close(pair.right);
  set_write(write, socket, std::string_view{"nobody"});
  driver.start(write);
  ASSERT_TRUE(driver.run_until(write));
  EXPECT_EQ(write.error(), std::errc::broken_pipe);
}

TEST_P(Kinds, connect_and_accept) {
  Endpoint address, peer;
  const int door = listener(address);
  Handle* const acceptor = driver.adopt(door, HandleKind::listener);
  Operation accept, connect;
  accept.prepare(OperationKind::accept, acceptor);
  accept.set_endpoint(&peer);
  driver.start(accept);
  driver.expect_quiet();
  Handle* const client = driver.adopt(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), HandleKind::stream_socket);
  connect.prepare(OperationKind::connect, client);
  connect.set_endpoint(&address);
  driver.start(connect);
  Operation* const both[] = {&accept, &connect};
  ASSERT_TRUE(driver.run_until(both));
  EXPECT_FALSE(accept.failed()) << accept.error().message();
  EXPECT_FALSE(connect.failed()) << connect.error().message();
  const int accepted = accept.accepted();
  EXPECT_NE(::fcntl(accepted, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(accepted, F_GETFL) & O_NONBLOCK, 0);
  Endpoint own;
  own.set_size(Endpoint::capacity);
  ::getsockname(client->native(), static_cast<sockaddr*>(own.data()), own.size_pointer());
  EXPECT_EQ(peer.size(), sizeof(sockaddr_in));
  EXPECT_EQ(peer.port(), own.port());
  ::close(accepted);

  accept.prepare(OperationKind::accept, acceptor);  // without an address
  driver.start(accept);
  Handle* const other = driver.adopt(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                                     HandleKind::stream_socket, Ownership::borrowed);
  connect.prepare(OperationKind::connect, other);
  connect.set_endpoint(&address);
  driver.forget();
  driver.start(connect);
  ASSERT_TRUE(driver.run_until(both));
  EXPECT_FALSE(accept.failed());
  ::close(accept.accepted());
}

TEST_P(Kinds, connect_refused) {
  Endpoint address;
  ::close(listener(address));
  for (const int mode : {0, static_cast<int>(SOCK_NONBLOCK)}) {
    Handle* const client = driver.adopt(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | mode, 0),
                                        HandleKind::stream_socket);
    Operation connect;
    connect.prepare(OperationKind::connect, client);
    connect.set_endpoint(&address);
    driver.start(connect);
    ASSERT_TRUE(driver.run_until(connect));
    EXPECT_EQ(connect.error(), std::errc::connection_refused);
  }
}

// A UNIX listener whose backlog one connection fills.
class Door {
 public:
  explicit Door(Form form) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const int digits = std::snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "baton-%d-%d",
                                     ::getpid(), static_cast<int>(form));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                             static_cast<std::size_t>(digits));
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(::listen(fd, 0), 0);
    std::memcpy(address.data(), &name, size);
    address.set_size(size);
  }
  ~Door() { ::close(fd); }

  void connect(Driver& driver, Operation& operation) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    operation.prepare(OperationKind::connect, driver.adopt(socket, HandleKind::stream_socket));
    operation.set_endpoint(&address);
    driver.start(operation);
  }

  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Endpoint address;
};

TEST_P(Kinds, connect_waits_for_room_in_a_backlog) {
  Door door{GetParam()};
  Operation first, second;
  door.connect(driver, first);
  ASSERT_TRUE(driver.run_until(first));
  EXPECT_FALSE(first.failed());
  door.connect(driver, second);
  driver.expect_quiet();
  ::close(::accept(door.fd, nullptr, nullptr));
  ASSERT_TRUE(driver.run_until(second));
  EXPECT_FALSE(second.failed()) << second.error().message();
}

std::int64_t clock_ahead_ns = 0;
unsigned requests_entered = 0;

// A turn that tried them all would keep other connections waiting.
TEST(Connects, many_connects_to_a_full_backlog_are_tried_in_batches) {
  clock_ahead_ns = 0;
  os::System system = counting_system();
  system.monotonic_ns = [] { return counting_system().monotonic_ns() + clock_ahead_ns; };
  system.io_uring_enter = [](int ring, unsigned submit, unsigned complete, unsigned flags,
                             const void* argument, std::size_t size) {
    const int taken =
        counting_system().io_uring_enter(ring, submit, complete, flags, argument, size);
    requests_entered += static_cast<unsigned>(std::max(taken, 0));
    return taken;
  };
  Driver own{test::Setup{.form = Form::any, .system = &system}};
  Door door{Form::any};
  constexpr std::size_t count = 2 * limits::reports_max + 1;
  const auto connects = std::make_unique<Operation[]>(count);
  for (std::size_t i = 0; i < count; ++i) door.connect(own, connects[i]);
  ASSERT_TRUE(own.run_until(connects[0]));
  for (int i = 0; i < 50; ++i) own.wait_once(Deadline::immediately());
  clock_ahead_ns = 60'000'000'000;
  requests_entered = 0;
  own.wait_once(Deadline::immediately());
  EXPECT_GE(requests_entered, 1U);
  EXPECT_LE(requests_entered, limits::reports_max + 8) << "and some for the ring itself";
  for (std::size_t i = 1; i < count; ++i) {
    own.cancel(connects[i]);
    EXPECT_TRUE(own.run_until(connects[i]));
  }
}

TEST_P(Kinds, datagrams_with_addresses) {
  const auto make = [&](Endpoint& address) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    address.set_size(Endpoint::capacity);
    ::getsockname(fd, static_cast<sockaddr*>(address.data()), address.size_pointer());
    return driver.adopt(fd, HandleKind::datagram_socket);
  };
  Endpoint left_address, right_address, from;
  Handle* const left = make(left_address);
  Handle* const right = make(right_address);
  char buffer[64];
  Operation read, write;
  read.prepare(OperationKind::read_datagram, right);
  read.set_buffer(MutableBuffer{buffer});
  read.set_endpoint(&from);
  driver.start(read);
  driver.expect_quiet();
  write.prepare(OperationKind::write_datagram, left);
  write.set_buffer(ConstBuffer{std::string_view{"datagram"}});
  write.set_endpoint(&right_address);
  driver.start(write);
  Operation* const both[] = {&read, &write};
  ASSERT_TRUE(driver.run_until(both));
  EXPECT_EQ(*write.result(), 8U);
  EXPECT_EQ(*read.result(), 8U);
  EXPECT_EQ(from, left_address);
  driver.forget();

  // Scattered, gathered, and empty ones.
  const ConstBuffer out[] = {std::string_view{"12"}, std::string_view{"345"}};
  char first[3], second[8];
  const MutableBuffer in[] = {first, second};
  write.prepare(OperationKind::write_datagram, left);
  write.set_buffers(ConstBuffers{out});
  write.set_endpoint(&right_address);
  read.prepare(OperationKind::read_datagram, right);
  read.set_buffers(MutableBuffers{in});
  driver.start(write);
  driver.start(read);
  ASSERT_TRUE(driver.run_until(both));
  EXPECT_EQ(*read.result(), 5U);
  EXPECT_EQ(std::string_view(first, 3), "123");
  driver.forget();
  write.prepare(OperationKind::write_datagram, left);
  write.set_endpoint(&right_address);
  read.prepare(OperationKind::read_datagram, right);
  read.set_buffer(MutableBuffer{buffer});
  read.set_endpoint(&from);
  from.set_size(0);
  driver.start(read);
  driver.start(write);
  ASSERT_TRUE(driver.run_until(both));
  EXPECT_EQ(*read.result(), 0U);
  EXPECT_EQ(*write.result(), 0U);
  EXPECT_EQ(from, left_address);
}

TEST_P(Kinds, wait_ready_reports_and_takes_nothing) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  Operation readable, writable;
  readable.prepare(OperationKind::wait_ready, handle, Operation::readable);
  writable.prepare(OperationKind::wait_ready, handle, Operation::writable);
  driver.start(readable);
  driver.start(writable);
  ASSERT_TRUE(driver.run_until(writable));
  EXPECT_FALSE(driver.is_done(readable));
  write_all(pair.right, "x");
  ASSERT_TRUE(driver.run_until(readable));
  EXPECT_EQ(*readable.result(), 0U);
  EXPECT_EQ(read_all(pair.left), "x");
  ::close(pair.right);
}

TEST_P(Kinds, shutdown_behind_writes) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  const std::string text = pattern(1'000'000);
  Operation write, shutdown;
  set_write(write, handle, text, Operation::exactly);
  shutdown.prepare(OperationKind::shutdown, handle);
  driver.start(write);
  driver.start(shutdown);
  std::string received;
  for (int i = 0; i < 100'000 && !driver.is_done(shutdown); ++i) {
    received += read_all(pair.right);
    driver.wait_once(Deadline::after(std::chrono::milliseconds{1}));
  }
  received += read_all(pair.right);
  EXPECT_EQ(received, text);
  char byte = 0;
  EXPECT_EQ(::read(pair.right, &byte, 1), 0) << "half closed";
  EXPECT_FALSE(shutdown.failed());
  ASSERT_EQ(driver.history().size(), 2U);
  EXPECT_EQ(driver.history()[0], &write);
  ::close(pair.right);
}

TEST_P(Kinds, close_closes) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.borrow(pair.left, HandleKind::stream_socket);
  Operation close;
  close.prepare(OperationKind::close, handle);
  driver.start(close);
  ASSERT_TRUE(driver.run_until(close));
  EXPECT_FALSE(close.failed());
  EXPECT_EQ(::fcntl(pair.left, F_GETFD), -1);
  ::close(pair.right);
}

TEST_P(Kinds, read_exactly_and_until) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  char buffer[64];
  Operation exactly, until;
  set_read(exactly, handle, MutableBuffer{buffer, 6}, Operation::exactly);
  driver.start(exactly);
  write_all(pair.right, "abc");
  driver.expect_quiet();
  EXPECT_EQ(exactly.bytes(), 3U);
  write_all(pair.right, "defgh\r");
  ASSERT_TRUE(driver.run_until(exactly));
  EXPECT_EQ(std::string_view(buffer, 6), "abcdef");

  const std::string_view delimiter = "\r\n";
  set_read(until, handle, MutableBuffer{buffer, 20});
  until.set_until(&delimiter, 0);
  driver.start(until);
  driver.expect_quiet();
  write_all(pair.right, "\nrest");
  ASSERT_TRUE(driver.run_until(until));
  EXPECT_FALSE(until.failed());
  EXPECT_EQ(std::string_view(buffer, 8), "gh\r\nrest");
  // The buffered bytes may hold the next delimiter.
  std::memcpy(buffer, "x\r\ny", 4);
  set_read(until, handle, MutableBuffer{buffer, 20});
  until.set_until(&delimiter, 4);
  EXPECT_EQ(driver.start(until), Submission::completed);
  EXPECT_FALSE(until.failed());

  set_read(exactly, handle, MutableBuffer{buffer, 6}, Operation::exactly);
  driver.start(exactly);
  write_all(pair.right, "ab");
  ::close(pair.right);
  ASSERT_TRUE(driver.run_until(exactly));
  EXPECT_EQ(exactly.error(), errc::end_of_stream);
  EXPECT_EQ(exactly.bytes(), 2U);
}

TEST_P(Kinds, pooled_read_takes_a_block_only_for_data) {
  BufferPool pool{256, 2};
  {
    const Pair sockets = stream_pair();
    const Pair pipe = pipe_pair(O_NONBLOCK);
    const Pair datagrams = datagram_pair();
    Handle* const handles[] = {driver.adopt(sockets.left, HandleKind::stream_socket),
                               driver.adopt(pipe.left, HandleKind::pipe),
                               driver.adopt(datagrams.left, HandleKind::datagram_socket)};
    const int peers[] = {sockets.right, pipe.right, datagrams.right};
    for (int i = 0; i < 3; ++i) {
      Operation read;
      read.prepare(i == 2 ? OperationKind::read_datagram : OperationKind::read_stream, handles[i]);
      read.set_pool(&pool);
      driver.start(read);
      driver.expect_quiet();
      EXPECT_EQ(pool.available(), 2U) << "an idle connection pins no memory";
      write_all(peers[i], "pooled");
      ASSERT_TRUE(driver.run_until(read));
      EXPECT_EQ(*read.result(), 6U);
      EXPECT_EQ(pool.available(), 1U);
      PooledBuffer block{pool, read.buffer().data, read.bytes()};
      EXPECT_EQ(std::memcmp(block.bytes().data(), "pooled", 6), 0);
    }
    EXPECT_EQ(pool.available(), 2U);
    // End of stream takes none.
    ::close(sockets.right);
    Operation read;
    read.prepare(OperationKind::read_stream, handles[0]);
    read.set_pool(&pool);
    driver.start(read);
    ASSERT_TRUE(driver.run_until(read));
    EXPECT_EQ(*read.result(), 0U);
    EXPECT_EQ(read.buffer().data, nullptr);
    EXPECT_EQ(pool.available(), 2U);
    ::close(pipe.right);
    ::close(datagrams.right);
  }
}

TEST_P(Kinds, pooled_read_of_an_empty_pool) {
  BufferPool pool{64, 1};
  void* const block = pool.take();
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  Operation read;
  read.prepare(OperationKind::read_stream, handle);
  read.set_pool(&pool);
  driver.start(read);
  driver.expect_quiet();
  write_all(pair.right, "data");
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(read.error(), errc::pool_exhausted);
  EXPECT_EQ(read.buffer().data, nullptr);
  pool.give(block);
  read.prepare(OperationKind::read_stream, handle);
  read.set_pool(&pool);
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 4U) << "nothing was lost";
  pool.give(read.buffer().data);
  ::close(pair.right);
}

// One that is ready alone, and several at once: the last finds the pool empty.
TEST_P(Kinds, pooled_reads_that_are_ready_together) {
  BufferPool pool{64, 2};
  Pair pairs[3];
  Handle* handles[3];
  Operation reads[3];
  const auto start = [&](int i) {
    reads[i].prepare(OperationKind::read_stream, handles[i]);
    reads[i].set_pool(&pool);
    driver.start(reads[i]);
  };
  for (int i = 0; i < 3; ++i) {
    pairs[i] = stream_pair();
    handles[i] = driver.adopt(pairs[i].left, HandleKind::stream_socket);
    start(i);
  }
  driver.expect_quiet();
  EXPECT_EQ(pool.available(), 2U);
  for (const Pair& pair : pairs) write_all(pair.right, "pooled");
  for (const Operation& read : reads) ASSERT_TRUE(driver.run_until(read));
  int failed = 0;
  for (int i = 0; i < 3; ++i) {
    if (reads[i].failed()) {
      ++failed;
      EXPECT_EQ(reads[i].error(), errc::pool_exhausted);
      EXPECT_EQ(reads[i].buffer().data, nullptr);
      continue;
    }
    const PooledBuffer block{pool, reads[i].buffer().data, reads[i].bytes()};
    EXPECT_EQ(reads[i].buffer().size, 64U);
    EXPECT_EQ(reads[i].bytes(), 6U);
    EXPECT_EQ(std::memcmp(block.bytes().data(), "pooled", 6), 0);
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(pool.available(), 2U);
  for (int i = 0; i < 3; ++i) {
    if (reads[i].failed()) {
      start(i);
      ASSERT_TRUE(driver.run_until(reads[i])) << "nothing was lost";
      EXPECT_EQ(*reads[i].result(), 6U);
      pool.give(reads[i].buffer().data);
    }
  }
  // The streams end together.
  for (int i = 0; i < 3; ++i) start(i);
  driver.expect_quiet();
  for (const Pair& pair : pairs) ::close(pair.right);
  for (const Operation& read : reads) {
    ASSERT_TRUE(driver.run_until(read));
    EXPECT_TRUE(read.failed() ? read.error() == errc::pool_exhausted : *read.result() == 0U);
    EXPECT_EQ(read.buffer().data, nullptr);
  }
  EXPECT_EQ(pool.available(), 2U);
}

// Another reader has emptied the socket between the poll and the call: no block stays taken.
TEST_P(Kinds, pooled_read_that_finds_nothing) {
  BufferPool pool{64, 1};
  const Pair pair = stream_pair();
  Operation read;
  read.prepare(OperationKind::read_stream, driver.adopt(pair.left, HandleKind::stream_socket));
  read.set_pool(&pool);
  driver.start(read);
  driver.expect_quiet();
  write_all(pair.right, "gone");
  ASSERT_EQ(read_all(pair.left), "gone");
  for (int i = 0; i < 4; ++i) driver.expect_nothing();
  EXPECT_EQ(pool.available(), 1U);
  write_all(pair.right, "more");
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 4U);
  pool.give(read.buffer().data);
  ::close(pair.right);
}

TEST_P(Kinds, pooled_read_of_a_file) {
  BufferPool pool{64, 1};
  const int fd = temporary_file();
  write_all(fd, "content");
  Handle* const file = driver.adopt(fd, HandleKind::file);
  Operation read;
  read.prepare(OperationKind::read_file, file);
  read.set_pool(&pool);
  read.set_offset(3);
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 4U);
  EXPECT_EQ(std::memcmp(read.buffer().data, "tent", 4), 0);
  pool.give(read.buffer().data);
}

TEST_P(Kinds, errors_are_completions) {
  Handle* const handle = driver.borrow(987'654, HandleKind::stream_socket);
  char buffer[8];
  Operation read;
  set_read(read, handle, buffer);
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(read.error(), std::errc::bad_file_descriptor);
}

TEST_P(Kinds, requests_that_the_kernel_would_misunderstand) {
  Handle* const socket =
      driver.adopt(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), HandleKind::stream_socket);
  Operation operation;
  operation.prepare(OperationKind::connect, socket);
  EXPECT_EQ(driver.start(operation), Submission::completed);
  EXPECT_EQ(operation.error(), std::errc::destination_address_required);
  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  for (const OperationKind kind : {OperationKind::read_file, OperationKind::write_file}) {
    char buffer[8] = {};
    operation.prepare(kind, file);
    operation.set_buffer(MutableBuffer{buffer});
    operation.set_offset(~std::uint64_t{0});
    EXPECT_EQ(driver.start(operation), Submission::completed);
    EXPECT_EQ(operation.error(), std::errc::invalid_argument);
  }
}

TEST_P(Kinds, terminal_input) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) GTEST_SKIP() << "no ptys";
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  ASSERT_GE(terminal, 0);
  Handle* const handle = driver.adopt(terminal, HandleKind::pipe);
  char buffer[64];
  Operation read;
  set_read(read, handle, buffer);
  driver.start(read);
  driver.expect_quiet();
  write_all(master, "line\n");
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 5U);
  ::close(master);
}

// A descriptor in non-blocking mode that cannot be tried without blocking: the ring answers EAGAIN.
TEST_P(Kinds, waits_for_what_only_answers_would_block) {
  const int watch = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  char folder[] = "/tmp/baton-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  ASSERT_GE(::inotify_add_watch(watch, folder, IN_DELETE_SELF), 0);
  Handle* const handle = driver.adopt(watch, HandleKind::pipe);
  alignas(8) char buffer[512];
  Operation read;
  set_read(read, handle, buffer);
  driver.start(read);
  driver.expect_quiet();
  ::rmdir(folder);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_GT(*read.result(), 0U);
  set_read(read, handle, buffer);
  driver.start(read);
  driver.expect_quiet();
  driver.cancel(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
}

}  // namespace
}  // namespace baton::test
