// A pinned ring that is given up: operations in flight continue in an `any` ring, on any thread.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "driver.hpp"
#include "exercise.hpp"

namespace baton::test {
namespace {

TEST(Unpin, operations_in_flight_go_on_in_another_thread) {
  Driver driver{test::Setup{.form = Form::pinned, .ring_entries = 4}};
  std::vector<Pair> pairs;
  std::deque<Operation> reads;
  std::deque<std::array<char, 8>> buffers;
  Operation half;
  char eight[8];
  const Pair tcp = tcp_pair();
  Operation writes[3];
  const std::string much(std::size_t{8} << 20, 'm');
  Operation cancelled;
  char never[1];
  Operation prepared;
  const Pair late = stream_pair();
  const Pair silent = stream_pair();
  const Pair halves = stream_pair();
  Handle* const late_handle = driver.adopt(late.left, HandleKind::stream_socket);
  std::thread{[&] {
    // More than the ring has entries.
    for (int i = 0; i < 20; ++i) {
      pairs.push_back(stream_pair());
      set_read(reads.emplace_back(), driver.adopt(pairs.back().left, HandleKind::stream_socket),
               buffers.emplace_back());
      driver.start(reads.back());
    }
    set_read(half, driver.adopt(halves.left, HandleKind::stream_socket), eight, Operation::exactly);
    driver.start(half);
    write_all(halves.right, "half");
    Handle* const stream = driver.adopt(tcp.left, HandleKind::stream_socket);
    for (Operation& write : writes) {
      set_write(write, stream, ConstBuffer{much.data(), much.size()}, Operation::exactly);
      driver.start(write);
    }
    set_read(cancelled, driver.adopt(silent.left, HandleKind::stream_socket), never);
    driver.start(cancelled);
    driver.wait_once(Deadline::immediately());
    driver.wait_once(Deadline::immediately());
    driver.cancel(cancelled);
    set_read(prepared, late_handle, buffers.emplace_back());
    driver.submit(prepared);  // not in the kernel yet
    driver.engine().interrupt();
    ASSERT_TRUE(driver.unpin());
    driver.engine().flush();
  }}.join();
  EXPECT_EQ(driver.engine().info().leader_rule, LeaderRule::any);
  EXPECT_NE(driver.engine().descriptor(), invalid_handle);
  ASSERT_TRUE(driver.run_until(cancelled));
  EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
  write_all(halves.right, "done");
  ASSERT_TRUE(driver.run_until(half));
  EXPECT_EQ(std::string(eight, 8), "halfdone");
  for (std::size_t i = 0; i < reads.size(); ++i) {
    write_all(pairs[i].right, "x");
    ASSERT_TRUE(driver.run_until(reads[i]));
    EXPECT_EQ(*reads[i].result(), 1U);
  }
  write_all(late.right, "late");
  ASSERT_TRUE(driver.run_until(prepared));
  EXPECT_EQ(*prepared.result(), 4U);
  ::fcntl(tcp.right, F_SETFL, 0);
  std::thread reader{[&] {
    std::string all;
    char piece[65536];
    while (all.size() < 3 * much.size()) {
      const ssize_t count = ::read(tcp.right, piece, sizeof(piece));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      all.append(piece, static_cast<std::size_t>(count));
    }
    EXPECT_TRUE(all == much + much + much) << all.size();
  }};
  for (Operation& write : writes) {
    EXPECT_TRUE(driver.run_until(write));
    EXPECT_EQ(*write.result(), much.size());
  }
  reader.join();
  for (int i = 0; i < 3; ++i) {
    std::thread{[&] { driver.engine().interrupt(); }}.join();
    const Deadline end = at_last();
    driver.wait_once(end);
    EXPECT_TRUE(is_ahead(end)) << "the interrupt was lost";
    std::thread{[&] { exercise(driver); }}.join();
  }
  for (const Pair& pair : pairs) ::close(pair.right);
  for (const int fd : {tcp.right, late.right, silent.right, halves.right}) ::close(fd);
}

// Nanoseconds of the processor for giving up a ring with so many reads in it.
std::int64_t cost_of_unpin(std::size_t count) {
  Driver driver{Form::pinned};
  const Pair pair = datagram_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::datagram_socket);
  std::deque<Operation> reads(count);
  char byte[1];
  std::int64_t cost = 0;
  std::thread{[&] {
    for (Operation& read : reads) {
      read.prepare(OperationKind::read_datagram, handle);
      read.set_buffer(MutableBuffer{byte, 1});
      driver.start(read);
    }
    driver.wait_once(Deadline::immediately());
    timespec begin{};
    timespec end{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    EXPECT_TRUE(driver.unpin());
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    cost = (end.tv_sec - begin.tv_sec) * 1'000'000'000 + end.tv_nsec - begin.tv_nsec;
  }}.join();
  for (Operation& read : reads) driver.cancel(read);
  std::vector<Operation*> all;
  for (Operation& read : reads) all.push_back(&read);
  EXPECT_TRUE(driver.run_until(all));
  ::close(pair.right);
  return cost;
}

TEST(Unpin, takes_time_in_proportion_to_what_is_in_flight) {
  const std::int64_t few = std::min(cost_of_unpin(1'000), cost_of_unpin(1'000));
  const std::int64_t many = std::min(cost_of_unpin(8'000), cost_of_unpin(8'000));
  EXPECT_LT(many, 24 * few);
}

// The kernel answers with one number to a read that is cancelled and to one of a timer whose clock
// was set.
TEST(Unpin, no_timer_reports_a_clock_that_was_not_set) {
  Driver driver{Form::pinned};
  const int timer = ::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  itimerspec far{};
  far.it_value.tv_sec = 4'000'000'000;
  ASSERT_EQ(::timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, nullptr),
            0);
  std::array<char, 8> count;
  Operation read;
  set_read(read, driver.adopt(timer, HandleKind::pipe), count);
  std::thread{[&] {
    driver.start(read);
    driver.wait_once(Deadline::immediately());
    ASSERT_TRUE(driver.unpin());
    driver.engine().flush();
  }}.join();
  itimerspec soon{};
  soon.it_value.tv_nsec = 1;
  ASSERT_EQ(::timerfd_settime(timer, 0, &soon, nullptr), 0);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_FALSE(read.failed()) << read.error().message();
  EXPECT_EQ(read.bytes(), 8U);
}

TEST(Unpin, a_connect_goes_on_and_an_accept_too) {
  for (int i = 0; i < 5; ++i) {
    Driver driver{Form::pinned};
    Endpoint address;
    const int listening = listener(address);
    Operation accept;
    accept.prepare(OperationKind::accept, driver.adopt(listening, HandleKind::listener));
    Operation connect;
    std::thread{[&] {
      driver.start(accept);
      driver.wait_once(Deadline::immediately());
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      connect.prepare(OperationKind::connect, driver.adopt(fd, HandleKind::stream_socket));
      connect.set_endpoint(&address);
      driver.start(connect);
      ASSERT_TRUE(driver.unpin());
    }}.join();
    ASSERT_TRUE(driver.is_done(connect) || driver.run_until(connect));
    EXPECT_FALSE(connect.error());
    ASSERT_TRUE(driver.is_done(accept) || driver.run_until(accept));
    ASSERT_FALSE(accept.error());
    ::close(static_cast<int>(accept.bytes()));
  }
}

TEST(Unpin, is_refused_where_the_ring_shall_stay_pinned) {
  Driver driver{test::Setup{.form = Form::pinned, .profile = "pinned"}};
  EXPECT_FALSE(driver.unpin());
  EXPECT_EQ(driver.engine().info().leader_rule, LeaderRule::pinned);
  exercise(driver);
}

}  // namespace
}  // namespace baton::test
