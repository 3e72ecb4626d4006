// Transfers: files, datagrams, transmit-file, the fields of results, bad arguments.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "support.hpp"

namespace baton::ace::test {
namespace {

/// A file of the test's own, deleted at once.
int scratch_file() {
  char name[] = "/tmp/ace_test_XXXXXX";
  const int fildes = ::mkostemp(name, O_CLOEXEC);
  EXPECT_GE(fildes, 0);
  ::unlink(name);
  return fildes;
}

/// The values of a completion.
struct Ended {
  int count = 0;
  std::size_t bytes = 0;
  int success = -1;
  u_long error = 0;
  const void* act = nullptr;
  int priority = 0;
  int signal_number = 0;
  u_long offset = 0;

  template <class Result>
  void take(const Result& result) {
    ++count;
    bytes = result.bytes_transferred();
    success = result.success();
    error = result.error();
    act = result.act();
    priority = result.priority();
    signal_number = result.signal_number();
    offset = result.offset();
  }
};

class Taker final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    read.take(result);
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    written.take(result);
  }
  void handle_read_file(const ACE_Asynch_Read_File::Result& result) override { read.take(result); }
  void handle_write_file(const ACE_Asynch_Write_File::Result& result) override {
    written.take(result);
  }
  void handle_read_dgram(const ACE_Asynch_Read_Dgram::Result& result) override {
    read.take(result);
    EXPECT_EQ(0, result.remote_address(sender));
  }
  void handle_write_dgram(const ACE_Asynch_Write_Dgram::Result& result) override {
    written.take(result);
  }
  void handle_transmit_file(const ACE_Asynch_Transmit_File::Result& result) override {
    written.take(result);
    to_write = result.bytes_to_write();
    per_send = result.bytes_per_send();
  }
  Ended read;
  Ended written;
  ACE_INET_Addr sender{static_cast<u_short>(0), INADDR_LOOPBACK};  // of the expected family
  std::size_t to_write = 0;
  std::size_t per_send = 0;
};

class Transfers : public AceTest {
 protected:
  Taker taker_;
  int act_ = 0;
};

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

// -- transmit-file --------------------------------------------------------------------------------

class TransmitFile : public Transfers {
 protected:
  TransmitFile() : content_(100'000, '\0') {
    for (std::size_t i = 0; i < content_.size(); ++i)
      content_[i] = static_cast<char>(i * 7 + i / 256);
    EXPECT_EQ(static_cast<ssize_t>(content_.size()),
              ::pwrite(file_, content_.data(), content_.size(), 0));
    EXPECT_EQ(0, sender_.open(taker_, pair_.first, nullptr, ace()));
    header_.copy("<<", 2);
    trailer_.copy(">>>", 3);
  }
  ~TransmitFile() override { ::close(file_); }

