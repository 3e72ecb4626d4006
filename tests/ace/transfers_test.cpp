// Transfers of streams and files, the fields of results, bad arguments.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "transfers.hpp"

namespace baton::ace::test {
namespace {

// -- results --------------------------------------------------------------------------------------

TEST_F(Transfers, ResultsCarryTheGivenArguments) {
  const SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, reader.open(taker_, pair.first, nullptr, ace()));
  ASSERT_EQ(0, writer.open(taker_, pair.second, nullptr, ace()));
  ACE_Message_Block in(100);
  ACE_Message_Block out(100);
  out.copy("hello", 5);
  ASSERT_EQ(0, reader.read(in, 1'000, &act_, 3, SIGRTMIN + 2));  // clipped to the block
  ASSERT_EQ(0, writer.write(out, 1'000, &taker_, 4, SIGRTMIN + 3));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(5U, taker_.read.bytes);
  EXPECT_EQ(5U, in.length());
  EXPECT_EQ(0, std::memcmp(in.rd_ptr(), "hello", 5));
  EXPECT_EQ(&act_, taker_.read.act);
  EXPECT_EQ(3, taker_.read.priority);
  EXPECT_EQ(SIGRTMIN + 2, taker_.read.signal_number);
  EXPECT_EQ(1, taker_.read.success);
  EXPECT_EQ(5U, taker_.written.bytes);
  EXPECT_EQ(0U, out.length());
  EXPECT_EQ(&taker_, taker_.written.act);
  EXPECT_EQ(4, taker_.written.priority);
  EXPECT_EQ(SIGRTMIN + 3, taker_.written.signal_number);
}

TEST_F(Transfers, StreamsUseTheFirstBlockOfAChain) {
  const SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, reader.open(taker_, pair.first, nullptr, ace()));
  ASSERT_EQ(0, writer.open(taker_, pair.second, nullptr, ace()));
  ACE_Message_Block in(3);
  ACE_Message_Block in_rest(10);
  ACE_Message_Block out(10);
  ACE_Message_Block out_rest(10);
  out.copy("abcd", 4);
  out_rest.copy("efgh", 4);
  in.cont(&in_rest);
  out.cont(&out_rest);
  ASSERT_EQ(0, writer.write(out, 8));
  ASSERT_EQ(0, reader.read(in, 13));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(4U, taker_.written.bytes);
  EXPECT_EQ("abc", std::string(in.rd_ptr(), in.length()));
  EXPECT_EQ(4U, out_rest.length());
  EXPECT_EQ(0U, in_rest.length());
  in.cont(nullptr);
  out.cont(nullptr);
}

TEST_F(Transfers, EndOfStreamIsACompletionOfNoBytes) {
  SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(taker_, pair.first, nullptr, ace()));
  ACE_Message_Block in(100);
  ASSERT_EQ(0, reader.read(in, 100));
  ::close(std::exchange(pair.second, -1));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1; }));
  EXPECT_EQ(0U, taker_.read.bytes);
  EXPECT_EQ(1, taker_.read.success);
}

TEST_F(Transfers, DeadPeerIsAnErrorAndNoSignal) {
  SocketPair pair;
  ::close(std::exchange(pair.second, -1));
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, writer.open(taker_, pair.first, nullptr, ace()));
  ACE_Message_Block out(10);
  out.copy("x", 1);
  ASSERT_EQ(0, writer.write(out, 1));
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(0, taker_.written.success);
  EXPECT_EQ(static_cast<u_long>(EPIPE), taker_.written.error);
}

TEST_F(Transfers, WriteIsCompleteWhenAllIsWritten) {
  const SocketPair pair;
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, writer.open(taker_, pair.first, nullptr, ace()));
  constexpr std::size_t size = 4 << 20;  // more than the socket holds
  ACE_Message_Block out(size);
  out.wr_ptr(size);
  ASSERT_EQ(0, writer.write(out, size));
  std::thread peer([&] {
    std::vector<char> buffer(1 << 16);
    for (std::size_t got = 0; got < size;) {
      const ssize_t more = ::read(pair.second, buffer.data(), buffer.size());
      ASSERT_GT(more, 0);
      got += static_cast<std::size_t>(more);
    }
  });
  EXPECT_TRUE(drive([&] { return taker_.written.count == 1; }));
  peer.join();
  EXPECT_EQ(size, taker_.written.bytes);
}

