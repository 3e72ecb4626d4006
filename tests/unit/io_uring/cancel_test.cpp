// Cancel in every state: before submit, queued, held, in the kernel, backing off, complete.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <tuple>

#include "../../support/counting_system.hpp"
#include "baton/buffer_pool.hpp"
#include "core/access.hpp"
#include "driver.hpp"
#include "faults.hpp"

namespace baton::test {
namespace {

class Cancel : public testing::TestWithParam<Form> {
 protected:
  Lines log;
  Driver driver{test::Setup{.form = GetParam(), .log = &log}};
};
INSTANTIATE_TEST_SUITE_P(Forms, Cancel, testing::Values(Form::any, Form::single, Form::pinned),
                         form_name);

TEST_P(Cancel, never_submitted) {
  Operation operation;
  EXPECT_EQ(driver.cancel(operation), CancelAnswer::too_late);
}

TEST_P(Cancel, asked_before_submit) {
  const Pair pair = stream_pair();
  char buffer[8];
  Operation read;
  set_read(read, driver.adopt(pair.left, HandleKind::stream_socket), buffer);
  OperationAccess::ask_cancel(read);
  EXPECT_EQ(driver.cancel(read), CancelAnswer::too_late);
  EXPECT_EQ(driver.submit(read), Submission::completed);
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  ::close(pair.right);
}

// Another thread cancels between the account of the start and its submit.
TEST(CancelOfAKnownHandle, asked_before_submit) {
  Driver driver{Form::any};
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  Operation write;  // makes the room that simple requests find
  set_write(write, handle, std::string_view{"x"});
  driver.submit(write);
  ASSERT_TRUE(driver.run_until(write));
  char buffer[8];
  Operation read;
  set_read(read, handle, buffer);
  OperationAccess::ask_cancel(read);
  void* const record = driver.engine().handle_record(*handle);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(driver.engine().submit(read, record), Submission::completed);
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  ::close(pair.right);
}

// The operation's memory names the pool until there is a block: it must not pass for one.
TEST_P(Cancel, asked_before_submit_of_a_pooled_read) {
  const Pair pair = stream_pair();
  BufferPool pool{64, 1};
  Operation read;
  read.prepare(OperationKind::read_stream, driver.adopt(pair.left, HandleKind::stream_socket));
  read.set_pool(&pool);
  OperationAccess::ask_cancel(read);
  EXPECT_EQ(driver.submit(read), Submission::completed);
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  EXPECT_EQ(read.buffer().data, nullptr);
  EXPECT_EQ(read.buffer().size, 0U);
  EXPECT_EQ(pool.available(), 1U);
  ::close(pair.right);
}

TEST_P(Cancel, in_the_kernel_and_submitted_or_not) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  for (const bool flushed : {false, true}) {
    char buffer[8];
    Operation read;
    set_read(read, handle, buffer);
    driver.submit(read);
    if (flushed) driver.expect_quiet();
    EXPECT_EQ(driver.cancel(read), CancelAnswer::requested);
    EXPECT_EQ(driver.cancel(read), CancelAnswer::requested) << "twice is no harm";
    ASSERT_TRUE(driver.run_until(read));
    EXPECT_EQ(read.error(), std::errc::operation_canceled);
    EXPECT_EQ(driver.cancel(read), CancelAnswer::too_late);
  }
  // The stream is whole.
  char buffer[8];
  Operation read;
  set_read(read, handle, buffer);
  driver.start(read);
  write_all(pair.right, "ok");
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(*read.result(), 2U);
  ::close(pair.right);
}

TEST_P(Cancel, keeps_the_bytes_moved) {
  const Pair pair = stream_pair();
  char buffer[8];
  Operation read;
  set_read(read, driver.adopt(pair.left, HandleKind::stream_socket), buffer, Operation::exactly);
  driver.start(read);
  write_all(pair.right, "abc");
  driver.expect_quiet();
  driver.cancel(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  EXPECT_EQ(read.bytes(), 3U);
  ::close(pair.right);
}

TEST_P(Cancel, queued_behind_another) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  std::array<std::array<char, 2>, 4> buffers{};
  std::array<Operation, 4> reads;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    set_read(reads[i], handle, buffers[i], Operation::exactly);
    driver.start(reads[i]);
  }
  EXPECT_EQ(driver.cancel(reads[1]), CancelAnswer::completed);
  EXPECT_EQ(driver.cancel(reads[3]), CancelAnswer::completed);
  EXPECT_EQ(reads[1].error(), std::errc::operation_canceled);
  // The first one is cancelled, and the third takes its place.
  EXPECT_EQ(driver.cancel(reads[0]), CancelAnswer::requested);
  ASSERT_TRUE(driver.run_until(reads[0]));
  write_all(pair.right, "xy");
  ASSERT_TRUE(driver.run_until(reads[2]));
  EXPECT_EQ(*reads[2].result(), 2U);
  ::close(pair.right);
}