  /// The received bytes, after everything was sent.
  std::string sent(int count) {
    std::string got;
    std::thread peer([&] {
      char buffer[8'192];
      for (ssize_t more = 0; (more = ::read(pair_.second, buffer, sizeof(buffer))) > 0;) {
        got.append(buffer, static_cast<std::size_t>(more));
      }
    });
    EXPECT_TRUE(drive([&] { return taker_.written.count == count; }));
    ::shutdown(pair_.first, SHUT_WR);
    peer.join();
    return got;
  }

  std::string content_;
  const int file_ = scratch_file();
  SocketPair pair_;
  ACE_Asynch_Transmit_File sender_;
  ACE_Message_Block header_{10};
  ACE_Message_Block trailer_{10};
  ACE_Asynch_Transmit_File::Header_And_Trailer ends_{&header_, 2, &trailer_, 3};
};

TEST_F(TransmitFile, WholeFileBetweenHeaderAndTrailer) {
  ASSERT_EQ(0, sender_.transmit_file(file_, &ends_, 0, 0, 0, 1'000, 0, &act_));
  EXPECT_EQ("<<" + content_ + ">>>", sent(1));
  EXPECT_EQ(content_.size() + 5, taker_.written.bytes);
  EXPECT_EQ(content_.size(), taker_.to_write);
  EXPECT_EQ(&act_, taker_.written.act);
  EXPECT_EQ(1, taker_.written.success);
}

TEST_F(TransmitFile, PartFromAnOffset) {
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 99'000, 0, 0, 0));
  EXPECT_EQ(content_.substr(99'000), sent(1));
  EXPECT_EQ(1'000U, taker_.to_write);
}

TEST_F(TransmitFile, ExactlySoManyBytes) {
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 777, 5, 0, 100, 0));
  EXPECT_EQ(content_.substr(5, 777), sent(1));
  EXPECT_EQ(777U, taker_.written.bytes);
}

TEST_F(TransmitFile, EndsAreNoLongerThanTheirLengthsAndTheirBlocks) {
  ACE_Asynch_Transmit_File::Header_And_Trailer ends{&header_, 1, &trailer_, 9};
  ASSERT_EQ(0, sender_.transmit_file(file_, &ends, 2, 0, 0, 0, 0));
  EXPECT_EQ("<" + content_.substr(0, 2) + ">>>", sent(1));
}

TEST_F(TransmitFile, HeaderIsNoLongerThanItsBlock) {
  ACE_Asynch_Transmit_File::Header_And_Trailer ends{&header_, 9, &trailer_, 2};
  ASSERT_EQ(0, sender_.transmit_file(file_, &ends, 2, 0, 0, 0, 0));
  EXPECT_EQ("<<" + content_.substr(0, 2) + ">>", sent(1));
}

TEST_F(TransmitFile, OffsetsHaveAHighHalf) {
  ASSERT_EQ(4, ::pwrite(file_, "far!", 4, (off_t{1} << 32) + 2));
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 4, 2, 1, 0, 0));
  EXPECT_EQ("far!", sent(1));
}

// More than the socket holds: the rest is read when it is not there any more.
TEST_F(TransmitFile, FileThatBecomesShorterIsAnError) {
  ASSERT_EQ(0, ::ftruncate(file_, 64 << 20));
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 0, 0));
  ASSERT_EQ(0, ::ftruncate(file_, 0));
  EXPECT_LT(sent(1).size(), std::size_t{64} << 20);
  EXPECT_EQ(static_cast<u_long>(ENODATA), taker_.written.error);
}

TEST_F(TransmitFile, EmptyPartCompletes) {
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, content_.size(), 0, 0, 0));
  EXPECT_EQ("", sent(1));
  EXPECT_EQ(0U, taker_.written.bytes);
  EXPECT_EQ(1, taker_.written.success);
}

TEST_F(TransmitFile, AMissingPartIsRefused) {
  EXPECT_EQ(-1, sender_.transmit_file(file_, nullptr, 0, content_.size() + 1, 0, 0, 0));
  EXPECT_EQ(EINVAL, errno);
  EXPECT_EQ(-1, sender_.transmit_file(file_, nullptr, 2, content_.size() - 1, 0, 0, 0));
  EXPECT_EQ(EINVAL, errno);
  EXPECT_EQ(-1, sender_.transmit_file(-1, nullptr, 0, 0, 0, 0, 0));
  EXPECT_EQ(EBADF, errno);
}

TEST_F(TransmitFile, CancelEndsItOnce) {
  // More than the socket holds: it cannot end before.
  ASSERT_EQ(0, ::ftruncate(file_, 64 << 20));
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 0, 0));
  EXPECT_EQ(0, sender_.cancel());
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(0, taker_.written.success);
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
  EXPECT_EQ(1, sender_.cancel());
}

// The file does not fit into memory, and the program wants it sent in one piece.
TEST_F(TransmitFile, TakesNoMoreMemoryThanAMebibyte) {
  constexpr off_t size = off_t{1} << 43;
  ASSERT_EQ(0, ::ftruncate(file_, size));
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, size, 0)) << std::strerror(errno);
  EXPECT_EQ(0, sender_.cancel());
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
  EXPECT_EQ(static_cast<std::size_t>(size), taker_.per_send);
}