// -- bad input ------------------------------------------------------------------------------------

TEST_F(Transfers, BadInputIsRefusedWithAnError) {
  const int gone = ::dup(0);
  ::close(gone);
  ACE_Message_Block block(10);
  // One object for each open: a second open of one leaks ACE's first implementation object.
  ACE_Asynch_Read_Stream never;
  EXPECT_EQ(-1, never.open(taker_, ACE_INVALID_HANDLE, nullptr, ace()));
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(taker_, gone, nullptr, ace()));
  EXPECT_EQ(-1, reader.read(block, 10));
  EXPECT_EQ(EBADF, errno);
  EXPECT_EQ(-1, reader.cancel());

  const int folder = ::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ACE_Asynch_Read_File file;
  ASSERT_EQ(0, file.open(taker_, folder, nullptr, ace()));
  EXPECT_EQ(-1, file.read(block, 10));
  EXPECT_EQ(EISDIR, errno);
  EXPECT_EQ(1, file.cancel());
  ::close(folder);

  const SocketPair pair;
  ACE_Asynch_Read_Stream other;
  ASSERT_EQ(0, other.open(taker_, pair.first, nullptr, ace()));
  EXPECT_EQ(-1, other.read(block, 0));
  EXPECT_EQ(ENOSPC, errno);
}

// -- files without a name: eventfd and its siblings -----------------------------------------------

/// Before threads begin, so that no thread takes the signal.
struct BlockedSignal {
  BlockedSignal() {
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGUSR2);
    ::pthread_sigmask(SIG_BLOCK, &set, &before);
  }
  ~BlockedSignal() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  BlockedSignal(const BlockedSignal&) = delete;
  BlockedSignal& operator=(const BlockedSignal&) = delete;

  sigset_t set{};
  sigset_t before{};
};

