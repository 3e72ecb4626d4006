// Costs in system calls: exact numbers on epoll.
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "driver.hpp"
#include "engines/emulated/record.hpp"

namespace baton::test {
namespace {

class Costs : public OneForm {
 protected:
  Costs() {
    pair = stream_pair();
    handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  }
  ~Costs() override { ::close(pair.peer); }
  void peer_sends() const { EXPECT_EQ(::send(pair.peer, "ping", 4, 0), 4); }
  /// One message there and back.
  void echo() {
    set_read(read, handle, buffer);
    EXPECT_EQ(driver.start(read), Submission::pending);
    peer_sends();
    ASSERT_TRUE(driver.run(read));
    set_write(write, handle, ConstBuffer{buffer, read.bytes()}, Operation::exactly);
    EXPECT_EQ(driver.start(write), Submission::completed);
  }
  Pair pair;
  Handle* handle;
  char buffer[512];
  Operation read;
  Operation write;
};

TEST_F(Costs, an_echo_is_a_wait_a_receive_and_a_send) {
  echo();  // the first registers
  EXPECT_EQ(faults().count(Call::epoll_ctl), 1U);
  faults().clear();
  for (int i = 0; i < 100; ++i) echo();
  EXPECT_EQ(faults().count(Call::wait), 100U);
  EXPECT_EQ(faults().count(Call::recv), 100U);
  EXPECT_EQ(faults().count(Call::send), 100U);
  EXPECT_EQ(faults().all(), 300U);
}

TEST_F(Costs, one_wait_serves_many_connections) {
  constexpr std::size_t count = 50;
  std::vector<Pair> pairs(count);
  std::vector<Operation> reads(count);
  std::vector<Handle*> handles;
  for (Pair& each : pairs) {
    each = stream_pair();
    handles.push_back(driver.adopt(each.ours, HandleKind::stream_socket));
  }
  char shared[8];
  for (int round = 0; round < 2; ++round) {
    faults().clear();
    for (std::size_t i = 0; i < count; ++i) {
      set_read(reads[i], handles[i], shared);
      driver.start(reads[i]);
    }
    for (const Pair& each : pairs) EXPECT_EQ(::send(each.peer, "x", 1, 0), 1);
    EXPECT_EQ(driver.wait_once(), count);
    EXPECT_EQ(faults().count(Call::wait), 1U);
    EXPECT_EQ(faults().count(Call::recv), count);
    EXPECT_EQ(faults().count(Call::epoll_ctl), round == 0 ? count : 0U);
  }
  for (const Pair& each : pairs) ::close(each.peer);
}

TEST_F(Costs, interest_is_dropped_when_a_report_finds_no_operation) {
  echo();
  faults().clear();
  driver.expect_nothing();
  EXPECT_EQ(faults().count(Call::epoll_ctl), 0U) << "the registration stands";
  peer_sends();
  driver.expect_nothing();
  EXPECT_EQ(faults().count(Call::epoll_ctl), 1U);
  driver.expect_nothing();
  EXPECT_EQ(faults().count(Call::epoll_ctl), 1U);
  set_read(read, handle, buffer);
  driver.start(read);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(faults().count(Call::epoll_ctl), 2U);
  EXPECT_EQ(faults().count(Call::recv), 1U);
}

TEST_F(Costs, an_echo_over_a_borrowed_descriptor_is_one_call_more) {
  const Pair other = stream_pair();
  Handle* const borrowed = driver.borrow(other.ours, HandleKind::stream_socket);
  for (int i = 0; i < 10; ++i) {
    faults().clear();
    set_read(read, borrowed, buffer);
    EXPECT_EQ(driver.start(read), Submission::pending);
    EXPECT_EQ(faults().count(Call::epoll_ctl), 1U);
    EXPECT_EQ(::send(other.peer, "x", 1, 0), 1);
    ASSERT_TRUE(driver.run(read));
    set_write(write, borrowed, ConstBuffer{buffer, read.bytes()}, Operation::exactly);
    EXPECT_EQ(driver.start(write), Submission::completed);
    EXPECT_EQ(faults().all(), 4U) << "it is watched, and a wait, a receive and a send";
  }
  faults().clear();
  driver.release(borrowed);
  EXPECT_EQ(faults().count(Call::epoll_ctl), 1U) << "nothing is left in the set";
  ::close(other.ours);
  ::close(other.peer);
}

TEST_F(Costs, a_stream_of_writes_under_pressure_registers_once) {
  fill(pair.ours);
  faults().clear();
  const std::string block(4096, 'x');
  for (int i = 0; i < 20; ++i) {
    set_write(write, handle, std::string_view{block}, Operation::exactly);
    if (driver.start(write) == Submission::pending) {
      read_all(pair.peer);
      ASSERT_TRUE(driver.run(write));
      fill(pair.ours);
    }
  }
  EXPECT_EQ(faults().count(Call::epoll_ctl), 1U);
}

TEST_F(Costs, an_idle_handle_is_small) {
  EXPECT_LE(sizeof(engines::emulated::Record), 96U);
  EXPECT_LE(sizeof(engines::emulated::Progress), 32U);
}

TEST_F(Costs, one_thread_until_a_file_needs_another) {
  for (int i = 0; i < 10; ++i) echo();
  EXPECT_EQ(faults().count(Call::thread_start), 0U);
  faults().cold(true);
  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  Operation on_file;
  for (int i = 0; i < 10; ++i) {
    set_file(on_file, OperationKind::write_file, file, MutableBuffer{buffer, 8}, 0);
    ASSERT_TRUE(driver.complete(on_file));
  }
  EXPECT_EQ(faults().count(Call::thread_start), 1U) << "a free worker is used again";
}

}  // namespace
}  // namespace baton::test
