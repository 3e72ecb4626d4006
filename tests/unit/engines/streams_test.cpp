// Streams: when the system call is made, order, short transfers, merged writes, the end.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "baton/buffer_pool.hpp"
#include "driver.hpp"

#ifndef RWF_NOSIGNAL
#define RWF_NOSIGNAL 0x00000100
#endif

namespace baton::test {
namespace {

using Streams = EveryForm;
INSTANTIATE_TEST_SUITE_P(forms, Streams, testing::ValuesIn(forms()), form_name);

struct Connected {
  explicit Connected(Driver& driver, Pair pair = stream_pair())
      : handle(driver.adopt(pair.ours, HandleKind::stream_socket)), peer(pair.peer) {}
  ~Connected() { close_peer(); }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(peer, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void close_peer() {
    if (peer >= 0) ::close(peer);
    peer = -1;
  }
  Handle* handle;
  int peer;
};

TEST_P(Streams, read_waits_for_data_and_then_for_the_end) {
  Connected connected{driver};
  char buffer[64];
  Operation read;
  set_read(read, connected.handle, buffer);
  EXPECT_EQ(driver.start(read), Submission::pending);
  driver.expect_nothing();
  connected.send("hello");
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(std::string_view(buffer, *read.result()), "hello");
  connected.close_peer();
  set_read(read, connected.handle, buffer);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(*read.result(), 0U);
}

TEST_P(Streams, a_short_buffer_leaves_the_rest_to_the_next_read) {
  const Connected connected{driver};
  connected.send("abcdef");
  char buffer[2];
  Operation read;
  for (const std::string_view expected : {"ab", "cd", "ef"}) {
    set_read(read, connected.handle, buffer);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(std::string_view(buffer, *read.result()), expected);
  }
  set_read(read, connected.handle, buffer);
  EXPECT_EQ(driver.start(read), Submission::pending);
  driver.expect_nothing();
  EXPECT_EQ(driver.cancel(read), CancelAnswer::completed);
}

TEST_P(Streams, reads_complete_in_order) {
  const Connected connected{driver};
  std::array<std::array<char, 2>, 3> buffers{};
  std::array<Operation, 3> reads;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    set_read(reads[i], connected.handle, buffers[i]);
    EXPECT_EQ(driver.start(reads[i]), Submission::pending);
  }
  connected.send("abcdef");
  ASSERT_TRUE(driver.run(reads[2]));
  ASSERT_EQ(driver.history().size(), 3U);
  const std::string_view expected[] = {"ab", "cd", "ef"};
  for (std::size_t i = 0; i < reads.size(); ++i) {
    EXPECT_EQ(driver.history()[i], &reads[i]);
    EXPECT_EQ(std::string_view(buffers[i].data(), 2), expected[i]);
  }
}

TEST_P(Streams, read_exactly_and_write_all_survive_short_transfers) {
  Connected connected{driver};
  Handle* const other = driver.adopt(std::exchange(connected.peer, -1), HandleKind::stream_socket);
  const std::string sent = pattern(10'000);
  std::string received(sent.size(), '\0');
  faults().cut(7);
  Operation read;
  Operation write;
  set_read(read, connected.handle, received, Operation::exactly);
  set_write(write, other, std::string_view{sent}, Operation::exactly);
  driver.start(read);
  driver.start(write);
  ASSERT_TRUE(driver.run(read));
  ASSERT_TRUE(driver.run(write));
  EXPECT_EQ(*write.result(), sent.size());
  EXPECT_EQ(*read.result(), sent.size());
  EXPECT_EQ(received, sent);
}

TEST_P(Streams, the_end_before_all_is_read) {
  Connected connected{driver};
  char buffer[64];
  Operation read;
  set_read(read, connected.handle, buffer, Operation::exactly);
  driver.start(read);
  connected.send("hello");
  connected.close_peer();
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(read.error(), errc::end_of_stream);
  EXPECT_EQ(read.bytes(), 5U);
}

TEST_P(Streams, read_until_sees_a_delimiter_in_two_parts) {
  const Connected connected{driver};
  char buffer[16];
  const std::string_view delimiter = "\r\n";
  Operation read;
  set_read(read, connected.handle, buffer);
  read.set_until(&delimiter, 0);
  driver.start(read);
  connected.send("line\r");
  driver.wait_once();
  EXPECT_FALSE(driver.is_done(read));
  connected.send("\nrest");
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 10U);

  // Bytes that are buffered already need no peer.
  set_read(read, connected.handle, buffer);
  read.set_until(&delimiter, 10);
  EXPECT_EQ(driver.start(read), Submission::completed);
  EXPECT_EQ(*read.result(), 10U);
}

TEST_P(Streams, read_until_fills_the_buffer_in_vain) {
  const Connected connected{driver};
  char buffer[4];
  const std::string_view delimiter = "\n";
  Operation read;
  set_read(read, connected.handle, buffer);
  read.set_until(&delimiter, 0);
  driver.start(read);
  connected.send("abcdef");
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(read.error(), errc::delimiter_not_found);
  EXPECT_EQ(read.bytes(), 4U);
}

TEST_P(Streams, zero_bytes_need_no_system_call_but_keep_their_place) {
  const Connected connected{driver};
  char buffer[4];
  Operation nothing;
  set_read(nothing, connected.handle, MutableBuffer{buffer, 0});
  EXPECT_EQ(driver.start(nothing), Submission::completed);
  EXPECT_EQ(faults().count(Call::recv), 0U);

  Operation read;
  set_read(read, connected.handle, buffer);
  driver.start(read);
  set_read(nothing, connected.handle, MutableBuffer{buffer, 0}, Operation::exactly);
  EXPECT_EQ(driver.start(nothing), Submission::pending);
  connected.send("abcd");
  ASSERT_TRUE(driver.run(nothing));
  EXPECT_EQ(driver.history()[1], &read);
  EXPECT_EQ(*nothing.result(), 0U);
}

TEST_P(Streams, ready_and_then_not_stays_pending) {
  const Connected connected{driver};
  char buffer[8];
  Operation read;
  set_read(read, connected.handle, buffer);
  driver.start(read);
  driver.expect_nothing();
  faults().fail(Call::recv, EAGAIN, 3);
  connected.send("hello");
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 5U);
}

TEST_P(Streams, interrupted_calls_are_invisible) {
  Connected connected{driver};
  Handle* const other = driver.adopt(std::exchange(connected.peer, -1), HandleKind::stream_socket);
  faults().fail(Call::recv, EINTR, 3);
  faults().fail(Call::send, EINTR, 3);
  char buffer[8];
  Operation read;
  Operation write;
  set_read(read, connected.handle, buffer);
  set_write(write, other, std::string_view{"hello"});
  driver.start(read);
  driver.start(write);
  ASSERT_TRUE(driver.run(write));
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*write.result(), 5U);
  EXPECT_EQ(*read.result(), 5U);
}