class Nameless : protected BlockedSignal, public AceTest {
 protected:
  /// Starts a read, lets something happen, and waits for the end of the read. Closes the file.
  Ended read(int fildes, const std::function<void()>& happen) {
    Taker taker;
    ACE_Message_Block block(1'000);
    ACE_Asynch_Read_Stream reader;
    EXPECT_NE(-1, fildes);
    EXPECT_EQ(0, reader.open(taker, fildes, nullptr, ace()));
    if (reader.read(block, 1'000) == 0) {
      happen();
      EXPECT_TRUE(drive([&] { return taker.read.count == 1; }));
    } else {
      ADD_FAILURE() << std::strerror(errno);
    }
    EXPECT_EQ(taker.read.bytes, block.length());
    ::close(fildes);
    return taker.read;
  }
};

TEST_F(Nameless, FilesAreRead) {
  const std::uint64_t one = 1;
  const int event = ::eventfd(0, EFD_CLOEXEC);
  EXPECT_EQ(sizeof(one), read(event, [&] { EXPECT_EQ(8, ::write(event, &one, 8)); }).bytes);
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const itimerspec soon{{0, 0}, {0, 1'000'000}};
  EXPECT_EQ(8U, read(timer, [&] { ::timerfd_settime(timer, 0, &soon, nullptr); }).bytes);
  const int file = scratch_file();
  const int watch = ::inotify_init1(IN_CLOEXEC);
  const std::string name = "/proc/self/fd/" + std::to_string(file);
  EXPECT_NE(-1, ::inotify_add_watch(watch, name.c_str(), IN_MODIFY));
  const Ended modified = read(watch, [&] { EXPECT_EQ(1, ::write(file, "x", 1)); });
  EXPECT_EQ(sizeof(inotify_event), modified.bytes);
  ::close(file);
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  const Ended signalled = read(signals, [] { ::kill(::getpid(), SIGUSR2); });
  EXPECT_EQ(sizeof(signalfd_siginfo), signalled.bytes);
}

// They share one inode.
TEST_F(Nameless, FilesAreToldApart) {
  const int number = ::eventfd(0, EFD_CLOEXEC);
  Taker takers[3];
  ACE_Message_Block blocks[3]{ACE_Message_Block{8}, ACE_Message_Block{8}, ACE_Message_Block{8}};
  ACE_Asynch_Read_Stream readers[3];
  const auto read = [&](int i) {
    return readers[i].open(takers[i], number, nullptr, ace()) == 0 ? readers[i].read(blocks[i], 8)
                                                                   : -1;
  };
  ASSERT_EQ(0, read(0));
  // Opened again for the same file, it goes on.
  ASSERT_EQ(0, read(1));
  const std::uint64_t one = 1;
  ASSERT_EQ(8, ::write(number, &one, 8));
  ASSERT_TRUE(drive([&] { return takers[0].read.count + takers[1].read.count == 1; }));
  EXPECT_NE(takers[0].read.success == 1, takers[1].read.success == 1);
  // Closed without a cancel, and used again.
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  ASSERT_EQ(number, ::dup2(timer, number));
  ASSERT_EQ(0, read(2));
  const itimerspec soon{{0, 0}, {0, 1}};
  ASSERT_EQ(0, ::timerfd_settime(timer, 0, &soon, nullptr));
  ASSERT_TRUE(drive([&] {
    return takers[0].read.count + takers[1].read.count == 2 && takers[2].read.count == 1;
  }));
  EXPECT_NE(takers[0].read.success == 1, takers[1].read.success == 1);
  EXPECT_EQ(1, takers[2].read.success);
  EXPECT_EQ(8U, blocks[2].length());
  ::close(timer);
  ::close(number);
}

TEST_F(Nameless, EventsAreWritten) {
  for (const int flags : {0, int{EFD_NONBLOCK}}) {
    const int event = ::eventfd(0, flags | EFD_CLOEXEC);
    const std::uint64_t value = 7;
    Taker taker;
    ACE_Message_Block block(8);
    ASSERT_EQ(0, block.copy(reinterpret_cast<const char*>(&value), 8));
    ACE_Asynch_Write_Stream writer;
    ASSERT_EQ(0, writer.open(taker, event, nullptr, ace()));
    ASSERT_EQ(0, writer.write(block, 8)) << std::strerror(errno);
    ASSERT_TRUE(drive([&] { return taker.written.count == 1; }));
    EXPECT_EQ(8U, taker.written.bytes);
    EXPECT_EQ(8U, read(event, [] {}).bytes);
  }
}

// A pidfd is ready when its process has ended, and has nothing to read.
TEST_F(Nameless, ProcessIsNotRead) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  const Ended ended = read(process, [] {});
  EXPECT_EQ(0, ended.success);
  EXPECT_EQ(static_cast<u_long>(EINVAL), ended.error);
  EXPECT_EQ(child, ::waitpid(child, nullptr, 0));
}

TEST(Options, UnknownWordsAreExplained) {
  EXPECT_EQ(7U, Options::parse("batch=7,lazy").value().batch);
  EXPECT_TRUE(Options::parse("lazy,,explain").value().lazy);
  EXPECT_TRUE(Options::parse("").has_value());
  for (const char* const text : {"fast", "batch=0", "batch=1025", "batch=", "batch=x", "lazy=1"}) {
    const auto options = Options::parse(text);
    ASSERT_FALSE(options.has_value()) << text;
    EXPECT_NE(std::string::npos, options.error().reason.find("batch=N"));
    EXPECT_NE(std::string::npos, options.error().reason.find(text));
  }
  const std::string longest(60, 'x');
  EXPECT_NE(std::string::npos,
            Options::parse(longest + "y").error().reason.find("\"" + longest + "...\""));
}

TEST(Limits, OverTheLimitIsEagain) {
  Config config;
  config.processors = {{.engine = "emulated", .wait = "poll", .operations_max = 2}};
  Proactor limited{config};
  Taker taker;
  const SocketPair pair;
  auto* const reader = limited.create_asynch_read_stream();
  ASSERT_EQ(0, reader->open(taker.proxy(), pair.first, nullptr, nullptr));
  ACE_Message_Block block(10);
  EXPECT_EQ(0, limited.start_aio(nullptr, ACE_POSIX_Proactor::ACE_OPCODE_READ));
  EXPECT_EQ(0, reader->read(block, 10, nullptr, 0, 0));
  EXPECT_EQ(0, reader->read(block, 10, nullptr, 0, 0));
  EXPECT_EQ(-1, limited.start_aio(nullptr, ACE_POSIX_Proactor::ACE_OPCODE_READ));
  EXPECT_EQ(EAGAIN, errno);
  EXPECT_EQ(-1, reader->read(block, 10, nullptr, 0, 0));
  EXPECT_EQ(EAGAIN, errno);
  limited.close();
  EXPECT_EQ(2, taker.read.count);
  delete reader;
}

// As by ACE::set_handle_limit. (ACE's reactors raise a limit below FD_SETSIZE to that.)
TEST(Limits, DescriptorsMayBeMadeMoreLater) {
  constexpr int few = FD_SETSIZE;
  constexpr int end = 2 * few + 100;
  rlimit before{};
  ASSERT_EQ(0, ::getrlimit(RLIMIT_NOFILE, &before));
  if (before.rlim_max <= rlim_t{end}) GTEST_SKIP() << "the system allows too few descriptors";
  const rlimit low{few, before.rlim_max};
  const rlimit high{before.rlim_max, before.rlim_max};
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &low));
  Proactor proactor{Config::from_environment()};
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &high));
  Taker taker;
  const SocketPair pair;
  ACE_Message_Block block(10);
  std::vector<std::unique_ptr<ACE_Asynch_Read_Stream_Impl>> readers;
  for (int number = few; number < end; ++number) {
    ASSERT_EQ(number, ::dup2(pair.first, number));
    auto& reader = *readers.emplace_back(proactor.create_asynch_read_stream());
    ASSERT_EQ(0, reader.open(taker.proxy(), number, nullptr, nullptr));
    ASSERT_EQ(0, reader.read(block, 10, nullptr, 0, 0)) << number << ": " << std::strerror(errno);
  }
  proactor.close();
  EXPECT_EQ(end - few, taker.read.count);
  for (int number = few; number < end; ++number) ::close(number);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// -- files ----------------------------------------------------------------------------------------

