// The chaos engine on each engine of the system: its effect on programs, and what it must not do.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../../support/patience.hpp"
#include "../../support/real_engines.hpp"
#include "baton/config.hpp"
#include "baton/proactor.hpp"

namespace baton::test {
namespace {

ProcessorConfig calm(const std::string& inner) {
  ProcessorConfig processor;
  processor.engine = "chaos";
  processor.inner = inner;
  processor.chaos_short = processor.chaos_delay = processor.chaos_error = 0;
  processor.chaos_late_cancel = 0;
  return processor;
}

Result<std::unique_ptr<Proactor>, Failure> open(const ProcessorConfig& processor) {
  Config config;
  config.processors.push_back(processor);
  config.require = {"chaos"};
  return Proactor::open(config);
}

// -- opening --------------------------------------------------------------------------------------

TEST(Chaos, IsNeverChosenUnlessItIsNamed) {
  Config config;
  for (const auto& engine : real_engines()) config.forbid.push_back(engine.name);
  const auto opened = Proactor::open(config);
  ASSERT_FALSE(opened.has_value()) << (*opened)->explain();
}

TEST(Chaos, NamesTheInnerEngineAndTheFaults) {
  ProcessorConfig processor = calm("emulated");
  processor.chaos_seed = 99;
  const auto opened = open(processor);
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  EXPECT_NE((*opened)->explain().find("chaos: around engine=emulated chaos_seed=99 chaos_short=0"),
            std::string::npos)
      << (*opened)->explain();
}

TEST(Chaos, TakesTheFirstThatOpens) {
  const auto opened = open(calm("auto"));
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  EXPECT_NE((*opened)->explain().find("around engine=emulated"), std::string::npos);
}

TEST(Chaos, IsNotPutAroundItselfNorAroundAnEngineThatDoesNotOpen) {
  for (const char* inner : {"chaos", "simulated"}) {
    const auto opened = open(calm(inner));
    ASSERT_FALSE(opened.has_value()) << inner;
    EXPECT_NE(opened.error().reason.find("inner=" + std::string(inner)), std::string::npos)
        << opened.error().reason;
  }
}

TEST(Chaos, AnEngineThatIsForbiddenIsNotTakenInside) {
  Config config;
  config.processors.push_back(calm("io_uring"));
  config.forbid = {"io_uring"};
  const auto opened = Proactor::open(config);
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().reason.find("inner=\"io_uring\" is forbidden"), std::string::npos)
      << opened.error().reason;
}

TEST(Chaos, ThePolicyHoldsForTheInnerEngineThatItFindsItself) {
  Config config;
  config.processors.push_back(calm("auto"));
  config.forbid = {"emulated"};
  const auto other = Proactor::open(config);
  const std::string told = other ? (*other)->explain() : other.error().reason;
  EXPECT_EQ(told.find("around engine=emulated"), std::string::npos) << told;
  const bool has_ring = open(calm("io_uring")).has_value();
  EXPECT_EQ(other.has_value(), has_ring) << told;
  config.forbid.clear();
  config.prefer = {"io_uring"};
  const auto preferred = Proactor::open(config);
  ASSERT_TRUE(preferred.has_value()) << preferred.error().reason;
  const std::string first = has_ring ? "around engine=io_uring" : "around engine=emulated";
  EXPECT_NE((*preferred)->explain().find(first), std::string::npos) << (*preferred)->explain();
  config.forbid = {"emulated", "io_uring"};
  EXPECT_EQ(Proactor::open(config).error().code, errc::engine_forbidden);
}

// -- running --------------------------------------------------------------------------------------

class ChaosOver : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (auto opened = open(calm(GetParam())); !opened) {
      ASSERT_NE(GetParam(), "emulated") << opened.error().reason;
      GTEST_SKIP() << opened.error().reason;
    }
  }
  void TearDown() override {
    for (const int fd : fd_) {
      if (fd >= 0) ::close(fd);
    }
  }

  void begin(const ProcessorConfig& processor) { proactor_ = std::move(open(processor).value()); }
  Handle& stream(int type = SOCK_STREAM) {
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd_) != 0) {
      std::abort();
    }
    const int mine = std::exchange(fd_[0], -1);
    return *proactor_->adopt(mine, HandleKind::stream_socket, Ownership::owned).value();
  }
  void start(Operation& operation, OperationKind kind, Handle& handle, MutableBuffer buffer,
             std::uint16_t flags = 0) {
    operation.prepare(kind, &handle, flags);
    operation.set_buffer(buffer);
    ASSERT_FALSE(proactor_->start(operation));
  }
  void finish(const Operation& operation) {
    const Deadline end = at_last();
    while (operation.is_pending() && proactor_->now() < end) proactor_->run_one(end);
    ASSERT_FALSE(operation.is_pending());
  }
  void send(const std::string& text) {
    ASSERT_EQ(::send(fd_[1], text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  std::unique_ptr<Proactor> proactor_;
  int fd_[2] = {-1, -1};
};

TEST_P(ChaosOver, PlainReadsAreShortAndExactOnesWhole) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_short = 100;
  begin(processor);
  Handle& handle = stream();
  int short_ones = 0;
  for (int i = 0; i < 50; ++i) {
    send(std::string(100, 'x'));
    std::array<char, 100> buffer{};
    Operation plain;
    start(plain, OperationKind::read_stream, handle, buffer);
    finish(plain);
    ASSERT_FALSE(plain.failed()) << plain.error().message();
    ASSERT_GE(plain.bytes(), 1U);
    short_ones += plain.bytes() < 100 ? 1 : 0;
    if (plain.bytes() == 100) continue;
    Operation exact;
    start(exact, OperationKind::read_stream, handle,
          {buffer.data() + plain.bytes(), 100 - plain.bytes()}, Operation::exactly);
    finish(exact);
    ASSERT_FALSE(exact.failed()) << exact.error().message();
    ASSERT_EQ(exact.bytes(), 100 - plain.bytes());
    ASSERT_EQ(std::string(buffer.data(), 100), std::string(100, 'x'));
  }
  EXPECT_GT(short_ones, 0);
}

TEST_P(ChaosOver, AListOfBuffersIsFilledInOrder) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_short = 100;
  begin(processor);
  Handle& handle = stream();
  for (int i = 0; i < 50; ++i) {
    send("abcdefghij");
    char one[3];
    char two[4];
    char three[3];
    const MutableBuffer list[] = {one, two, three};
    Operation operation;
    operation.prepare(OperationKind::read_stream, &handle, Operation::exactly);
    operation.set_buffers(MutableBuffers{list});
    ASSERT_FALSE(proactor_->start(operation));
    finish(operation);
    ASSERT_EQ(operation.bytes(), 10U);
    ASSERT_EQ(std::string(one, 3) + std::string(two, 4) + std::string(three, 3), "abcdefghij");
  }
}