TEST_P(Cancel, one_of_several_merged_writes) {
  const Pair pair = stream_pair();
  const int size = 4096;
  ::setsockopt(pair.left, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  const std::string filler = pattern(200'000, 9);
  std::array<std::string, 4> texts{pattern(3000, 1), pattern(3000, 2), pattern(3000, 3),
                                   pattern(3000, 4)};
  Operation first;
  std::array<Operation, 4> writes;
  set_write(first, handle, filler, Operation::exactly);
  driver.start(first);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_write(writes[i], handle, std::string_view{texts[i]}, Operation::exactly);
    driver.start(writes[i]);
  }
  driver.expect_quiet();
  // The peer takes enough for the merged part to begin waiting, and then a little.
  std::string received;
  while (!driver.is_done(first)) {
    char block[1024];
    const ssize_t got = ::read(pair.right, block, sizeof(block));
    if (got > 0) received.append(block, static_cast<std::size_t>(got));
    driver.wait_once(Deadline::after(std::chrono::microseconds{100}));
  }
  driver.cancel(writes[2]);
  ASSERT_TRUE(driver.run_until(writes[2])) << "without a reader";
  for (int i = 0; i < 1000 && !driver.is_done(writes[3]); ++i) {
    received += read_all(pair.right);
    driver.wait_once(Deadline::after(std::chrono::milliseconds{1}));
  }
  received += read_all(pair.right);
  std::string expected = filler + texts[0] + texts[1];
  expected += texts[2].substr(0, writes[2].bytes());
  expected += texts[3];
  EXPECT_TRUE(received == expected);
  EXPECT_TRUE(driver.is_done(writes[2]));
  EXPECT_TRUE(!writes[2].failed() || writes[2].error() == std::errc::operation_canceled);
  ::close(pair.right);
}

TEST_P(Cancel, every_kind_that_waits) {
  Endpoint address;
  const Pair stream = stream_pair(), datagram = datagram_pair(), pipe = pipe_pair(O_NONBLOCK);
  BufferPool pool{64, 1};
  char buffer[8];
  Endpoint from;
  const char big[100'000] = {};
  std::array<Operation, 7> all;
  Handle* const sockets = driver.adopt(stream.left, HandleKind::stream_socket);
  all[0].prepare(OperationKind::accept, driver.adopt(listener(address), HandleKind::listener));
  all[1].prepare(OperationKind::read_datagram,
                 driver.adopt(datagram.left, HandleKind::datagram_socket));
  all[1].set_buffer(MutableBuffer{buffer});
  all[1].set_endpoint(&from);
  all[2].prepare(OperationKind::wait_ready, sockets, Operation::readable);
  all[3].prepare(OperationKind::read_stream, sockets);
  all[3].set_pool(&pool);
  set_read(all[4], driver.adopt(pipe.left, HandleKind::pipe), buffer);
  const Pair full = pipe_pair(0);
  set_write(all[5], driver.adopt(full.right, HandleKind::pipe, Ownership::borrowed),
            ConstBuffer{big, sizeof(big)}, Operation::exactly);
  set_write(all[6], sockets, ConstBuffer{big, sizeof(big)}, Operation::exactly);
  const int size = 4096;
  ::setsockopt(stream.left, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
  for (Operation& operation : all) driver.start(operation);
  driver.expect_quiet();
  for (Operation& operation : all) {
    EXPECT_EQ(driver.cancel(operation), CancelAnswer::requested) << to_string(operation.kind());
  }
  for (Operation& operation : all) {
    ASSERT_TRUE(driver.run_until(operation)) << to_string(operation.kind());
    EXPECT_EQ(operation.error(), std::errc::operation_canceled) << to_string(operation.kind());
  }
  EXPECT_EQ(pool.available(), 1U);
  for (const int fd : {stream.right, datagram.right, pipe.right, full.left}) ::close(fd);
}

TEST_P(Cancel, ten_thousand_at_once) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  std::deque<Operation> waits(10'000);
  std::vector<Operation*> list;
  for (Operation& wait : waits) {
    wait.prepare(OperationKind::wait_ready, handle, Operation::readable);
    driver.submit(wait);
    list.push_back(&wait);
  }
  driver.expect_quiet();
  for (Operation& wait : waits) EXPECT_EQ(driver.cancel(wait), CancelAnswer::requested);
  ASSERT_TRUE(driver.run_until(list));
  for (const Operation& wait : waits) {
    ASSERT_EQ(wait.error(), std::errc::operation_canceled);
  }
  ::close(pair.right);
}

// An accept without descriptors stays pending, costs nothing, and continues when there are some
// again.
TEST_P(Cancel, accept_out_of_descriptors) {
  Endpoint address;
  Handle* const acceptor = driver.adopt(listener(address), HandleKind::listener);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(client, static_cast<sockaddr*>(address.data()), address.size()), 0);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Operation accept, other;
  accept.prepare(OperationKind::accept, acceptor);
  other.prepare(OperationKind::accept, acceptor);
  driver.start(accept);
  driver.start(other);
  // Each pause is twice as long as the one before, and costs a wait or two: no spinning.
  const auto begin = std::chrono::steady_clock::now();
  const auto backoffs = [&] { return driver.engine().counters().accept_backoffs; };
  system_calls().clear();
  const Deadline limit = at_last();
  while (backoffs() < 5 && is_ahead(limit)) {
    EXPECT_EQ(driver.wait_once(Deadline::after(std::chrono::milliseconds{50})), 0U);
  }
  ASSERT_EQ(backoffs(), 5U);
  EXPECT_LE(system_calls().waits, 50U);
  // The two have paused together four times: 10, 20, 40 and 80 ms.
  const auto passed = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(passed, std::chrono::milliseconds{150});
  EXPECT_GE(log.all.size(), 1U);
  EXPECT_LE(log.all.size(), 1U + passed / std::chrono::seconds{10}) << "one line in ten seconds";
  EXPECT_EQ(driver.cancel(other), CancelAnswer::completed);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(driver.run_until(accept));
  EXPECT_FALSE(accept.failed()) << accept.error().message();
  ::close(accept.accepted());
  ::close(client);
}

// Reads that are tried in vain again and again rest between their tries. Others wait behind them.
TEST_P(Cancel, a_read_that_rests_lets_the_next_go) {
  Driver with_faults{test::Setup{.form = GetParam(), .system = &faulty_system()}};
  faults().fruitless_receives = true;
  const Pair pair = stream_pair();
  Handle* const handle = with_faults.adopt(pair.left, HandleKind::stream_socket);
  char buffers[2][8];
  Operation reads[2];
  for (int i = 0; i < 2; ++i) {
    set_read(reads[i], handle, buffers[i]);
    with_faults.start(reads[i]);
  }
  const auto rests = [&] {
    with_faults.engine().flush();
    const Deadline due = with_faults.engine().due();
    return !due.is_never() && is_ahead(due);
  };
  const Deadline limit = at_last();
  while (!rests() && is_ahead(limit)) with_faults.wait_once(Deadline::immediately());
  ASSERT_TRUE(rests());
  EXPECT_EQ(with_faults.cancel(reads[0]), CancelAnswer::requested);
  faults().fruitless_receives = false;
  ASSERT_TRUE(with_faults.run_until(reads[0]));
  EXPECT_EQ(reads[0].error(), std::errc::operation_canceled);
  write_all(pair.right, "ok");
  ASSERT_TRUE(with_faults.run_until(reads[1]));
  EXPECT_EQ(*reads[1].result(), 2U);
  ::close(pair.right);
}

// A peer whose connection cannot be accepted is closed, with the descriptor kept for that.
TEST_P(Cancel, accept_turns_one_away) {
  Endpoint address;
  Handle* const acceptor = driver.adopt(listener(address), HandleKind::listener);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Operation accept;
  std::vector<int> fill;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  accept.prepare(OperationKind::accept, acceptor);
  driver.start(accept);  // the kernel notes the limit here
  driver.expect_quiet();
  for (int fd = ::dup(client); fd >= 0; fd = ::dup(client)) fill.push_back(fd);
  ASSERT_EQ(::connect(client, static_cast<sockaddr*>(address.data()), address.size()), 0);
  pollfd told{client, POLLIN, 0};
  for (int i = 0; i < 1000 && ::poll(&told, 1, 0) == 0; ++i) {
    driver.wait_once(Deadline::after(std::chrono::milliseconds{10}));
  }
  ASSERT_NE(told.revents, 0);
  char byte = 0;
  EXPECT_EQ(::read(client, &byte, 1), 0) << "closed by the listener's side";
  EXPECT_FALSE(driver.is_done(accept));
  for (const int fd : fill) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &before);
  const int next = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(next, static_cast<sockaddr*>(address.data()), address.size()), 0);
  ASSERT_TRUE(driver.run_until(accept));
  EXPECT_FALSE(accept.failed());
  ::close(accept.accepted());
  ::close(client);
  ::close(next);
}

