// Rule 4: reading and writing of streams - sockets and pipes (P-18, P-19).
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <thread>

#include "baton/buffer_pool.hpp"
#include "operations.hpp"

namespace baton::conformance {
namespace {

class Stream : public Operations {
 protected:
  BufferPool pool{64, 2};  // outlives the proactor, which TearDown ends

  void small_buffers(int fd) {
    const int bytes = 4'096;
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }

  /// The reading end of a FIFO that no writer has opened, in non-blocking mode.
  static Fd fifo() {
    std::string folder = testing::TempDir() + "baton.XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/fifo";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    Fd reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(reader.get(), 0);
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
    return reader;
  }
  static Fd writer_of(int fifo) {
    Fd writer = ::open(("/proc/self/fd/" + std::to_string(fifo)).c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_GE(writer.get(), 0);
    return writer;
  }
  static void write_all(int fd, std::string_view text) {
    EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
};
BATON_CONFORMANCE_SOCKET_SUITE(Stream);

TEST_P(Stream, read_takes_what_is_there_and_0_bytes_are_the_end) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  std::string& into = memory(64);
  Probe& waiting = reading(handle, into);
  start(waiting);
  run_for(1ms);
  EXPECT_TRUE(waiting.is_pending());
  send_all(pair.peer.get(), "short");
  finish(waiting);
  EXPECT_EQ(into.substr(0, waiting.bytes()), "short");

  Probe& nothing = plain(OperationKind::read_stream, handle);
  nothing.set_buffer(MutableBuffer{});
  finish(nothing);  // at once, although no data is there
  EXPECT_FALSE(nothing.failed());

  pair.peer.reset();
  for (int i = 0; i < 2; ++i) {
    Probe& end = reading(handle, into);
    finish(end);
    EXPECT_FALSE(end.failed());
    EXPECT_EQ(end.bytes(), 0U);
  }
}

// write_all and read_exactly are single operations, however often the kernel has to be asked.
TEST_P(Stream, a_megabyte_goes_through_small_buffers_in_one_operation) {
  Pair pair = unix_pair();
  small_buffers(pair.ours.get());
  small_buffers(pair.peer.get());
  Handle* const sender = adopt(pair.ours);
  Handle* const receiver = adopt(pair.peer);
  std::string& sent = memory(pattern(1 << 20));
  std::string& received = memory(sent.size());
  Probe& write = writing(sender, sent, Operation::exactly);
  Probe& read = reading(receiver, received, Operation::exactly);
  start(write);
  start(read);
  run([&] { return write.done() && read.done(); });
  EXPECT_EQ(write.bytes(), sent.size());
  EXPECT_EQ(read.bytes(), sent.size());
  EXPECT_TRUE(sent == received);
}

TEST_P(Stream, vectored_transfers_keep_the_order_of_their_buffers) {
  Pair pair = unix_pair();
  small_buffers(pair.ours.get());
  Handle* const sender = adopt(pair.ours);
  Handle* const receiver = adopt(pair.peer);
  const std::string text = pattern(200'000);
  // Uneven pieces, empty ones among them, and more of them than one call takes.
  std::vector<ConstBuffer> out;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size, size = (size + 37) % 3'000) {
    out.emplace_back(std::string_view{text}.substr(at, size));
  }
  ASSERT_LE(out.size(), limits::buffers_max);
  std::string& received = memory(text.size());
  const MutableBuffer in[] = {
      {received.data(), 1}, {received.data() + 1, 99'999}, {received.data() + 100'000, 100'000}};
  Probe& write = plain(OperationKind::write_stream, sender, Operation::exactly);
  write.set_buffers(ConstBuffers{out});
  Probe& read = plain(OperationKind::read_stream, receiver, Operation::exactly);
  read.set_buffers(MutableBuffers{in});
  start(read);
  start(write);
  run([&] { return write.done() && read.done(); });
  EXPECT_EQ(write.bytes(), text.size());
  EXPECT_EQ(read.bytes(), text.size());
  EXPECT_TRUE(received == text);

  // This is not read_exactly: the available bytes are spread over the list.
  send_all(sender->native(), "abcdef");
  Probe& some = plain(OperationKind::read_stream, receiver);
  some.set_buffers(MutableBuffers{in});
  finish(some);
  EXPECT_EQ(some.bytes(), 6U);
  EXPECT_EQ(received.substr(0, 6), "abcdef");
}

TEST_P(Stream, read_until_finds_its_delimiter_wherever_it_is) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  const std::string_view delimiter{"\r\n"};
  std::string& into = memory(8);
  const auto until = [&](std::size_t filled) -> Probe& {
    Probe& probe = reading(handle, into);
    probe.set_until(&delimiter, filled);
    return probe;
  };
  // Across two segments, with the next line's beginning behind it.
  Probe& split = until(0);
  start(split);
  send_all(pair.peer.get(), "ab\r");
  run_for(1ms);
  EXPECT_TRUE(split.is_pending());
  send_all(pair.peer.get(), "\ncd");
  finish(split);
  EXPECT_FALSE(split.failed());
  ASSERT_GE(split.bytes(), 4U);
  ASSERT_EQ(into.substr(0, split.bytes()), std::string{"ab\r\ncd"}.substr(0, split.bytes()));
  EXPECT_EQ(split.bytes(), 6U);

  // Already there.
  into = "xy\r\nz   ";
  Probe& there = until(5);
  finish(there);
  EXPECT_FALSE(there.failed());
  EXPECT_EQ(there.bytes(), 5U);

  // At the very end of the buffer, the first half of it filled before.
  send_all(pair.peer.get(), "7\r\n");
  into = "12345   ";
  Probe& at_the_end = until(5);
  finish(at_the_end);
  EXPECT_FALSE(at_the_end.failed());
  EXPECT_EQ(at_the_end.bytes(), 8U);
  EXPECT_EQ(into, "123457\r\n");
}

TEST_P(Stream, read_until_ends_when_the_buffer_is_full_or_the_stream_ends) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  const std::string_view delimiter{"\n"};
  std::string& into = memory(8);
  Probe& full = reading(handle, into);
  full.set_until(&delimiter, 0);
  send_all(pair.peer.get(), "123456789");
  finish(full);
  EXPECT_EQ(full.error(), errc::delimiter_not_found);
  EXPECT_EQ(full.bytes(), 8U);
  pair.peer.reset();
  Probe& ended = reading(handle, into);
  ended.set_until(&delimiter, 0);
  finish(ended);
  EXPECT_EQ(ended.error(), errc::end_of_stream);
  EXPECT_EQ(ended.bytes(), 1U);
  Probe& exactly = reading(handle, into, Operation::exactly);
  finish(exactly);
  EXPECT_EQ(exactly.error(), errc::end_of_stream);
  EXPECT_EQ(exactly.bytes(), 0U);
}

TEST_P(Stream, pipes_are_streams_too) {
  Pair in = pipe_to_read();
  Pair out = pipe_to_write();
  Handle* const reader = adopt(in.ours, HandleKind::pipe);
  Handle* const writer = adopt(out.ours, HandleKind::pipe);
  std::string& into = memory(16);
  Probe& read = reading(reader, into);
  start(read);
  run_for(1ms);
  EXPECT_TRUE(read.is_pending());
  send_all(in.peer.get(), "piped");
  finish(read);
  EXPECT_EQ(into.substr(0, read.bytes()), "piped");
  // More than a pipe holds.
  std::string& text = memory(pattern(300'000));
  Probe& write = writing(writer, text, Operation::exactly);
  start(write);
  std::string received;
  std::thread peer{[&] { received = receive(out.peer.get(), text.size()); }};
  finish(write);
  peer.join();
  EXPECT_EQ(write.bytes(), text.size());
  EXPECT_TRUE(received == text);
  in.peer.reset();
  Probe& end = reading(reader, into);
  finish(end);
  EXPECT_FALSE(end.failed());
  EXPECT_EQ(end.bytes(), 0U);
}

// A block is taken when data is there, not before; an idle connection pins none.
TEST_P(Stream, pooled_reads_take_a_block_only_for_data) {
  Pair pairs[] = {unix_pair(), unix_pair(), unix_pair()};
  Probe* reads[3];
  const auto pooled = [&](Handle* handle) -> Probe& {
    Probe& probe = plain(OperationKind::read_stream, handle);
    probe.set_pool(&pool);
    return probe;
  };
  for (int i = 0; i < 3; ++i) start(*(reads[i] = &pooled(adopt(pairs[i].ours))));
  run_for(1ms);
  EXPECT_EQ(pool.available(), 2U);
  Handle* const third = reads[2]->handle();
  void* blocks[2];
  for (int i = 0; i < 2; ++i) {
    send_all(pairs[i].peer.get(), i == 0 ? "zero" : "one");
    finish(*reads[i]);
    ASSERT_FALSE(reads[i]->failed());
    const MutableBuffer block = reads[i]->buffer();
    blocks[i] = block.data;
    ASSERT_LE(reads[i]->bytes(), block.size);
    EXPECT_EQ(std::string_view(static_cast<char*>(block.data), reads[i]->bytes()),
              i == 0 ? "zero" : "one");
    EXPECT_EQ(pool.available(), static_cast<std::size_t>(1 - i));
  }
  // The pool is empty: a clear error, and the data stays for the next read.
  send_all(pairs[2].peer.get(), "two");
  finish(*reads[2]);
  EXPECT_EQ(reads[2]->error(), errc::pool_exhausted);
  EXPECT_EQ(reads[2]->buffer().size, 0U);
  for (void* block : blocks) pool.give(block);
  Probe& again = pooled(third);
  finish(again);
  ASSERT_FALSE(again.failed()) << again.error().message();
  EXPECT_EQ(std::string_view(static_cast<char*>(again.buffer().data), again.bytes()), "two");
  pool.give(again.buffer().data);
  // A read that ends with the stream or by a cancel keeps no block.
  Probe& end = pooled(third);
  Probe& cancelled = pooled(reads[1]->handle());
  start(end);
  start(cancelled);
  pairs[2].peer.reset();
  finish(end);
  EXPECT_EQ(end.bytes(), 0U);
  EXPECT_FALSE(end.failed());
  proactor().cancel(cancelled);
  finish(cancelled);
  for (Probe* probe : {&end, &cancelled}) {
    if (probe->buffer().size != 0) pool.give(probe->buffer().data);
  }
  EXPECT_EQ(pool.available(), 2U);
}

TEST_P(Stream, a_read_of_a_fifo_waits_for_its_first_writer) {
  for (const bool owned : {true, false}) {
    for (const bool blocking : {true, false}) {
      Fd reader = fifo();
      const int number = reader.get();
      ASSERT_EQ(::fcntl(number, F_SETFL, blocking ? 0 : O_NONBLOCK), 0);
      Handle* const handle =
          owned ? adopt(reader, HandleKind::pipe) : borrow(reader, HandleKind::pipe);
      std::string& into = memory(64);
      Probe& first = reading(handle, into);
      start(first);
      run_for(1ms);
      EXPECT_TRUE(first.is_pending()) << owned << blocking;
      {
        const Fd writer = writer_of(number);
        write_all(writer.get(), "first");
        finish(first);
        EXPECT_EQ(first.bytes(), 5U);
      }
      for (int i = 0; i < 2; ++i) {
        Probe& end = reading(handle, into);
        finish(end);
        EXPECT_FALSE(end.error());
        EXPECT_EQ(end.bytes(), 0U) << "its writers have ended it";
      }
      const Fd another = writer_of(number);
      Probe& next = reading(handle, into);
      start(next);
      run_for(1ms);
      EXPECT_TRUE(next.is_pending());
      write_all(another.get(), "next");
      finish(next);
      EXPECT_EQ(next.bytes(), 4U);
      finish_close(handle);
    }
  }
}

}  // namespace
}  // namespace baton::conformance