TEST_P(ChaosOver, PartsOfAFileFollowOneAnother) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_short = 100;
  begin(processor);
  char name[] = "/tmp/baton_chaos_XXXXXX";
  const int fd = ::mkstemp(name);
  ASSERT_GE(fd, 0);
  ::unlink(name);
  Handle& handle = *proactor_->adopt(fd, HandleKind::file, Ownership::owned).value();
  std::string sent;
  for (int block = 0; block < 64; ++block) sent += std::string(512, static_cast<char>(' ' + block));
  Operation write;
  start(write, OperationKind::write_file, handle, {sent.data(), sent.size()}, Operation::exactly);
  finish(write);
  ASSERT_EQ(write.bytes(), sent.size());
  std::string found(sent.size(), '\0');
  ASSERT_EQ(::pread(fd, found.data(), found.size(), 0), static_cast<ssize_t>(found.size()));
  EXPECT_EQ(found, sent);
  std::string received(sent.size(), '\0');
  Operation read;
  start(read, OperationKind::read_file, handle, {received.data(), received.size()},
        Operation::exactly);
  finish(read);
  EXPECT_EQ(received, sent);
}

TEST_P(ChaosOver, RecordsOfAStreamStayWhole) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_short = 100;
  begin(processor);
  Handle& handle = stream(SOCK_SEQPACKET);
  for (int i = 0; i < 50; ++i) {
    send(std::string(100, 'x'));
    std::array<char, 100> buffer{};
    Operation read;
    start(read, OperationKind::read_stream, handle, buffer);
    finish(read);
    ASSERT_EQ(read.bytes(), 100U);
    Operation write;
    start(write, OperationKind::write_stream, handle, buffer, Operation::exactly);
    finish(write);
    ASSERT_EQ(::recv(fd_[1], buffer.data(), buffer.size(), 0), 100);
  }
}

