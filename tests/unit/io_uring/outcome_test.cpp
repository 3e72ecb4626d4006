// The engine's handling of each kernel result, including those that this kernel does not return.
#include "engines/io_uring/outcome.hpp"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <limits>
#include <tuple>
#include <utility>

#include "baton/buffer_pool.hpp"
#include "core/handle_table.hpp"

namespace baton::engines::uring {
namespace {

class Outcome : public testing::Test {
 protected:
  HandleTable table{64, os::real_system()};
  Operation operation;
  char buffer[16]{};
  Endpoint endpoint;

  Handle* handle(HandleKind kind, int fd = 0) {
    return table.allocate(fd, kind, Ownership::owned, true, 0);
  }
  void prepare(OperationKind kind, HandleKind of, std::uint16_t flags = 0, int fd = 0) {
    operation.prepare(kind, handle(of, fd), flags);
    if (kind == OperationKind::accept || kind == OperationKind::connect) {
      operation.set_endpoint(&endpoint);
    } else {
      operation.set_buffer(MutableBuffer{buffer});
    }
    progress(operation) = Progress{};
  }
  Verdict answer(int result) { return judge(operation, nullptr, result, os::real_system()); }
};

TEST_F(Outcome, goes_on_after_an_unrequested_report) {
  for (const int error : {ECANCELED, EINTR}) {
    for (const OperationKind kind : {OperationKind::read_stream, OperationKind::write_stream,
                                     OperationKind::accept, OperationKind::connect}) {
      prepare(kind, HandleKind::stream_socket);
      EXPECT_EQ(answer(-error), Verdict::again);
      progress(operation).cancelled = true;
      EXPECT_EQ(answer(-error), Verdict::finished);
      EXPECT_EQ(operation.error(), std::errc::operation_canceled);
    }
  }
  prepare(OperationKind::close, HandleKind::file);
  EXPECT_EQ(answer(-EINTR), Verdict::finished);
  EXPECT_FALSE(operation.failed()) << "closed all the same";
}

// The kernel cancels requests without a worker. A submitting thread may end sometimes.
TEST_F(Outcome, ends_what_no_worker_can_be_started_for) {
  const auto answer_to_the_last = [this] {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(answer(-ECANCELED), Verdict::again);
    Verdict verdict = Verdict::again;
    for (int i = 0; i < 30 && verdict != Verdict::finished; ++i) {
      verdict = answer(-ECANCELED);
      const bool counted = progress(operation).failures < failures_max;
      if (verdict == Verdict::back_off && counted) ++progress(operation).failures;  // as the engine
    }
    return verdict;
  };
  const int never_polled = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const OperationKind kind :
       {OperationKind::read_file, OperationKind::write_file, OperationKind::sync_file}) {
    prepare(kind, HandleKind::file, 0, never_polled);
    EXPECT_EQ(answer_to_the_last(), Verdict::finished);
    EXPECT_EQ(operation.error_value(), ENOMEM);
  }
  ::close(never_polled);
  // Threads may end this often beside other processes that read the same socket.
  int shared[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, shared), 0);
  for (const auto& [kind, of] : {std::pair{OperationKind::accept, HandleKind::listener},
                                 {OperationKind::read_stream, HandleKind::stream_socket},
                                 {OperationKind::read_stream, HandleKind::pipe},
                                 {OperationKind::read_datagram, HandleKind::datagram_socket}}) {
    prepare(kind, of, 0, shared[0]);
    EXPECT_EQ(answer_to_the_last(), Verdict::back_off) << "it stays pending";
  }
  prepare(OperationKind::read_file, HandleKind::file, 0, shared[0]);
  progress(operation).by_worker = true;  // pollable, as FUSE's are
  EXPECT_EQ(answer_to_the_last(), Verdict::finished);
  for (const int fd : shared) ::close(fd);
  const int file = ::dup(STDERR_FILENO);
  operation.prepare(OperationKind::close, handle(HandleKind::file, file));
  progress(operation) = Progress{};
  EXPECT_EQ(answer_to_the_last(), Verdict::finished);
  EXPECT_FALSE(operation.failed());
  EXPECT_EQ(::fcntl(file, F_GETFD), -1) << "closed by a call";
}

TEST_F(Outcome, counts_fruitless_tries_anew_when_bytes_have_moved) {
  prepare(OperationKind::read_stream, HandleKind::stream_socket, Operation::exactly);
  int tries = 0;
  while (answer(-EINTR) == Verdict::again && tries < 100) ++tries;
  EXPECT_LT(tries, 100);
  EXPECT_EQ(answer(4), Verdict::again);
  EXPECT_EQ(answer(-EINTR), Verdict::again);
}