TEST_P(Streams, errors_are_completions_once_each) {
  const Connected connected{driver};
  char buffer[8];
  std::array<Operation, 2> reads;
  for (Operation& read : reads) {
    set_read(read, connected.handle, buffer);
    driver.start(read);
  }
  faults().fail(Call::recv, ENOMEM, 1);
  connected.send("ok");
  ASSERT_TRUE(driver.run(reads[1]));
  EXPECT_EQ(reads[0].error(), std::errc::not_enough_memory);
  EXPECT_EQ(*reads[1].result(), 2U) << "the connection is kept";
}

TEST_P(Streams, a_reset_ends_every_pending_read) {
  Endpoint address;
  const int door = listener(address);
  const int peer = client(address);
  const int ours = ::accept4(door, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  ::close(door);
  Connected connected{driver, {ours, peer}};
  char buffer[8];
  std::array<Operation, 2> reads;
  for (Operation& read : reads) {
    set_read(read, connected.handle, buffer);
    driver.start(read);
  }
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(peer, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  connected.close_peer();
  ASSERT_TRUE(driver.run(reads[1]));
  EXPECT_EQ(reads[0].error(), std::errc::connection_reset);
  EXPECT_EQ(reads[1].error(), std::errc::connection_reset) << "the system tells it once";
}

TEST_P(Streams, scatter_and_gather) {
  Connected connected{driver};
  Handle* const other = driver.adopt(std::exchange(connected.peer, -1), HandleKind::stream_socket);
  const ConstBuffer out[] = {std::string_view{"one "}, std::string_view{}, std::string_view{"two"}};
  char first[5];
  char second[32];
  const MutableBuffer in[] = {first, second};
  Operation write;
  Operation read;
  write.prepare(OperationKind::write_stream, other, Operation::exactly);
  write.set_buffers(ConstBuffers{out});
  read.prepare(OperationKind::read_stream, connected.handle);
  read.set_buffers(MutableBuffers{in});
  driver.start(read);
  EXPECT_EQ(driver.start(write), Submission::completed);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 7U);
  EXPECT_EQ(std::string_view(first, 5), "one t");
  EXPECT_EQ(std::string_view(second, 2), "wo");
}

// -- pooled reads ---------------------------------------------------------------------------------

void start_pooled(Driver& driver, Operation& read, Handle* handle, BufferPool& pool) {
  read.prepare(OperationKind::read_stream, handle);
  read.set_pool(&pool);
  driver.start(read);
}

TEST_P(Streams, pooled_reads_take_a_block_only_with_data) {
  Connected connected{driver};
  BufferPool pool{16, 1};
  Operation read;
  const auto start = [&] { start_pooled(driver, read, connected.handle, pool); };
  start();
  driver.expect_nothing();
  EXPECT_EQ(pool.available(), 1U);
  connected.send("hello");
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 5U);
  EXPECT_EQ(pool.available(), 0U);
  void* const block = read.buffer().data;
  EXPECT_EQ(std::string_view(static_cast<char*>(block), 5), "hello");

  start();
  connected.send("more");
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(read.error(), errc::pool_exhausted);
  EXPECT_EQ(read.buffer().size, 0U);

  pool.give(block);
  start();
  ASSERT_TRUE(driver.run(read)) << "the data is still there";
  EXPECT_EQ(*read.result(), 4U);
  pool.give(read.buffer().data);
  start();
  connected.close_peer();
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 0U);
  EXPECT_EQ(read.buffer().size, 0U);
  EXPECT_EQ(pool.available(), 1U) << "the end needs no memory";
}