// The reading end does not show that it gets packets. An eventfd takes eight bytes or none.
TEST_P(ChaosOver, PacketsAndCountersStayWhole) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_short = 100;
  begin(processor);
  int packets[2];
  ASSERT_EQ(::pipe2(packets, O_DIRECT | O_CLOEXEC), 0);
  Handle& reader = **proactor_->adopt(packets[0], HandleKind::pipe);
  Handle& counter = **proactor_->adopt(::eventfd(0, EFD_CLOEXEC), HandleKind::pipe);
  std::array<char, 100> buffer{};
  std::uint64_t number = 0;
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(::write(packets[1], buffer.data(), buffer.size()), 100);
    Operation read;
    start(read, OperationKind::read_stream, reader, buffer);
    finish(read);
    ASSERT_EQ(read.bytes(), 100U);
    number = 7;
    for (const OperationKind kind : {OperationKind::write_stream, OperationKind::read_stream}) {
      Operation whole;
      start(whole, kind, counter, {&number, sizeof(number)});
      finish(whole);
      ASSERT_FALSE(whole.failed()) << whole.error().message();
    }
    ASSERT_EQ(number, 7U);
  }
  ::close(packets[1]);
}

TEST_P(ChaosOver, ShortWritesToAPipeStayWhole) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_short = 100;
  begin(processor);
  ASSERT_EQ(::pipe2(fd_, O_CLOEXEC), 0);
  Handle& writer = **proactor_->adopt(std::exchange(fd_[1], -1), HandleKind::pipe);
  std::array<char, 2 * PIPE_BUF> buffer{};
  for (int i = 0; i < 20; ++i) {
    Operation write;
    start(write, OperationKind::write_stream, writer, {buffer.data(), PIPE_BUF});
    finish(write);
    ASSERT_EQ(write.bytes(), std::size_t{PIPE_BUF});
    ASSERT_EQ(::read(fd_[0], buffer.data(), PIPE_BUF), PIPE_BUF);
  }
  bool split = false;
  for (int i = 0; i < 20 && !split; ++i) {
    Operation write;
    start(write, OperationKind::write_stream, writer, buffer);
    finish(write);
    split = write.bytes() < buffer.size();
    ASSERT_EQ(::read(fd_[0], buffer.data(), buffer.size()), static_cast<ssize_t>(write.bytes()));
  }
  EXPECT_TRUE(split) << "longer writes may be short";
}

TEST_P(ChaosOver, SuccessiveOperationsStayInOrder) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_short = processor.chaos_delay = 50;
  processor.chaos_delay_us = 20;
  begin(processor);
  Handle& handle = stream();
  constexpr std::size_t count = 100;  // small ones, of which a socket holds few
  std::vector<Operation> writes(count);
  std::vector<std::array<char, 2>> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = {static_cast<char>('a' + i % 26), static_cast<char>('A' + i / 26)};
    start(writes[i], OperationKind::write_stream, handle, bytes[i], Operation::exactly);
  }
  std::string got;
  std::string expected;
  for (std::size_t i = 0; i < count; ++i) {
    finish(writes[i]);
    ASSERT_FALSE(writes[i].failed());
    expected.append(bytes[i].data(), 2);
  }
  std::array<char, 2 * count> buffer{};
  while (got.size() < expected.size()) {
    const ssize_t size = ::recv(fd_[1], buffer.data(), buffer.size(), 0);
    ASSERT_GT(size, 0);
    got.append(buffer.data(), static_cast<std::size_t>(size));
  }
  EXPECT_EQ(got, expected);
}

// Each that ends begins the next: by a list, not by a call inside a call.
TEST_P(ChaosOver, ALongLineIsNoDeepRecursion) {
  begin(calm(GetParam()));
  Handle& handle = stream();
  constexpr std::size_t count = 20'000;
  std::vector<Operation> reads(count);
  char byte = 0;
  for (Operation& read : reads) {
    start(read, OperationKind::read_stream, handle, {&byte, 1});
  }
  ::shutdown(fd_[1], SHUT_WR);  // each of them is at the end of the stream
  for (const Operation& read : reads) {
    finish(read);
    ASSERT_EQ(read.bytes(), 0U);
  }
}

