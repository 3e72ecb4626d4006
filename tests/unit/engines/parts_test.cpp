// Small parts that several engines share, each alone.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "../../support/patience.hpp"
#include "baton/buffer_pool.hpp"
#include "core/access.hpp"
#include "core/handle_table.hpp"
#include "engines/common/attempt.hpp"
#include "engines/common/closer.hpp"
#include "engines/common/file_calls.hpp"
#include "engines/common/handle_room.hpp"
#include "engines/common/look.hpp"
#include "engines/common/operation_double.hpp"
#include "engines/common/pauses.hpp"
#include "engines/common/pipe_calls.hpp"
#include "engines/common/spare_descriptor.hpp"
#include "engines/common/worker_pool.hpp"

namespace baton::engines {
namespace {

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return std::distance(begin(all), end(all));
}

class Parts : public testing::Test {
 protected:
  Handle* handle(int fd, HandleKind kind, bool nonblocking = true) {
    return table_.allocate(fd, kind, Ownership::owned, nonblocking, 0);
  }

 private:
  HandleTable table_{64, os::real_system()};
};

// -- looks ----------------------------------------------------------------------------------------

// A limit of 0 descriptors: poll refuses even one.
const os::System& system_without_poll() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.ppoll = [](pollfd*, nfds_t, const timespec*, const sigset_t*) {
      return errno = EINVAL, -1;
    };
    return made;
  }();
  return table;
}

TEST_F(Parts, ALookWithoutPollFindsTheSame) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const timespec at_once{};
  const os::System& system = system_without_poll();
  EXPECT_EQ(look(system, ends[0], POLLIN, &at_once), 0);
  EXPECT_EQ(look(system, ends[0], POLLOUT, &at_once), POLLOUT);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(look(system, ends[0], POLLIN, &at_once), POLLIN);
  EXPECT_EQ(look(system, ends[0], POLLIN | POLLOUT, &at_once), POLLIN | POLLOUT);
  // A number whose bit begins another word, and the highest of a word.
  for (const int number : {64, 127}) {
    ASSERT_EQ(::dup3(ends[0], number, O_CLOEXEC), number);
    EXPECT_EQ(look(system, number, POLLIN, &at_once), POLLIN) << number;
    ::close(number);
    EXPECT_EQ(look(system, number, POLLIN, &at_once), POLLNVAL) << "closed, as poll tells it";
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Parts, ALookAtATimerLeavesNoDescriptor) {
  const int timer = ::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  ASSERT_GE(timer, 0);
  itimerspec far{};
  far.it_value.tv_sec = 4'000'000'000;
  ASSERT_EQ(::timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, nullptr),
            0);
  const std::ptrdiff_t before = open_descriptors();
  EXPECT_TRUE(tells_of_a_set_clock(os::real_system(), timer));
  EXPECT_EQ(open_descriptors(), before);
  ::close(timer);
}

TEST_F(Parts, ATimerOfASpanTellsOfNoSetClock) {
  const int timer = ::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  ASSERT_GE(timer, 0);
  itimerspec far{};
  far.it_value.tv_sec = 1'000'000;
  ASSERT_EQ(::timerfd_settime(timer, TFD_TIMER_CANCEL_ON_SET, &far, nullptr), 0);
  EXPECT_FALSE(tells_of_a_set_clock(os::real_system(), timer)) << "the kernel ignores the flag";
  ::close(timer);
}

// -- files that wait for their data ---------------------------------------------------------------

int fruitless = 0;  // looks or writes that find nothing
int reads = 0;
Operation* to_cancel = nullptr;

// A regular file that blocks its reader, as /proc/kmsg does.
os::System system_with_a_waiting_file() {
  os::System table = os::real_system();
  table.preadv2 = [](int fd, const iovec* pieces, int count, off_t offset, int flags) -> ssize_t {
    ++reads;
    return os::real_system().preadv2(fd, pieces, count, offset, flags);
  };
  table.ppoll = [](pollfd* one, nfds_t, const timespec*, const sigset_t*) {
    if (fruitless == 0) {
      one->revents = POLLIN;
      return 1;
    }
    if (--fruitless == 0 && to_cancel != nullptr) OperationAccess::ask_cancel(*to_cancel);
    return 0;
  };
  return table;
}