// A timerfd that reports a changed clock has answered and is not ready afterwards. Any other read
// with this result ended with its thread.
TEST_F(Outcome, believes_a_timer_that_the_clock_was_set) {
  constexpr int far = std::numeric_limits<int>::max();
  for (const auto& [seconds, asks, told] :
       {std::tuple{far, false, false}, {far, true, true}, {1, true, false}}) {
    const int timer = ::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    itimerspec time{};
    time.it_value.tv_sec = seconds;
    const int flags = TFD_TIMER_ABSTIME | (asks ? TFD_TIMER_CANCEL_ON_SET : 0);
    ASSERT_EQ(::timerfd_settime(timer, flags, &time, nullptr), 0);
    operation.prepare(OperationKind::read_stream, handle(HandleKind::pipe, timer));
    operation.set_buffer(MutableBuffer{buffer});
    progress(operation) = Progress{};
    EXPECT_EQ(answer(-ECANCELED), told ? Verdict::finished : Verdict::again);
    EXPECT_EQ(operation.error_value(), told ? ECANCELED : 0);
    ::close(timer);
  }
}

TEST_F(Outcome, waits_out_a_descriptor_that_would_block) {
  prepare(OperationKind::read_stream, HandleKind::pipe);
  EXPECT_EQ(answer(-EAGAIN), Verdict::poll);
  EXPECT_EQ(progress(operation).step, Step::poll);
  EXPECT_EQ(answer(-ECANCELED), Verdict::poll) << "its thread ended";
  EXPECT_EQ(answer(1), Verdict::again);
  EXPECT_EQ(progress(operation).step, Step::perform);
  EXPECT_EQ(answer(3), Verdict::finished);
  EXPECT_EQ(operation.bytes(), 3U);

  prepare(OperationKind::read_file, HandleKind::file);
  EXPECT_EQ(answer(-EAGAIN), Verdict::by_worker) << "a file is always ready";
  EXPECT_TRUE(progress(operation).by_worker);

  prepare(OperationKind::read_stream, HandleKind::pipe);
  answer(-EAGAIN);
  EXPECT_EQ(answer(-EBADF), Verdict::finished);
  EXPECT_EQ(operation.error(), std::errc::bad_file_descriptor);

  prepare(OperationKind::write_stream, HandleKind::pipe);
  progress(operation).cancelled = true;
  EXPECT_EQ(answer(-EAGAIN), Verdict::finished);
  EXPECT_EQ(operation.error(), std::errc::operation_canceled);
}

// A direct read that was cut short by the end of the file cannot continue there.
TEST_F(Outcome, knows_an_end_between_two_blocks) {
  for (const OperationKind kind : {OperationKind::read_file, OperationKind::read_stream}) {
    prepare(kind, kind == OperationKind::read_file ? HandleKind::file : HandleKind::pipe,
            Operation::exactly);
    EXPECT_EQ(answer(6), Verdict::again);
    EXPECT_EQ(answer(-EINVAL), Verdict::finished);
    EXPECT_EQ(operation.error(), errc::end_of_stream);
    EXPECT_EQ(operation.bytes(), 6U);
  }
  prepare(OperationKind::write_file, HandleKind::file, Operation::exactly);
  EXPECT_EQ(answer(6), Verdict::again);
  EXPECT_EQ(answer(-EINVAL), Verdict::finished);
  EXPECT_EQ(operation.error_value(), EINVAL);
}

