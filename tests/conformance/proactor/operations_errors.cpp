// Rule 7: errors are values on every engine; none is fatal, none is lost.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "baton/buffer_pool.hpp"
#include "operations.hpp"

namespace baton::conformance {
namespace {

class Errors : public Operations {
 protected:
  /// Closes with a reset instead of an end of stream.
  static void reset(Fd& fd) {
    const linger now{1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    fd.reset();
  }
  static bool broken(const Probe& probe) {
    return probe.error() == std::errc::connection_reset || probe.error() == std::errc::broken_pipe;
  }
  /// A write takes the report of a reset.
  void write_until_reset(Handle* handle) {
    Probe* write = nullptr;
    do {
      write = &writing(handle, memory("x"));
      finish(*write);
    } while (!write->failed());
    EXPECT_EQ(write->error(), std::errc::connection_reset) << write->error().message();
  }
};
BATON_CONFORMANCE_SUITE(Errors);

TEST_P(Errors, a_reset_ends_pending_operations) {
  Pair pair = tcp_pair();
  Handle* const handle = adopt(pair.ours);
  std::string& text = memory(pattern(1 << 20));
  Probe& read = reading(handle, memory(8));
  Probe& behind = reading(handle, memory(8), Operation::exactly);
  Probe& write = writing(handle, text, Operation::exactly);
  for (Probe* probe : {&read, &behind, &write}) start(*probe);
  run_for(2ms);
  EXPECT_FALSE(write.done());
  reset(pair.peer);
  run([&] { return read.done() && behind.done() && write.done(); });
  // A write may get the reset or its consequence. The reads get the reset in any case.
  EXPECT_TRUE(broken(write)) << write.error().message();
  EXPECT_EQ(read.error(), std::errc::connection_reset) << read.error().message();
  EXPECT_EQ(behind.error(), std::errc::connection_reset) << behind.error().message();
  Probe& late = writing(handle, text, Operation::exactly);
  finish(late);
  EXPECT_TRUE(broken(late));
}

TEST_P(Errors, a_reset_leaves_no_block_with_a_pooled_read) {
  BufferPool pool{64, 2};
  Pair pairs[] = {tcp_pair(), tcp_pair()};
  Handle* handles[2];
  for (int i = 0; i < 2; ++i) handles[i] = adopt(pairs[i].ours);
  const auto start_both = [&] {
    std::array<Probe*, 2> reads{};
    for (std::size_t i = 0; i < 2; ++i) {
      reads[i] = &plain(OperationKind::read_stream, handles[i], Operation::pooled);
      reads[i]->set_pool(&pool);
      start(*reads[i]);
    }
    return reads;
  };
  const std::array<Probe*, 2> first = start_both();
  for (const Pair& pair : pairs) send_all(pair.peer.get(), "text");
  for (Probe* read : first) {
    finish(*read);
    ASSERT_EQ(read->bytes(), 4U) << read->error().message();
    pool.give(read->buffer().data);
  }
  const std::array<Probe*, 2> last = start_both();
  for (Pair& pair : pairs) reset(pair.peer);
  for (Probe* read : last) {
    finish(*read);
    EXPECT_EQ(read->error(), std::errc::connection_reset) << read->error().message();
    EXPECT_EQ(read->buffer().size, 0U);
  }
  EXPECT_EQ(pool.available(), 2U);
}

// The system reports a reset once. Afterwards its reads find an end of the stream.
TEST_P(Errors, a_reset_that_a_write_has_got_is_no_end_for_reads) {
  BufferPool pool{64, 1};
  for (const std::uint16_t how :
       {std::uint16_t{0}, std::uint16_t{Operation::exactly}, std::uint16_t{Operation::pooled}}) {
    Pair pair = tcp_pair();
    Handle* const handle = adopt(pair.ours);
    send_all(pair.peer.get(), "part");
    reset(pair.peer);
    write_until_reset(handle);
    // What came before is there still.
    std::string& into = memory(4);
    Probe& part = reading(handle, into);
    finish(part);
    EXPECT_EQ(part.bytes(), 4U) << part.error().message();
    Probe& end = plain(OperationKind::read_stream, handle, how);
    end.set_buffer(MutableBuffer{into.data(), into.size()});
    if ((how & Operation::pooled) != 0) end.set_pool(&pool);
    finish(end);
    EXPECT_EQ(end.error(), std::errc::connection_reset) << how << end.error().message();
  }
  EXPECT_EQ(pool.available(), 1U);
}

// The owner may use a borrowed number again: the next connection has an end of its own.
TEST_P(Errors, a_reset_does_not_stay_with_a_borrowed_number) {
  Pair pair = tcp_pair();
  Handle* const handle = borrow(pair.ours);
  reset(pair.peer);
  write_until_reset(handle);
  Pair next = tcp_pair();
  ASSERT_EQ(::dup2(next.ours.get(), pair.ours.get()), pair.ours.get());
  next.ours.reset();
  next.peer.reset();
  Probe& end = reading(handle, memory(8));
  finish(end);
  EXPECT_FALSE(end.failed()) << end.error().message();
  EXPECT_EQ(end.bytes(), 0U);
}

TEST_P(Errors, half_close_and_reset_in_both_orders) {
  // We close first: the read reports the reset.
  Pair ours = tcp_pair();
  Handle* const handle = adopt(ours.ours);
  Probe& half_close = plain(OperationKind::shutdown, handle);
  Probe& read = reading(handle, memory(8));
  start(read);
  finish(half_close);
  EXPECT_EQ(receive(ours.peer.get(), 1), "");
  EXPECT_FALSE(read.done());
  reset(ours.peer);
  finish(read);
  EXPECT_EQ(read.error(), std::errc::connection_reset) << read.error().message();
  Probe& again = plain(OperationKind::shutdown, handle);
  finish(again);  // an error or not, but complete

  // The peer closes first: end of stream, then writes fail.
  Pair theirs = tcp_pair();
  Handle* const other = adopt(theirs.ours);
  ::shutdown(theirs.peer.get(), SHUT_WR);
  Probe& end = reading(other, memory(8));
  finish(end);
  EXPECT_FALSE(end.failed());
  EXPECT_EQ(end.bytes(), 0U);
  std::string& text = memory(pattern(1 << 20));
  Probe& write = writing(other, text, Operation::exactly);
  start(write);
  run_for(1ms);
  EXPECT_FALSE(write.done());
  reset(theirs.peer);
  finish(write);
  EXPECT_TRUE(broken(write)) << write.error().message();
}

// The signal's default action would end this program.
TEST_P(Errors, a_broken_pipe_is_no_signal) {
  ::signal(SIGPIPE, SIG_DFL);
  for (int i = 0; i < 3; ++i) {
    Pair pair = i == 0 ? unix_pair() : i == 1 ? tcp_pair() : pipe_to_write();
    Handle* const handle = adopt(pair.ours, i == 2 ? HandleKind::pipe : HandleKind::stream_socket);
    std::string& text = memory(pattern(1 << 20));
    Probe& waiting = writing(handle, text, Operation::exactly);
    start(waiting);
    run_for(1ms);
    EXPECT_FALSE(waiting.done());
    reset(pair.peer);
    finish(waiting);
    EXPECT_TRUE(broken(waiting));
    for (const bool in_handler : {false, true}) {
      Probe& write = writing(handle, text);
      if (in_handler) inside([&] { start(write); });
      finish(write);
      EXPECT_EQ(write.error(), std::errc::broken_pipe) << write.error().message();
      const ConstBuffer list[] = {std::string_view{text}.substr(0, 1), std::string_view{"more"}};
      Probe& vectored = plain(OperationKind::write_stream, handle, Operation::exactly);
      vectored.set_buffers(ConstBuffers{list});
      finish(vectored);
      EXPECT_EQ(vectored.error(), std::errc::broken_pipe);
    }
  }
}

TEST_P(Errors, a_bad_address_is_a_completion) {
  const auto nowhere = reinterpret_cast<char*>(std::uintptr_t{4'096});  // never mapped
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  send_all(pair.peer.get(), "data");
  Probe& read = plain(OperationKind::read_stream, handle);
  read.set_buffer(MutableBuffer{nowhere, 64});
  finish(read);
  EXPECT_EQ(read.error(), std::errc::bad_address);
  Probe& write = plain(OperationKind::write_stream, handle);
  write.set_buffer(ConstBuffer{nowhere, 64});
  finish(write);
  EXPECT_EQ(write.error(), std::errc::bad_address);
}

// A file may not grow: the bytes written before the limit are reported with the error.
TEST_P(Errors, the_file_size_limit_is_a_completion) {
  const auto previous = ::signal(SIGXFSZ, SIG_IGN);
  Pair pipe = pipe_to_write();
  std::FILE* const temporary = std::tmpfile();
  Fd fd = ::dup(::fileno(temporary));
  std::fclose(temporary);
  Handle* const file = adopt(fd, HandleKind::file);
  struct Limit {
    Limit() {
      ::getrlimit(RLIMIT_FSIZE, &saved);
      const rlimit small{8'192, saved.rlim_max};
      ::setrlimit(RLIMIT_FSIZE, &small);
    }
    ~Limit() { ::setrlimit(RLIMIT_FSIZE, &saved); }
    rlimit saved{};
  } const limit;
  Probe& crossing = file_writing(file, memory(pattern(10'000)), 0, Operation::exactly);
  finish(crossing);
  EXPECT_EQ(crossing.error(), std::errc::file_too_large) << crossing.error().message();
  EXPECT_EQ(crossing.bytes(), 8'192U);
  Probe& beyond = file_writing(file, memory("data"), 9'000);
  finish(beyond);
  EXPECT_EQ(beyond.error(), std::errc::file_too_large);
  ::signal(SIGXFSZ, previous);
}

// The signal's default action would end this program, also for direct writes.
TEST_P(Errors, the_file_size_limit_is_no_signal) {
  ::signal(SIGXFSZ, SIG_DFL);
  for (const int flags : {0, O_DIRECT}) {
    Fd fd = temporary(O_RDWR | flags);
    if (fd.get() < 0) continue;  // no O_DIRECT here
    Handle* const file = adopt(fd, HandleKind::file);
    rlimit saved{};
    ::getrlimit(RLIMIT_FSIZE, &saved);
    const rlimit small{8'192, saved.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    void* block = nullptr;
    ASSERT_EQ(::posix_memalign(&block, 4'096, 4'096), 0);
    std::memset(block, 'x', 4'096);
    for (const std::uint64_t offset : {4'096U, 8'192U, 65'536U}) {
      Probe& write = plain(OperationKind::write_file, file);
      write.set_buffer(ConstBuffer{block, 4'096});
      write.set_offset(offset);
      finish(write);
      if (offset == 4'096) {
        EXPECT_EQ(write.bytes(), 4'096U) << write.error().message();
      } else {
        EXPECT_EQ(write.error(), std::errc::file_too_large) << write.error().message();
      }
    }
    ::setrlimit(RLIMIT_FSIZE, &saved);
    std::free(block);
  }
}

// A handler lowers the limit after it has started the write, which is not submitted yet. In the
// other modes another thread may be about to submit it, and has read the limit already.
TEST_P(Errors, the_file_size_limit_may_come_after_the_start) {
  if (GetParam().mode != Mode::per_thread) return;
  ::signal(SIGXFSZ, SIG_DFL);
  for (const int flags : {0, O_DIRECT}) {
    Fd fd = temporary(O_RDWR | flags);
    if (fd.get() < 0) continue;  // no O_DIRECT here
    Handle* const file = adopt(fd, HandleKind::file);
    rlimit saved{};
    ::getrlimit(RLIMIT_FSIZE, &saved);
    void* block = nullptr;
    ASSERT_EQ(::posix_memalign(&block, 4'096, 4'096), 0);
    std::memset(block, 'x', 4'096);
    Probe& write = plain(OperationKind::write_file, file);
    write.set_buffer(ConstBuffer{block, 4'096});
    write.set_offset(65'536);
    inside([&] {
      start(write);
      const rlimit small{8'192, saved.rlim_max};
      ::setrlimit(RLIMIT_FSIZE, &small);
    });
    finish(write);
    ::setrlimit(RLIMIT_FSIZE, &saved);
    // It may have been written before.
    if (write.failed()) {
      EXPECT_EQ(write.error(), std::errc::file_too_large) << write.error().message();
    }
    std::free(block);
  }
}

// The same for a borrowed descriptor in blocking mode, where nothing else would report it.
TEST_P(Errors, a_direction_that_was_not_opened_is_an_error) {
  for (const bool owned : {false, true}) {
    const Ownership whose = owned ? Ownership::owned : Ownership::borrowed;
    Pair to_read = pipe_to_read();
    Probe& write = writing(adopt(to_read.ours, HandleKind::pipe, whose), memory("data"));
    finish(write);
    EXPECT_EQ(write.error(), std::errc::bad_file_descriptor) << write.error().message();
    Pair to_write = pipe_to_write();
    Handle* const writer = adopt(to_write.ours, HandleKind::pipe, whose);
    BufferPool pool{64, 4};
    Probe& pooled = plain(OperationKind::read_stream, writer, Operation::pooled);
    pooled.set_pool(&pool);
    finish(pooled);
    EXPECT_EQ(pooled.error(), std::errc::bad_file_descriptor) << pooled.error().message();
    Fd datagrams = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    Probe& accept = plain(OperationKind::accept, adopt(datagrams, HandleKind::listener, whose));
    finish(accept);
    EXPECT_EQ(accept.error(), std::errc::operation_not_supported) << accept.error().message();
    Pair connected = tcp_pair();
    Probe& other = plain(OperationKind::accept, adopt(connected.ours, HandleKind::listener, whose));
    finish(other);
    EXPECT_EQ(other.error(), std::errc::invalid_argument) << other.error().message();
  }
}

// A listening socket is ready when a connection waits. The error is the one of the call: ENOTCONN
// for TCP and SOCK_SEQPACKET, EINVAL for a UNIX stream.
TEST_P(Errors, a_read_of_a_socket_that_listens_ends) {
  for (const bool owned : {false, true}) {
    const Ownership whose = owned ? Ownership::owned : Ownership::borrowed;
    for (const auto& [family, type] :
         {std::pair{AF_INET, SOCK_STREAM}, {AF_UNIX, SOCK_STREAM}, {AF_UNIX, SOCK_SEQPACKET}}) {
      Fd listening = ::socket(family, type | SOCK_CLOEXEC, 0);
      sockaddr_storage any{};
      any.ss_family = static_cast<sa_family_t>(family);
      const socklen_t size = family == AF_UNIX ? sizeof(sa_family_t) : sizeof(sockaddr_in);
      ASSERT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
      ASSERT_EQ(::listen(listening.get(), 8), 0);
      char byte = 0;
      ASSERT_EQ(::recv(listening.get(), &byte, 1, MSG_DONTWAIT), -1);
      const int expected = errno;
      Handle* const handle = adopt(listening, HandleKind::stream_socket, whose);
      BufferPool pool{64, 1};
      Probe& pooled = plain(OperationKind::read_stream, handle, Operation::pooled);
      pooled.set_pool(&pool);
      for (Probe* read : {&reading(handle, memory(8)),
                          &reading(handle, memory(8), Operation::exactly), &pooled}) {
        finish(*read);
        EXPECT_EQ(read->error_value(), expected) << read->error().message();
      }
      EXPECT_EQ(pool.available(), 1U);
      finish_close(handle);
    }
  }
}

// Linux wakes a waiting write, but poll(2) reports nothing as long as the buffer is full. A write
// that blocks ends with EPIPE.
TEST_P(Errors, a_write_to_a_unix_peer_that_stops_reading_ends) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  const bool over_io_uring = GetParam().engine == "io_uring";
  if (over_io_uring && ::strverscmp(kernel.release, "6.2") < 0) {
    GTEST_SKIP() << "io_uring before Linux 6.2 does not try a woken write again";
  }
  std::vector<Fd> peers;
  std::vector<Probe*> writes;
  std::vector<std::pair<int, int>> shutdowns;  // descriptor, how
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    for (const bool owned : {false, true}) {
      for (const bool by_peer : {false, true}) {
        int fd[2];
        ASSERT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fd), 0);
        Fd ours = fd[0];
        Fd& peer = peers.emplace_back(fd[1]);
        Handle* const handle =
            adopt(ours, HandleKind::stream_socket, owned ? Ownership::owned : Ownership::borrowed);
        if (!owned) peers.push_back(std::move(ours));
        std::string& text = memory(pattern(32'768));
        for (int i = 0; i < 20; ++i) start(*writes.emplace_back(&writing(handle, text)));
        run_for(500us);
        ASSERT_TRUE(writes.back()->is_pending());
        const auto& [end, how] =
            shutdowns.emplace_back(by_peer ? peer.get() : fd[0], by_peer ? SHUT_RD : SHUT_WR);
        ::shutdown(end, how);
      }
    }
  }
  run([&] {
    // An end of reading between the kernel's look at the socket and its wait ends no write.
    if (over_io_uring) {
      for (const auto& [end, how] : shutdowns) ::shutdown(end, how);
    }
    return std::all_of(writes.begin(), writes.end(), [](Probe* write) { return write->done(); });
  });
  for (std::size_t last = 19; last < writes.size(); last += 20) {
    EXPECT_EQ(writes[last]->error(), std::errc::broken_pipe) << last;
  }
}

// Waits for room, which is not reported either, stand before the write: more of them than an engine
// calls in a row.
TEST_P(Errors, a_write_behind_waits_to_a_unix_peer_that_stops_reading_ends) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  const bool over_io_uring = GetParam().engine == "io_uring";
  if (over_io_uring && ::strverscmp(kernel.release, "6.2") < 0) return;  // as above
  for (const bool owned : {false, true}) {
    int fd[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    Fd ours = fd[0];
    const Fd peer = fd[1];
    const std::string filler(4'096, 'f');
    while (::send(ours.get(), filler.data(), filler.size(), MSG_DONTWAIT) > 0) {
    }
    Handle* const handle =
        adopt(ours, HandleKind::stream_socket, owned ? Ownership::owned : Ownership::borrowed);
    std::vector<Probe*> waits;
    while (waits.size() < 100) {
      waits.push_back(&plain(OperationKind::wait_ready, handle, Operation::writable));
      start(*waits.back());
    }
    Probe& write = writing(handle, memory("data"));
    start(write);
    run_for(500us);
    ASSERT_TRUE(write.is_pending());
    ::shutdown(peer.get(), SHUT_RD);
    run([&] {
      if (over_io_uring) ::shutdown(peer.get(), SHUT_RD);  // as above
      return write.done();
    });
    EXPECT_EQ(write.error(), std::errc::broken_pipe) << write.error().message();
    proactor().cancel(*handle);
    for (Probe* wait : waits) finish(*wait);
  }
}

}  // namespace
}  // namespace baton::conformance