TEST_F(Parts, AFileThatWaitsForItsDataIsLookedAtBeforeItIsRead) {
  FILE* const text = ::tmpfile();
  ASSERT_NE(text, nullptr);
  ASSERT_EQ(::pwrite(::fileno(text), "data", 4, 0), 4);
  const os::System system = system_with_a_waiting_file();
  const auto read = [&](bool cancelled) {
    char buffer[4];
    Operation operation;
    operation.prepare(OperationKind::read_file, handle(::fileno(text), HandleKind::file));
    operation.set_buffer(MutableBuffer{buffer, sizeof(buffer)});
    to_cancel = cancelled ? &operation : nullptr;
    Attempt attempt;
    reads = 0;
    fruitless = 3;
    FileCalls{system}.transfer(operation, attempt);
    to_cancel = nullptr;
    return operation.result();
  };
  EXPECT_EQ(read(false).value_or(0), 4U);
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(read(true).error(), std::errc::operation_canceled);
  EXPECT_EQ(reads, 0) << "it would hold its worker for ever";
  ::fclose(text);
}

TEST_F(Parts, AnEagainOfAFileIsTriedAgain) {
  FILE* const text = ::tmpfile();
  ASSERT_NE(text, nullptr);
  ASSERT_EQ(::pwrite(::fileno(text), "data", 4, 0), 4);
  char buffer[] = {'d', 'a', 't', 'a'};
  Operation operation;
  // Written to, so that no look comes before the call.
  operation.prepare(OperationKind::write_file, handle(::fileno(text), HandleKind::file));
  operation.set_buffer(MutableBuffer{buffer, sizeof(buffer)});
  os::System system = os::real_system();
  fruitless = 3;
  system.pwritev2 = [](int fd, const iovec* pieces, int count, off_t offset, int flags) -> ssize_t {
    if (fruitless > 0) return --fruitless, errno = EAGAIN, -1;
    return os::real_system().pwritev2(fd, pieces, count, offset, flags);
  };
  system.ppoll = [](pollfd*, nfds_t, const timespec*, const sigset_t*) { return 0; };
  Attempt attempt;
  FileCalls{system}.transfer(operation, attempt);
  EXPECT_EQ(operation.result().value_or(0), 4U) << operation.error().message();
  ::fclose(text);
}

// -- writes to pipes ------------------------------------------------------------------------------

int refusal = 0;
unsigned refused = 0;
std::size_t written = 0;

// Refuses writes with a flag, counts the bytes of plain ones, and opens nothing.
const os::System& system_that_counts_writes() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.pwritev2 = [](int, const iovec*, int, off_t, int) -> ssize_t {
      ++refused;
      return errno = refusal, -1;
    };
    made.writev = [](int, const iovec* list, int count) -> ssize_t {
      std::size_t bytes = 0;
      for (int i = 0; i < count; ++i) bytes += list[i].iov_len;
      written += bytes;
      return static_cast<ssize_t>(bytes);
    };
    made.open = [](const char*, int, mode_t) { return errno = EACCES, -1; };
    return made;
  }();
  return table;
}

class PipeWrites : public Parts {
 protected:
  void SetUp() override {
    ASSERT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    refusal = ENOSYS;
    refused = 0;
    written = 0;
  }
  void TearDown() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  ssize_t write_two_blocks() {
    iovec pieces[] = {{block_, PIPE_BUF}, {block_, PIPE_BUF}};
    return pipes_.write(*handle(ends_[1], HandleKind::pipe, false), pieces, std::size(pieces));
  }

 private:
  int ends_[2] = {-1, -1};
  char block_[PIPE_BUF] = {};
  PipeCalls pipes_{system_that_counts_writes()};
};

// A pipe with room takes PIPE_BUF bytes at once, and may wait with more.
TEST_F(PipeWrites, AListForABlockingPipeIsCut) {
  EXPECT_EQ(write_two_blocks(), PIPE_BUF);
  EXPECT_EQ(written, std::size_t{PIPE_BUF});
}

TEST_F(PipeWrites, AFlagThatTheKernelDoesNotKnowIsTriedOnce) {
  for (int i = 0; i < 3; ++i) EXPECT_GT(write_two_blocks(), 0);
  EXPECT_EQ(refused, 2U) << "without waiting, and alone";
}