TEST_P(ChaosOver, AnErrorOfAConnectionIsPermanentAndReachesThePeer) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_error = 100;
  begin(processor);
  Handle& handle = stream();
  std::array<char, 10> buffer{};
  bool reset = false;
  for (int i = 0; i < 200 && !reset; ++i) {
    Operation read;
    start(read, OperationKind::read_stream, handle, buffer);
    finish(read);
    ASSERT_TRUE(read.error_value() == ENOBUFS || read.error_value() == ECONNRESET);
    reset = read.error_value() == ECONNRESET;
  }
  ASSERT_TRUE(reset);
  Operation read;
  start(read, OperationKind::read_stream, handle, buffer);
  finish(read);
  EXPECT_EQ(read.error_value(), ECONNRESET);
  Operation write;
  start(write, OperationKind::write_stream, handle, buffer);
  finish(write);
  EXPECT_EQ(write.error_value(), EPIPE);
  EXPECT_EQ(::recv(fd_[1], buffer.data(), buffer.size(), 0), 0);
}

TEST_P(ChaosOver, AResetEndsPendingOperationsOfTheOtherDirection) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_error = 50;
  std::array<char, 10> buffer{};
  Operation read;
  Handle* handle = nullptr;
  do {  // until a seed spares the first
    ASSERT_LT(++processor.chaos_seed, 100U);
    for (int& fd : fd_) {
      if (fd >= 0) ::close(std::exchange(fd, -1));
    }
    begin(processor);
    handle = &stream();
    start(read, OperationKind::read_stream, *handle, buffer);
    proactor_->poll();
  } while (!read.is_pending());
  char byte = 'x';
  Operation write;
  do {
    start(write, OperationKind::write_stream, *handle, {&byte, 1});
    finish(write);
  } while (write.error_value() != ECONNRESET);
  finish(read);
  EXPECT_EQ(read.error_value(), ECONNRESET);
}

TEST_P(ChaosOver, ALateCancelStillCancels) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_late_cancel = 100;
  begin(processor);
  Handle& handle = stream();
  std::array<char, 10> buffer{};
  // One operation at the engine, and one behind it.
  std::array<Operation, 2> reads;
  for (Operation& read : reads) start(read, OperationKind::read_stream, handle, buffer);
  for (Operation& read : reads) {
    EXPECT_EQ(proactor_->cancel(read, read.activation()), CancelResult::requested);
  }
  for (Operation& read : reads) {
    finish(read);
    EXPECT_EQ(read.error_value(), ECANCELED);
  }
}

TEST_P(ChaosOver, DelayedOperationsAreCancelledAtOnce) {
  ProcessorConfig processor = calm(GetParam());
  processor.chaos_delay = 100;
  processor.chaos_delay_us = 10'000'000;
  begin(processor);
  Handle& handle = stream();
  std::array<char, 10> buffer{};
  Operation read;
  start(read, OperationKind::read_stream, handle, buffer);
  EXPECT_EQ(proactor_->cancel(read, read.activation()), CancelResult::requested);
  finish(read);
  EXPECT_EQ(read.error_value(), ECANCELED);
}

TEST_P(ChaosOver, TheSameStartsHaveTheSameCourse) {
  std::string first;
  for (int round = 0; round < 2; ++round) {
    ProcessorConfig processor = calm(GetParam());
    processor.chaos_short = 60;
    processor.chaos_error = 20;
    processor.chaos_seed = 5;
    begin(processor);
    std::string course;
    for (int i = 0; i < 100; ++i) {
      Handle& handle = stream();
      send("abcdefghij");
      std::array<char, 10> buffer{};
      Operation read;
      start(read, OperationKind::read_stream, handle, buffer);
      finish(read);
      course += std::to_string(read.bytes()) + "/" + std::to_string(read.error_value()) + " ";
      ::close(std::exchange(fd_[1], -1));
      proactor_->close_detached(handle);
    }
    if (round == 0) first = course;
    EXPECT_EQ(course, first);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& engine : real_engines()) {
    if (!engine.files_only) all.push_back(engine.name);
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(engines, ChaosOver, testing::ValuesIn(names()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace baton::test