// In mode per_thread a cancel by another thread waits until the lane's thread is out of its
// engines, but not for a handler. So nothing that a handler starts or cancels may enter with the
// number of a borrowed descriptor: the request of the cancel comes next.
class NumbersOfOthers : public testing::TestWithParam<std::tuple<Form, bool>> {};

TEST_P(NumbersOfOthers, are_not_entered_with_in_a_start) {
  const auto [form, files] = GetParam();
  Driver driver{test::Setup{.form = form, .ring_entries = files ? 0U : 2U}};
  const Pair first = stream_pair();
  char taken[8];
  Operation read;
  set_read(read, driver.borrow(first.left, HandleKind::stream_socket), taken);
  driver.expect_quiet();
  driver.submit(read);
  const Pair next = stream_pair();
  write_all(next.right, "new");
  ASSERT_EQ(::dup2(next.left, first.left), first.left);
  const Pair others = stream_pair();
  Handle* const other = files ? driver.adopt(::open("/proc/self/exe", O_RDONLY), HandleKind::file)
                              : driver.adopt(others.left, HandleKind::stream_socket);
  char buffers[40][1];
  Operation more[40];
  for (int i = 0; i < 40; ++i) {
    more[i].prepare(files ? OperationKind::read_file : OperationKind::wait_ready, other,
                    files ? 0 : Operation::readable);
    more[i].set_buffer(MutableBuffer{buffers[i], 1});
    driver.submit(more[i]);
  }
  EXPECT_EQ(driver.cancel(read), CancelAnswer::requested);
  write_all(others.right, "x");
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  for (Operation& each : more) {
    ASSERT_TRUE(driver.run_until(each));
    EXPECT_FALSE(each.failed());
  }
  EXPECT_EQ(::recv(first.left, taken, sizeof(taken), MSG_DONTWAIT), 3);
  for (const int fd : {first.left, first.right, next.left, next.right, others.right}) ::close(fd);
  if (files) ::close(others.left);
}
INSTANTIATE_TEST_SUITE_P(Forms, NumbersOfOthers,
                         testing::Combine(testing::Values(Form::single, Form::pinned),
                                          testing::Bool()));

}  // namespace
}  // namespace baton::test