TEST_F(PipeWrites, AFlagThatOneFileRefusesIsTriedAgain) {
  refusal = EINVAL;
  for (int i = 0; i < 3; ++i) EXPECT_GT(write_two_blocks(), 0);
  EXPECT_EQ(refused, 6U);
}

// Another reader or writer of the same pipe acts between the poll and the call.
class SharedPipes : public Parts {
 protected:
  void SetUp() override {
    if (::mkfifo(name_.c_str(), 0600) == 0) named_ = ::open(name_.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(named_, 0);
    ASSERT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    ASSERT_GE(::fcntl(named_, F_SETPIPE_SZ, PIPE_BUF), 0);
    ASSERT_GE(::fcntl(ends_[1], F_SETPIPE_SZ, PIPE_BUF), 0);
  }
  void TearDown() override {
    for (const int each : {named_, ends_[0], ends_[1]}) ::close(each);
    ::unlink(name_.c_str());
  }
  static const os::System& system_with_another(void (*acts)(int)) {
    static void (*other)(int);
    other = acts;
    static const os::System table = [] {
      os::System made = os::real_system();
      made.ppoll = [](pollfd* list, nfds_t count, const timespec* time, const sigset_t* mask) {
        const int answer = ::ppoll(list, count, time, mask);
        if (answer > 0) other(list->fd);
        return answer;
      };
      return made;
    }();
    return table;
  }

  std::string name_ = testing::TempDir() + "baton_named_pipe_" + std::to_string(::getpid());
  int named_ = -1;
  int ends_[2] = {-1, -1};
  char block_[PIPE_BUF] = {};
};

TEST_F(SharedPipes, AWriteDoesNotWaitForTheRoomThatAnotherWriterHasTaken) {
  PipeCalls pipes{system_with_another([](int pipe) {
    const char block[PIPE_BUF] = {};
    EXPECT_EQ(::write(pipe, block, sizeof(block)), PIPE_BUF);
  })};
  EXPECT_EQ(::write(ends_[1], block_, sizeof(block_)), PIPE_BUF);
  for (const int each : {named_, ends_[1]}) {
    iovec piece{block_, sizeof(block_)};
    EXPECT_EQ(pipes.write(*handle(each, HandleKind::pipe, false), &piece, 1), -1);
    EXPECT_EQ(errno, EAGAIN);
  }
}

TEST_F(SharedPipes, AReadDoesNotWaitForWhatAnotherReaderHasTaken) {
  PipeCalls pipes{system_with_another([](int pipe) {
    char byte;
    EXPECT_EQ(::read(pipe, &byte, 1), 1);
  })};
  EXPECT_EQ(::write(named_, "n", 1), 1);
  for (const int each : {named_, ends_[0]}) {
    iovec piece{block_, 1};
    EXPECT_EQ(pipes.read(*handle(each, HandleKind::pipe, false), &piece, 1), -1);
    EXPECT_EQ(errno, EAGAIN);
  }
}

// -- pauses ---------------------------------------------------------------------------------------

std::atomic<short> told{0};

TEST_F(Parts, OnlyAReadingSideThatIsShutIsShut) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.ppoll = [](pollfd* list, nfds_t, const timespec*, const sigset_t*) {
      list->revents = told;
      return told != 0 ? 1 : 0;
    };
    return made;
  }();
  Operation read;
  read.prepare(OperationKind::read_datagram, handle(5, HandleKind::datagram_socket));
  told = 0;
  EXPECT_FALSE(reads_what_is_shut(system, read));
  told = POLLERR;  // an error to report, as of a datagram that was refused
  EXPECT_FALSE(reads_what_is_shut(system, read));
  told = POLLRDHUP | POLLERR;
  EXPECT_TRUE(reads_what_is_shut(system, read));
  read.prepare(OperationKind::write_datagram, handle(6, HandleKind::datagram_socket));
  EXPECT_FALSE(reads_what_is_shut(system, read));
}

// -- the spare descriptor -------------------------------------------------------------------------