// All of it is read in the first step, which no cancel of the socket ends.
TEST_F(TransmitFile, CancelEndsASmallFileBeforeItIsWritten) {
  ACE_Asynch_Transmit_File::Header_And_Trailer end{nullptr, 0, &trailer_, 3};
  ASSERT_EQ(0, sender_.transmit_file(file_, &end, 5, 0, 0, 0, 0));
  EXPECT_EQ(0, sender_.cancel());
  EXPECT_EQ("", sent(1));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
}

TEST_F(TransmitFile, CancelEndsAllOfTheSocket) {
  ASSERT_EQ(0, ::ftruncate(file_, 64 << 20));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 0, 0));
  EXPECT_EQ(0, sender_.cancel());
  ASSERT_TRUE(drive([&] { return taker_.written.count == 3; }));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
}

// The newest first: those that are left do not name it any more (AddressSanitizer).
TEST_F(TransmitFile, EndInAnyOrder) {
  const SocketPair others[2];
  ACE_Asynch_Transmit_File more[2];
  ASSERT_EQ(0, ::ftruncate(file_, 64 << 20));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(0, more[i].open(taker_, others[i].first, nullptr, ace()));
  ACE_Asynch_Transmit_File* const all[] = {&sender_, &more[0], &more[1]};
  for (auto* each : all) ASSERT_EQ(0, each->transmit_file(file_, nullptr, 0, 0, 0, 0, 0));
  int ended = 0;
  for (auto* each : {&more[0], &more[1], &sender_}) {  // the middle one, the newest, the oldest
    EXPECT_EQ(0, each->cancel());
    ASSERT_TRUE(drive([&, count = ++ended] { return taker_.written.count == count; }));
  }
  for (auto* each : all) EXPECT_EQ(1, each->cancel());
}

// The program closes the socket while a piece of the file is being read, and another one gets its
// number.
TEST_F(TransmitFile, SendsNothingToTheNextSocketWithItsNumber) {
  SocketPair next;
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 1'000, 0));
  ASSERT_EQ(pair_.first, ::dup2(next.first, pair_.first));
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
  char byte = 0;
  EXPECT_EQ(-1, ::recv(next.second, &byte, 1, MSG_DONTWAIT));
}