TEST_P(Streams, pooled_reads_give_back_what_they_do_not_use) {
  const Connected connected{driver};
  BufferPool pool{16, 1};
  Operation read;
  for (const unsigned times : {1U, 2U, 3U}) {
    start_pooled(driver, read, connected.handle, pool);
    faults().fail(Call::recv, EAGAIN, times);
    connected.send("x");
    driver.wait_once();
    if (!driver.is_done(read)) {  // an edge strategy has it asked again at once
      EXPECT_EQ(pool.available(), 1U);
      ASSERT_TRUE(driver.run(read));
    }
    EXPECT_EQ(*read.result(), 1U);
    pool.give(read.buffer().data);
  }
  start_pooled(driver, read, connected.handle, pool);
  EXPECT_EQ(driver.cancel(read), CancelAnswer::completed);
  EXPECT_EQ(read.buffer().size, 0U);
  EXPECT_EQ(pool.available(), 1U);
}

// The system reports it once.
TEST_P(Streams, a_pooled_read_that_fails_has_no_block) {
  Connected connected{driver};
  BufferPool pool{16, 1};
  Operation read;
  const auto start = [&] { start_pooled(driver, read, connected.handle, pool); };
  start();
  connected.send("1");
  ASSERT_TRUE(driver.run(read));
  pool.give(read.buffer().data);
  start();
  faults().fail(Call::recv, ECONNRESET, 1);
  connected.send("2");
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(read.error(), std::errc::connection_reset);
  EXPECT_EQ(read.buffer().data, nullptr);
  EXPECT_EQ(pool.available(), 1U);
}