class Spare : public Parts {
 protected:
  void SetUp() override {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    ASSERT_EQ(::bind(listener_, address, size), 0);
    ASSERT_EQ(::listen(listener_, 8), 0);
    ASSERT_EQ(::getsockname(listener_, address, &size), 0);
    acceptor_ = handle(listener_, HandleKind::listener);
  }
  void TearDown() override { ::close(listener_); }
  int connected() {
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit = test::patience_as_timeval();
    ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address_), sizeof(address_)), 0);
    EXPECT_TRUE(ready());
    return client;
  }
  const Handle& acceptor() { return *acceptor_; }

 private:
  [[nodiscard]] bool ready() const {
    pollfd one{.fd = listener_, .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, static_cast<int>(test::patience().count() / 1'000'000)) == 1;
  }
  int listener_ = -1;
  sockaddr_in address_{};
  Handle* acceptor_ = nullptr;
};

TEST_F(Spare, TurnsAwayOneConnectionAfterTheOther) {
  SpareDescriptor spare{os::real_system(), true};
  spare.prepare();
  const std::ptrdiff_t before = open_descriptors();
  spare.turn_one_away(acceptor());  // there is none
  for (int i = 0; i < 3; ++i) {
    const int client = connected();
    spare.turn_one_away(acceptor());
    char byte = 0;
    EXPECT_EQ(::recv(client, &byte, 1, 0), 0) << "number " << i;
    ::close(client);
  }
  EXPECT_EQ(open_descriptors(), before) << "there is a spare one again";
}

// accept4 would wait there if another process were faster.
TEST_F(Spare, LeavesABlockingListenerAlone) {
  SpareDescriptor spare{os::real_system(), true};
  spare.prepare();
  const int client = connected();
  spare.turn_one_away(*handle(acceptor().native(), HandleKind::listener, false));
  const int peer = ::accept4(acceptor().native(), nullptr, nullptr, SOCK_CLOEXEC);
  EXPECT_GE(peer, 0) << "the connection still waits";
  ::close(peer);
  ::close(client);
}

TEST_F(Spare, IsClosedAtItsEndAndInAChild) {
  const std::ptrdiff_t before = open_descriptors();
  {
    SpareDescriptor spare{os::real_system(), false};
    EXPECT_EQ(open_descriptors(), before) << "not before the first accept";
    spare.prepare();
    spare.prepare();
    EXPECT_EQ(open_descriptors(), before + 1);
    spare.abandon();
    EXPECT_EQ(open_descriptors(), before);
    spare.abandon();
  }
  {
    SpareDescriptor spare{os::real_system(), false};
    spare.prepare();
  }
  EXPECT_EQ(open_descriptors(), before);
}

// -- rooms, blocks, doubles, closes ---------------------------------------------------------------

TEST_F(Parts, ThereIsRoomUpToTheLastHandle) {
  std::atomic<std::uint32_t> handles{0};
  EngineOptions options;
  EXPECT_FALSE(HandleRoom{options}.none()) << "no handles are counted";
  options.handles = &handles;
  options.handles_full = 5;
  const HandleRoom room{options};
  handles = 4;
  EXPECT_FALSE(room.none());
  handles = 5;
  EXPECT_TRUE(room.none());
  handles = 5 + limits::handles_for_accepted - 1;
  EXPECT_FALSE(room.none_for_accepted());
  handles = 5 + limits::handles_for_accepted;
  EXPECT_TRUE(room.none_for_accepted());
}

// The memory of an operation says which pool it reads into, until it has a block: an operation that
// ends before that must not leave the pool there as its bytes.
TEST_F(Parts, APooledReadThatNeverBeganHasNoBlock) {
  BufferPool pool{64, 1};
  Operation read;
  read.prepare(OperationKind::read_stream, handle(5, HandleKind::stream_socket));
  read.set_pool(&pool);
  read.finish(ECANCELED);
  settle_pooled(read, Attempt{});
  EXPECT_EQ(read.buffer().data, nullptr);
  EXPECT_EQ(read.buffer().size, 0U);
  EXPECT_EQ(pool.available(), 1U);
}