// Cut short within a buffer, by a block of 4 KiB for example, it was at the end, although the file
// has grown since. At the end of a buffer, the next one may be the program's fault.
TEST_F(Outcome, tells_an_end_within_a_large_block_from_a_list_that_is_not_aligned) {
  const int file = ::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, 8'192), 0);
  char large[1'024];
  prepare(OperationKind::read_file, HandleKind::file, Operation::exactly, file);
  operation.set_buffer(MutableBuffer{large});
  EXPECT_EQ(answer(512), Verdict::again);
  EXPECT_EQ(answer(-EINVAL), Verdict::finished);
  EXPECT_EQ(operation.error(), errc::end_of_stream);
  const MutableBuffer list[] = {{large, 512}, {large + 512, 511}};
  for (const bool ends : {false, true}) {
    ASSERT_EQ(::ftruncate(file, ends ? 512 : 8'192), 0);
    operation.prepare(OperationKind::read_file, operation.handle(), Operation::exactly);
    operation.set_buffers(MutableBuffers{list});
    progress(operation) = Progress{};
    EXPECT_EQ(answer(512), Verdict::again);
    EXPECT_EQ(answer(-EINVAL), Verdict::finished);
    EXPECT_EQ(operation.error_value(), ends ? -static_cast<int>(errc::end_of_stream) : EINVAL);
  }
  ASSERT_EQ(::close(file), 0);
}

TEST_F(Outcome, accept_outlives_foreign_errors) {
  for (const int error : {EMFILE, ENFILE}) {
    prepare(OperationKind::accept, HandleKind::listener);
    EXPECT_EQ(answer(-error), Verdict::turn_away) << error;
  }
  for (const int error : {ENOBUFS, ENOMEM}) {
    prepare(OperationKind::accept, HandleKind::listener);
    EXPECT_EQ(answer(-error), Verdict::back_off) << error;
  }
  for (const int error : {EPERM, ETIMEDOUT, ECONNABORTED, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN,
                          ENONET, EHOSTUNREACH, ENETUNREACH}) {
    prepare(OperationKind::accept, HandleKind::listener);
    EXPECT_EQ(answer(-error), Verdict::again) << error;
  }
  for (const int error : {EBADF, EINVAL, EOPNOTSUPP, ENOTSOCK}) {
    prepare(OperationKind::accept, HandleKind::listener);
    EXPECT_EQ(answer(-error), Verdict::finished) << error;
    EXPECT_EQ(operation.error_value(), error);
  }
  prepare(OperationKind::accept, HandleKind::listener);
  EXPECT_EQ(answer(7), Verdict::finished);
  EXPECT_EQ(operation.accepted(), 7);
}

TEST_F(Outcome, connect_in_progress) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  for (const int error : {EINPROGRESS, EALREADY}) {
    operation.prepare(OperationKind::connect, handle(HandleKind::stream_socket, ends[0]));
    progress(operation) = Progress{};
    if (error == EALREADY) {
      EXPECT_EQ(answer(-ECANCELED), Verdict::again);
    }
    EXPECT_EQ(answer(-error), Verdict::poll);
    EXPECT_EQ(answer(4), Verdict::finished);
    EXPECT_FALSE(operation.failed()) << "by SO_ERROR";
  }
  for (const int error : {EISCONN, EALREADY}) {
    prepare(OperationKind::connect, HandleKind::stream_socket);
    EXPECT_EQ(answer(-error), Verdict::finished) << "caused outside the engine";
    EXPECT_EQ(operation.error_value(), error);
  }
  prepare(OperationKind::connect, HandleKind::stream_socket);
  EXPECT_EQ(answer(-ECANCELED), Verdict::again);
  EXPECT_EQ(answer(-EISCONN), Verdict::finished);
  EXPECT_FALSE(operation.failed()) << "connected by the first try";
  prepare(OperationKind::connect, HandleKind::stream_socket);
  EXPECT_EQ(answer(-EAGAIN), Verdict::back_off);
  ::close(ends[0]);
  ::close(ends[1]);
}

// The kernel adds the end of the peer's stream to every poll. Asked for room, it says nothing.
TEST_F(Outcome, the_end_of_a_stream_is_no_room) {
  prepare(OperationKind::wait_ready, HandleKind::stream_socket, Operation::writable);
  int tries = 0;
  Verdict verdict = Verdict::again;
  for (; verdict == Verdict::again && tries < 100; ++tries) verdict = answer(POLLRDHUP);
  EXPECT_EQ(verdict, Verdict::back_off);
  for (const auto& [asked, found] : {std::pair{Operation::writable, POLLOUT | POLLRDHUP},
                                     {Operation::writable, POLLHUP | POLLRDHUP},
                                     {Operation::readable, POLLIN | POLLRDHUP},
                                     {Operation::readable, POLLRDHUP + 0}}) {
    prepare(OperationKind::wait_ready, HandleKind::stream_socket, asked);
    EXPECT_EQ(answer(found), Verdict::finished) << found;
    EXPECT_FALSE(operation.failed());
  }
}

TEST_F(Outcome, a_pooled_read_gives_its_block_back) {
  BufferPool pool{32, 1};
  const auto start = [&] {
    operation.prepare(OperationKind::read_stream, handle(HandleKind::stream_socket));
    operation.set_pool(&pool);
    progress(operation) = Progress{};
    progress(operation).pool = &pool;
    ASSERT_TRUE(start_pooled(operation));
    ASSERT_EQ(answer(1), Verdict::again);
    ASSERT_EQ(pool.available(), 0U);
  };
  start();
  EXPECT_EQ(answer(-EAGAIN), Verdict::poll) << "another reader was faster";
  EXPECT_EQ(pool.available(), 1U);
  EXPECT_EQ(answer(1), Verdict::again);
  EXPECT_EQ(answer(-ECONNRESET), Verdict::finished);
  EXPECT_EQ(pool.available(), 1U);
  EXPECT_EQ(operation.buffer().data, nullptr);
  start();
  progress(operation).cancelled = true;
  EXPECT_EQ(answer(-ECANCELED), Verdict::finished);
  EXPECT_EQ(pool.available(), 1U);
  start();
  EXPECT_EQ(answer(0), Verdict::finished);
  EXPECT_EQ(pool.available(), 1U);
  start();
  EXPECT_EQ(answer(5), Verdict::finished);
  EXPECT_EQ(pool.available(), 0U);
  EXPECT_EQ(operation.bytes(), 5U);
  pool.give(operation.buffer().data);
}

}  // namespace
}  // namespace baton::engines::uring