// -- writes ---------------------------------------------------------------------------------------

TEST_P(Streams, a_write_is_done_at_once_when_there_is_room) {
  const Connected connected{driver};
  Operation write;
  set_write(write, connected.handle, std::string_view{"hello"});
  EXPECT_EQ(driver.start(write), Submission::completed);
  EXPECT_EQ(*write.result(), 5U);
  EXPECT_EQ(read_all(connected.peer), "hello");
}

// Fills the socket, queues three writes, lets the peer read, and answers the bytes after the fill.
std::string write_three(Driver& driver, const Connected& connected,
                        std::array<Operation, 3>& writes) {
  const std::size_t full = fill(connected.handle->native());
  const std::string_view texts[] = {"one", "two", "three"};
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_write(writes[i], connected.handle, texts[i], Operation::exactly);
    EXPECT_EQ(driver.start(writes[i]), Submission::pending);
  }
  driver.expect_nothing();
  std::string all = read_all(connected.peer);
  EXPECT_TRUE(driver.run(writes[2]));
  all += read_all(connected.peer);
  return all.substr(full);
}

TEST_P(Streams, queued_writes_go_together_and_complete_in_order) {
  const Connected connected{driver};
  std::array<Operation, 3> writes;
  EXPECT_EQ(write_three(driver, connected, writes), "onetwothree");
  ASSERT_EQ(driver.history().size(), 3U);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    EXPECT_EQ(driver.history()[i], &writes[i]);
    EXPECT_FALSE(writes[i].failed());
  }
  // Real-time signals: one more failed write, so that the socket reports room.
  EXPECT_LE(faults().count(Call::sendmsg), GetParam().wait == "rt_signals" ? 2U : 1U);
}

TEST_P(Streams, merged_writes_cut_anywhere_lose_nothing) {
  for (const std::size_t cut : {1U, 2U, 3U, 4U, 5U, 6U, 10U}) {
    const Connected connected{driver};
    faults().cut(cut);
    std::array<Operation, 3> writes;
    EXPECT_EQ(write_three(driver, connected, writes), "onetwothree") << cut;
    for (const Operation& write : writes) EXPECT_FALSE(write.failed());
  }
}

std::size_t bytes_in(int pipe) {
  int bytes = 0;
  EXPECT_EQ(::ioctl(pipe, FIONREAD, &bytes), 0);
  return static_cast<std::size_t>(bytes);
}