TEST_F(Parts, ADoubleIsTheWholeRequest) {
  char bytes[8];
  Endpoint endpoint;
  Operation original;
  original.prepare(OperationKind::read_datagram, handle(5, HandleKind::datagram_socket));
  original.set_buffer(MutableBuffer{bytes});
  original.set_endpoint(&endpoint);
  original.set_tag(7);
  original.set_deadline(Deadline::at_ns(9));
  OperationDouble first;
  first.stand_for(original);
  EXPECT_EQ(first.kind(), OperationKind::read_datagram);
  EXPECT_EQ(first.handle(), original.handle());
  EXPECT_EQ(first.buffer().data, bytes);
  EXPECT_EQ(first.endpoint(), &endpoint);
  EXPECT_EQ(first.tag(), 7U);
  EXPECT_EQ(first.deadline(), Deadline::at_ns(9));
  EXPECT_EQ(first.activation(), original.activation());
  EXPECT_FALSE(first.cancel_asked());
  first.ask_cancel();
  OperationDouble second;
  second.stand_for(first);
  EXPECT_TRUE(second.cancel_asked()) << "the engine inside may look at it first in submit";
  first.set_bytes(3);
  first.finish(EIO);
  first.report_to(original);
  EXPECT_EQ(original.bytes(), 3U);
  EXPECT_EQ(original.error_value(), EIO);
}

std::atomic<int> close_error{0};

// The number is gone all the same, and closing it again would hit another file.
TEST_F(Parts, AnInterruptedCloseIsNoError) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.close = [](int) { return errno = close_error, -1; };
    return made;
  }();
  close_error = EINTR;
  EXPECT_EQ(close_by_call(system, 5), 0);
  close_error = EIO;
  EXPECT_EQ(close_by_call(system, 5), EIO);
}

// -- workers --------------------------------------------------------------------------------------

struct Idle final : WorkerPool::Client {
  void work(Operation& operation) noexcept override {
    ++now;
    while (now < wanted) os::real_system().yield();
    operation.finish(0);
  }
  void workers_finished() noexcept override {}
  std::atomic<int> now{0};
  std::atomic<int> wanted = 0;
};

TEST_F(Parts, WorkersThatAreIdleEndWithTheirPool) {
  constexpr int several = 3;
  Idle client;
  client.wanted = several;
  Operation jobs[several];
  WorkerPool pool{os::real_system(), client, several};
  for (Operation& job : jobs) {
    job.prepare(OperationKind::sync_file, handle(5, HandleKind::file));
    job.engine_state<WorkerJob>() = WorkerJob{};
    ASSERT_EQ(pool.submit(job), 0);
  }
  OperationQueue finished;
  for (int count = 0; count < several;) {
    pool.take_finished(finished);
    for (; !finished.empty(); ++count) finished.pop_front();
    os::real_system().yield();
  }
  EXPECT_EQ(pool.threads(), static_cast<std::uint32_t>(several));
  EXPECT_EQ(pool.jobs(), static_cast<std::uint64_t>(several));
}

TEST_F(Parts, APoolHasAsManyWorkersAsTheConfigurationMaySay) {
  constexpr int jobs_max = 256;
  Idle client;
  client.wanted = jobs_max;
  std::vector<Operation> jobs(jobs_max);
  WorkerPool pool{os::real_system(), client, jobs_max};
  for (Operation& job : jobs) {
    job.prepare(OperationKind::sync_file, handle(5, HandleKind::file));
    job.engine_state<WorkerJob>() = WorkerJob{};
    ASSERT_EQ(pool.submit(job), 0);
  }
  EXPECT_EQ(pool.threads(), static_cast<std::uint32_t>(jobs_max));
  client.wanted = 0;
  OperationQueue finished;
  for (int count = 0; count < jobs_max;) {
    pool.take_finished(finished);
    for (; !finished.empty(); ++count) finished.pop_front();
    os::real_system().yield();
  }
}

// EAGAIN, of a limit on threads, would tell the user to try again.
TEST_F(Parts, AWorkerThatCannotBeStartedIsALackOfMemory) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.thread_start = [](std::uint64_t*, void (*)(void*), void*) noexcept { return EAGAIN; };
    return made;
  }();
  Idle client;
  Operation job;
  job.prepare(OperationKind::sync_file, handle(5, HandleKind::file));
  job.engine_state<WorkerJob>() = WorkerJob{};
  WorkerPool pool{system, client, 1};
  EXPECT_EQ(pool.submit(job), ENOMEM);
  EXPECT_EQ(pool.jobs(), 0U);
}

}  // namespace
}  // namespace baton::engines