TEST_F(TransmitFile, SendsNothingOfTheNextFileWithItsNumber) {
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 1'000, 0));
  const int next = scratch_file();
  ASSERT_EQ(0, ::ftruncate(next, 100'000));
  ASSERT_EQ(file_, ::dup2(next, file_));
  ::close(next);
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
  EXPECT_GE(1'000U, taker_.written.bytes);  // the piece that had been read
}

// -- datagrams ------------------------------------------------------------------------------------

class Datagrams : public Transfers {
 protected:
  static int bound(ACE_INET_Addr& where) {
    const int fildes = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(0, ::bind(fildes, reinterpret_cast<sockaddr*>(&address), size));
    EXPECT_EQ(0, ::getsockname(fildes, reinterpret_cast<sockaddr*>(&address), &size));
    where.set(&address, sizeof(address));
    return fildes;
  }
  Datagrams() {
    EXPECT_EQ(0, reader_.open(taker_, here_, nullptr, ace()));
    EXPECT_EQ(0, writer_.open(taker_, there_, nullptr, ace()));
  }
  ~Datagrams() override {
    ::close(here_);
    ::close(there_);
  }

  ACE_INET_Addr here_address_;
  ACE_INET_Addr there_address_;
  const int here_ = bound(here_address_);
  const int there_ = bound(there_address_);
  ACE_Asynch_Read_Dgram reader_;
  ACE_Asynch_Write_Dgram writer_;
  std::size_t bytes_ = 0;
};

TEST_F(Datagrams, GoToAnAddressAndTellWhereTheyCameFrom) {
  ACE_Message_Block in(100);
  ACE_Message_Block out(100);
  out.copy("hello", 5);
  ASSERT_EQ(0, reader_.recv(&in, bytes_, 0, PF_INET, &act_));
  ASSERT_EQ(0, writer_.send(&out, bytes_, 0, here_address_));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(5U, taker_.read.bytes);
  EXPECT_EQ(0, std::memcmp(in.rd_ptr(), "hello", 5));
  EXPECT_EQ(there_address_, taker_.sender);
  EXPECT_EQ(&act_, taker_.read.act);
  EXPECT_EQ(0U, out.length());
}

TEST_F(Datagrams, ChainsAreOneDatagram) {
  ACE_Message_Block in_first(3);
  ACE_Message_Block in_second(100);
  in_first.cont(&in_second);
  ACE_Message_Block out_first(10);
  ACE_Message_Block out_second(10);
  out_first.copy("abcd", 4);
  out_second.copy("efghi", 5);
  out_first.cont(&out_second);
  ASSERT_EQ(0, reader_.recv(&in_first, bytes_, 0, PF_INET));
  ASSERT_EQ(0, writer_.send(&out_first, bytes_, 0, here_address_));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(9U, taker_.read.bytes);
  EXPECT_EQ("abc", std::string(in_first.rd_ptr(), in_first.length()));
  EXPECT_EQ("defghi", std::string(in_second.rd_ptr(), in_second.length()));
  EXPECT_EQ(0U, out_first.length());
  EXPECT_EQ(0U, out_second.length());
  in_first.cont(nullptr);
  out_first.cont(nullptr);
}

TEST_F(Datagrams, BothWaysAtOnce) {
  ACE_Asynch_Read_Dgram back;
  ACE_Asynch_Write_Dgram forth;
  ASSERT_EQ(0, back.open(taker_, there_, nullptr, ace()));
  ASSERT_EQ(0, forth.open(taker_, here_, nullptr, ace()));
  constexpr int rounds = 50;
  for (int i = 1; i <= rounds; ++i) {
    ACE_Message_Block in(10);
    ACE_Message_Block in_back(10);
    ACE_Message_Block out(10);
    ACE_Message_Block out_back(10);
    out.copy("1", 1);
    out_back.copy("2", 1);
    ASSERT_EQ(0, reader_.recv(&in, bytes_, 0, PF_INET));
    ASSERT_EQ(0, back.recv(&in_back, bytes_, 0, PF_INET));
    ASSERT_EQ(0, writer_.send(&out, bytes_, 0, here_address_));
    ASSERT_EQ(0, forth.send(&out_back, bytes_, 0, there_address_));
    ASSERT_TRUE(drive([&] { return taker_.read.count == 2 * i && taker_.written.count == 2 * i; }));
    EXPECT_EQ('1', *in.rd_ptr());
    EXPECT_EQ('2', *in_back.rd_ptr());
  }
}

// Baton's datagrams have no flags, on any engine. Two flags ask for what is so already.
TEST_F(Datagrams, FlagsThatWouldChangeSomethingAreRefused) {
  ACE_Message_Block in(10);
  ACE_Message_Block out(10);
  out.copy("x", 1);
  for (const int flags : std::vector<int>{MSG_PEEK, MSG_OOB, MSG_TRUNC, MSG_PEEK | MSG_DONTWAIT}) {
    EXPECT_EQ(-1, reader_.recv(&in, bytes_, flags, PF_INET));
    EXPECT_EQ(EOPNOTSUPP, errno);
  }
  for (const int flags : std::vector<int>{MSG_OOB, MSG_CONFIRM, MSG_MORE, MSG_OOB | MSG_NOSIGNAL}) {
    EXPECT_EQ(-1, writer_.send(&out, bytes_, flags, here_address_));
    EXPECT_EQ(EOPNOTSUPP, errno);
  }
  constexpr int harmless = MSG_DONTWAIT | MSG_NOSIGNAL;
  ASSERT_EQ(0, reader_.recv(&in, bytes_, harmless, PF_INET));
  ASSERT_EQ(0, writer_.send(&out, bytes_, harmless, here_address_));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(1U, in.length());  // what was refused has taken nothing
}

TEST_F(Datagrams, BadInputIsRefusedWithAnError) {
  ACE_Message_Block block(10);
  EXPECT_EQ(-1, writer_.send(&block, bytes_, 0, here_address_));
  EXPECT_EQ(EINVAL, errno);
  block.wr_ptr(block.space());
  EXPECT_EQ(-1, reader_.recv(&block, bytes_, 0, PF_INET));
  EXPECT_EQ(ENOSPC, errno);
}

}  // namespace
}  // namespace baton::ace::test