// A write of up to PIPE_BUF bytes to a pipe is made at once or not at all (pipe(7)), so that other
// writers do not get between its parts.
TEST_P(Streams, short_writes_to_a_pipe_are_not_cut) {
  constexpr std::size_t page = 4'096;
  const std::string text(3'000, 'w');
  for (const bool vectored : {false, true}) {
    const Pair pipe = pipe_pair(O_NONBLOCK);
    Handle* const handle = driver.adopt(pipe.ours, HandleKind::pipe);
    ASSERT_GE(::fcntl(pipe.ours, F_SETPIPE_SZ, 2 * page), 0);
    const std::string full(2 * page, 'f');
    ASSERT_EQ(::write(pipe.ours, full.data(), full.size()), static_cast<ssize_t>(full.size()));
    std::array<Operation, 2> writes;
    std::array<ConstBuffer, 100> pieces;  // more than one call takes otherwise
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = {text.data() + 30 * i, 30};
    for (Operation& each : writes) {
      set_write(each, handle, std::string_view{text});
      if (vectored) each.set_buffers(ConstBuffers{pieces});
      EXPECT_EQ(driver.start(each), Submission::pending);
    }
    std::string room(page, ' ');
    ASSERT_EQ(::read(pipe.peer, room.data(), page), static_cast<ssize_t>(page));
    ASSERT_TRUE(driver.run(writes[0]));
    EXPECT_EQ(bytes_in(pipe.peer), page + text.size()) << vectored;
    ASSERT_EQ(::read(pipe.peer, room.data(), page), static_cast<ssize_t>(page));
    ASSERT_TRUE(driver.run(writes[1]));
    for (const Operation& each : writes) EXPECT_EQ(*each.result(), text.size());
    ::close(pipe.peer);
  }
}

TEST_P(Streams, a_write_that_fails_does_not_take_the_others_along) {
  const Connected connected{driver};
  std::array<Operation, 3> writes;
  const std::size_t full = fill(connected.handle->native());
  for (Operation& write : writes) {
    set_write(write, connected.handle, std::string_view{"x"});
    driver.start(write);
  }
  faults().fail(Call::sendmsg, ENOBUFS, 1);
  EXPECT_EQ(read_all(connected.peer).size(), full);
  ASSERT_TRUE(driver.run(writes[2]));
  EXPECT_EQ(writes[0].error(), std::errc::no_buffer_space);
  EXPECT_EQ(*writes[1].result(), 1U);
  EXPECT_EQ(*writes[2].result(), 1U);
}

TEST_P(Streams, half_close_waits_for_earlier_writes) {
  const Connected connected{driver};
  const std::size_t full = fill(connected.handle->native());
  Operation write;
  Operation half_close;
  set_write(write, connected.handle, std::string_view{"bye"}, Operation::exactly);
  half_close.prepare(OperationKind::shutdown, connected.handle);
  EXPECT_EQ(driver.start(write), Submission::pending);
  EXPECT_EQ(driver.start(half_close), Submission::pending);
  std::string all = read_all(connected.peer);
  ASSERT_TRUE(driver.run(half_close));
  EXPECT_FALSE(half_close.failed());
  all += read_all(connected.peer);
  EXPECT_EQ(all.substr(full), "bye");
  char end;
  EXPECT_EQ(::read(connected.peer, &end, 1), 0);
}

TEST_P(Streams, both_directions_do_not_know_each_other) {
  const Connected connected{driver};
  const std::size_t full = fill(connected.handle->native());
  Operation write;
  set_write(write, connected.handle, std::string_view{"x"});
  driver.start(write);
  char buffer[4];
  Operation read;
  set_read(read, connected.handle, buffer);
  driver.start(read);
  connected.send("ping");
  ASSERT_TRUE(driver.run(read));
  EXPECT_FALSE(driver.is_done(write));
  EXPECT_EQ(read_all(connected.peer).size(), full);
  ASSERT_TRUE(driver.run(write));
}

TEST_P(Streams, writing_without_a_reader_is_an_error_and_no_signal) {
  Connected connected{driver};
  connected.close_peer();
  Operation write;
  set_write(write, connected.handle, std::string_view{"x"});
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(write.error(), std::errc::broken_pipe);
}

// -- pipes ----------------------------------------------------------------------------------------

TEST_P(Streams, pipes_do_the_same) {
  const Pair pair = pipe_pair(O_NONBLOCK);
  Handle* const in = driver.adopt(pair.peer, HandleKind::pipe);
  Handle* const out = driver.adopt(pair.ours, HandleKind::pipe);
  const std::string sent = pattern(300'000);
  std::string received(sent.size(), '\0');
  Operation read;
  Operation write;
  set_read(read, in, received, Operation::exactly);
  set_write(write, out, std::string_view{sent}, Operation::exactly);
  driver.start(read);
  driver.start(write);
  ASSERT_TRUE(driver.run(read));
  ASSERT_TRUE(driver.run(write));
  EXPECT_EQ(received, sent);
}

// The default disposition of SIGPIPE ends the process: surviving is the test.
TEST_P(Streams, a_pipe_without_readers_ends_no_process) {
  for (const int refused : {0, RWF_NOSIGNAL}) {
    for (const int mode : {0, O_NONBLOCK}) {
      faults().clear();
      faults().refuse_flags(refused);
      const Pair pair = pipe_pair(mode);
      Handle* const out = driver.adopt(pair.ours, HandleKind::pipe,
                                       mode != 0 ? Ownership::owned : Ownership::borrowed);
      ::close(pair.peer);
      Operation write;
      set_write(write, out, std::string_view{"x"});
      ASSERT_TRUE(driver.complete(write));
      EXPECT_EQ(write.error(), std::errc::broken_pipe);
      driver.release(out);
      if (mode == 0) ::close(pair.ours);
    }
  }
  sigset_t pending;
  sigpending(&pending);
  EXPECT_FALSE(sigismember(&pending, SIGPIPE));
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&blocked, SIGPIPE));
}

