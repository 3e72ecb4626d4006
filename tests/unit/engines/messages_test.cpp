// Datagrams, and waiting for readiness.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "baton/buffer_pool.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

using Messages = EveryForm;
INSTANTIATE_TEST_SUITE_P(forms, Messages, testing::ValuesIn(forms()), form_name);

void set_datagram(Operation& operation, OperationKind kind, Handle* handle, MutableBuffer buffer,
                  Endpoint* peer = nullptr) {
  operation.prepare(kind, handle);
  operation.set_buffer(buffer);
  operation.set_endpoint(peer);
}

int udp_socket(Endpoint& address) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  address = Endpoint::loopback(0);
  EXPECT_EQ(::bind(fd, static_cast<sockaddr*>(address.data()), address.size()), 0);
  EXPECT_EQ(::getsockname(fd, static_cast<sockaddr*>(address.data()), address.size_pointer()), 0);
  return fd;
}

TEST_P(Messages, carry_addresses_both_ways) {
  Endpoint left_address;
  Endpoint right_address;
  Handle* const left = driver.adopt(udp_socket(left_address), HandleKind::datagram_socket);
  Handle* const right = driver.adopt(udp_socket(right_address), HandleKind::datagram_socket);
  char text[] = "hello";
  char buffer[64];
  Endpoint from;
  Operation read;
  Operation write;
  set_datagram(read, OperationKind::read_datagram, right, buffer, &from);
  set_datagram(write, OperationKind::write_datagram, left, {text, 5}, &right_address);
  EXPECT_EQ(driver.start(read), Submission::pending);
  EXPECT_EQ(driver.start(write), Submission::completed);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(std::string_view(buffer, *read.result()), "hello");
  EXPECT_EQ(from, left_address);

  // The test answers to the address of the sender.
  Endpoint back;
  set_datagram(read, OperationKind::read_datagram, left, buffer, &back);
  set_datagram(write, OperationKind::write_datagram, right, {text, 4}, &from);
  driver.start(read);
  driver.start(write);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 4U);
  EXPECT_EQ(back, right_address);
}

TEST_P(Messages, keep_their_boundaries_and_may_be_empty) {
  const Pair pair = datagram_pair();
  Handle* const ours = driver.adopt(pair.ours, HandleKind::datagram_socket);
  Handle* const peer = driver.adopt(pair.peer, HandleKind::datagram_socket);
  char text[] = "abc";
  Operation write;
  for (const std::size_t size : {3U, 0U, 2U}) {
    set_datagram(write, OperationKind::write_datagram, peer, {text, size});
    ASSERT_TRUE(driver.complete(write));
  }
  std::array<std::array<char, 8>, 3> buffers{};
  std::array<Operation, 3> reads;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    set_datagram(reads[i], OperationKind::read_datagram, ours, buffers[i]);
    driver.start(reads[i]);
  }
  ASSERT_TRUE(driver.run(reads[2]));
  EXPECT_EQ(*reads[0].result(), 3U);
  EXPECT_EQ(*reads[1].result(), 0U);
  EXPECT_EQ(*reads[2].result(), 2U);
}

TEST_P(Messages, come_into_pooled_blocks) {
  const Pair pair = datagram_pair();
  Handle* const ours = driver.adopt(pair.ours, HandleKind::datagram_socket);
  BufferPool pool{32, 1};
  Operation read;
  read.prepare(OperationKind::read_datagram, ours);
  read.set_pool(&pool);
  driver.start(read);
  EXPECT_EQ(::send(pair.peer, "hello", 5, 0), 5);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 5U);
  EXPECT_EQ(pool.available(), 0U);
  pool.give(read.buffer().data);
  ::close(pair.peer);
}

// Another reader may be quicker than the one that got the report.
TEST_P(Messages, pin_no_block_while_they_wait) {
  const Pair pair = datagram_pair();
  Handle* const ours = driver.adopt(pair.ours, HandleKind::datagram_socket);
  BufferPool pool{32, 1};
  Operation read;
  read.prepare(OperationKind::read_datagram, ours);
  read.set_pool(&pool);
  driver.start(read);
  EXPECT_EQ(::send(pair.peer, "hello", 5, 0), 5);
  faults().fail(Call::recvfrom, EAGAIN, 20);
  driver.wait_once();
  EXPECT_EQ(pool.available(), 1U);
  faults().clear();
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 5U);
  pool.give(read.buffer().data);
  ::close(pair.peer);
}