TEST_F(Transfers, OffsetsHave64Bits) {
  const int fildes = scratch_file();
  const u_long far = (5UL << 32) + 123;
  ACE_Asynch_Write_File writer;
  ACE_Asynch_Read_File reader;
  ASSERT_EQ(0, writer.open(taker_, fildes, nullptr, ace()));
  ASSERT_EQ(0, reader.open(taker_, fildes, nullptr, ace()));
  ACE_Message_Block out(10);
  out.copy("far away", 8);
  ASSERT_EQ(0, writer.write(out, 8, far, 0));
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(8U, taker_.written.bytes);
  EXPECT_EQ(far, taker_.written.offset);
  ACE_Message_Block in(100);
  ASSERT_EQ(0, reader.read(in, 100, static_cast<u_long>(far & 0xffff'ffffU), 5));  // in two halves
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1; }));
  EXPECT_EQ(8U, taker_.read.bytes);
  EXPECT_EQ(0, std::memcmp(in.rd_ptr(), "far away", 8));
  ACE_Message_Block behind(100);
  ASSERT_EQ(0, reader.read(behind, 100, far + 8, 0));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 2; }));
  EXPECT_EQ(0U, taker_.read.bytes);  // the end of the file
  EXPECT_EQ(1, taker_.read.success);
  ::close(fildes);
}

}  // namespace
}  // namespace baton::ace::test