TEST_P(Streams, a_signal_of_the_programs_own_is_left_to_it) {
  faults().refuse_flags(RWF_NOSIGNAL);
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  pthread_kill(pthread_self(), SIGPIPE);
  const Pair pair = pipe_pair(O_NONBLOCK);
  Handle* const out = driver.adopt(pair.ours, HandleKind::pipe);
  ::close(pair.peer);
  Operation write;
  set_write(write, out, std::string_view{"x"});
  ASSERT_TRUE(driver.complete(write));
  sigpending(&pending);
  EXPECT_TRUE(sigismember(&pending, SIGPIPE));
  const timespec at_once{};
  sigtimedwait(&pipe_signal, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The reader may go between a try that finds the pipe full and the look for a hang-up.
TEST_P(Streams, a_full_pipe_whose_reader_goes_meanwhile_is_broken) {
  const Pair pair = pipe_pair(O_NONBLOCK);
  Handle* const out = driver.adopt(pair.ours, HandleKind::pipe);
  ::close(pair.peer);
  constexpr unsigned tries = 2;  // the start's, and that of the first report
  faults().fail(Call::write, EAGAIN, tries);
  faults().fail(Call::pwritev2, EAGAIN, tries);
  Operation write;
  set_write(write, out, std::string_view{"x"});
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(write.error(), std::errc::broken_pipe) << write.error().message();
  driver.release(out);
}

TEST_P(Streams, a_blocking_pipe_blocks_no_other_operation) {
  for (const bool looks : {false, true}) {  // by RWF_NOWAIT, or by a look
    faults().clear();
    if (looks) faults().refuse_flags(8);
    const Pair pair = pipe_pair(0);
    Handle* const in = driver.borrow(pair.peer, HandleKind::pipe);
    Handle* const out = driver.borrow(pair.ours, HandleKind::pipe);
    const std::string sent = pattern(200'000);
    std::string received(sent.size(), '\0');
    Operation read;
    Operation write;
    set_write(write, out, std::string_view{sent}, Operation::exactly);
    driver.start(write);
    for (int i = 0; i < 64; ++i) driver.wait_once(Deadline::immediately());
    EXPECT_FALSE(driver.is_done(write)) << "more than a pipe holds";
    set_read(read, in, received, Operation::exactly);
    driver.start(read);
    ASSERT_TRUE(driver.run(read));
    ASSERT_TRUE(driver.run(write));
    EXPECT_EQ(received, sent);
    set_read(read, in, received);
    EXPECT_EQ(driver.start(read), Submission::pending);
    driver.expect_nothing();
    EXPECT_EQ(driver.cancel(read), CancelAnswer::completed);
    EXPECT_EQ(::fcntl(pair.peer, F_GETFL) & O_NONBLOCK, 0) << "its mode is its owner's";
    driver.release(in);
    driver.release(out);
    ::close(pair.ours);
    ::close(pair.peer);
  }
}

}  // namespace
}  // namespace baton::test