// Without a connection a UNIX datagram socket is "writable" although its peer's queue is full.
TEST_P(Messages, readiness_that_means_nothing_does_not_spin) {
  Endpoint address = Endpoint::unix_path("@baton-full-" + std::to_string(::getpid())).value();
  const int peer = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(peer, static_cast<sockaddr*>(address.data()), address.size()), 0);
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  while (::sendto(fd, "x", 1, 0, static_cast<sockaddr*>(address.data()), address.size()) == 1) {
  }
  Handle* const handle = driver.adopt(fd, HandleKind::datagram_socket);
  char text[] = "last";
  Operation write;
  set_datagram(write, OperationKind::write_datagram, handle, {text, 4}, &address);
  EXPECT_EQ(driver.start(write), Submission::pending);
  const Deadline end = Deadline::after(std::chrono::milliseconds{300});
  int waits = 0;
  for (; Deadline::at(std::chrono::steady_clock::now()) < end; ++waits) driver.wait_once(end);
  EXPECT_LE(waits, 60);
  EXPECT_LE(faults().count(Call::sendto) + faults().count(Call::sendmsg), 40U);
  char buffer[8];
  while (::recv(peer, buffer, sizeof(buffer), 0) > 0) {
  }
  ASSERT_TRUE(driver.run(write));
  EXPECT_FALSE(write.failed());
  ::close(peer);
}

TEST_P(Messages, too_large_a_datagram_is_an_error) {
  Endpoint address;
  Handle* const handle = driver.adopt(udp_socket(address), HandleKind::datagram_socket);
  std::string huge(70'000, 'x');
  Operation write;
  set_datagram(write, OperationKind::write_datagram, handle, huge, &address);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(write.error(), std::errc::message_size);
}

// -- readiness ------------------------------------------------------------------------------------

void set_wait(Operation& operation, Handle* handle, std::uint16_t flags) {
  operation.prepare(OperationKind::wait_ready, handle, flags);
}

TEST_P(Messages, wait_until_readable_and_writable) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  Operation in;
  Operation out;
  set_wait(in, handle, Operation::readable);
  EXPECT_EQ(driver.start(in), Submission::pending);
  driver.expect_nothing();
  set_wait(out, handle, Operation::writable);
  EXPECT_EQ(driver.start(out), Submission::completed);
  fill(pair.ours);
  set_wait(out, handle, Operation::writable);
  EXPECT_EQ(driver.start(out), Submission::pending);
  EXPECT_EQ(::write(pair.peer, "x", 1), 1);
  ASSERT_TRUE(driver.run(in));
  EXPECT_FALSE(driver.is_done(out));
  read_all(pair.peer);
  ASSERT_TRUE(driver.run(out));
  char byte;
  EXPECT_EQ(::read(pair.ours, &byte, 1), 1) << "nothing was taken";
  ::close(pair.peer);
}

TEST_P(Messages, wait_for_both_end_with_the_first) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  Operation both;
  set_wait(both, handle, Operation::readable | Operation::writable);
  EXPECT_EQ(driver.start(both), Submission::completed) << "there is room";
  for (const bool by_input : {true, false}) {
    fill(pair.ours);
    set_wait(both, handle, Operation::readable | Operation::writable);
    EXPECT_EQ(driver.start(both), Submission::pending);
    driver.expect_nothing();
    if (by_input) {
      EXPECT_EQ(::write(pair.peer, "x", 1), 1);
    } else {
      read_all(pair.peer);
    }
    ASSERT_TRUE(driver.run(both)) << by_input;
    read_all(pair.ours);
    read_all(pair.peer);
  }
  ::close(pair.peer);
}

// The second start finds both of them ready; it may answer only its own.
TEST_P(Messages, two_that_wait_for_both) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  fill(pair.ours);
  Operation first;
  Operation second;
  set_wait(first, handle, Operation::readable | Operation::writable);
  EXPECT_EQ(driver.start(first), Submission::pending);
  read_all(pair.peer);
  set_wait(second, handle, Operation::readable | Operation::writable);
  EXPECT_EQ(driver.start(second), Submission::completed);
  ASSERT_TRUE(driver.run(first));
  ::close(pair.peer);
}

TEST_P(Messages, room_is_heard_of_behind_a_pending_read) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  fill(pair.ours);
  char buffer[4];
  Operation read;
  Operation both;
  set_read(read, handle, buffer);
  driver.start(read);
  set_wait(both, handle, Operation::readable | Operation::writable);
  EXPECT_EQ(driver.start(both), Submission::pending);
  read_all(pair.peer);
  ASSERT_TRUE(driver.run(both));
  EXPECT_FALSE(driver.is_done(read));
  EXPECT_EQ(driver.cancel(read), CancelAnswer::completed);
  ::close(pair.peer);
}

}  // namespace
}  // namespace baton::test
