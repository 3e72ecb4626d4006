// Accepts that are started again: how many system calls a connection costs, and what a start leaves
// to the next report.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <vector>

#include "driver.hpp"

namespace baton::test {
namespace {

class Accepts : public EveryForm {
 protected:
  ~Accepts() override {
    for (const int fd : clients) ::close(fd);
  }
  void connect(int count) {
    for (int i = 0; i < count; ++i) clients.push_back(client(address));
  }
  static void prepare(Operation& accept, Handle* handle) {
    accept.prepare(OperationKind::accept, handle);
  }
  /// Starts it again whenever it has a connection, until it has to wait. How many it has taken.
  int take_all(Operation& accept) {
    int taken = 0;
    for (;; ++taken) {
      EXPECT_FALSE(accept.failed());
      ::close(accept.accepted());
      prepare(accept, door);
      if (driver.start(accept) == Submission::pending) return taken;
    }
  }
  /// One connection, taken by the next wait.
  void take_one() {
    connect(1);
    ASSERT_TRUE(driver.run(accept));
    EXPECT_EQ(take_all(accept), 0);
  }
  Endpoint address;
  Handle* door = driver.adopt(listener(address), HandleKind::listener);
  std::vector<int> clients;
  Operation accept;
};
INSTANTIATE_TEST_SUITE_P(forms, Accepts, testing::ValuesIn(forms()), form_name);

/// The forms in which no start asks whether its descriptor is ready, as an edge-triggered one has
/// to.
std::vector<Form> forms_that_wait() {
  std::vector<Form> all = forms();
  std::erase_if(
      all, [](const Form& each) { return each.wait == "rt_signals" || each.wait == "fake_edge"; });
  return all;
}
class AcceptsByReport : public Accepts {};
INSTANTIATE_TEST_SUITE_P(forms, AcceptsByReport, testing::ValuesIn(forms_that_wait()), form_name);

// By one report it and 32 starts, and then the other descriptors have their turn.
TEST_P(AcceptsByReport, one_report_serves_many_waiting_connections) {
  prepare(accept, door);
  EXPECT_EQ(driver.start(accept), Submission::pending);
  connect(100);
  faults().clear();
  for (const int expected : {33, 33, 33, 1}) {
    EXPECT_EQ(driver.wait_once(), 1U);
    EXPECT_EQ(1 + take_all(accept), expected);
  }
  EXPECT_EQ(faults().count(Call::accept4), 100U + 1U) << "the last finds none";
  EXPECT_EQ(faults().count(Call::epoll_ctl), 0U);
  driver.expect_nothing();
  EXPECT_EQ(driver.cancel(accept), CancelAnswer::completed);
}

// A call in vain costs a quarter of what the connection costs.
TEST_P(AcceptsByReport, connections_one_by_one_cost_a_call_each) {
  prepare(accept, door);
  EXPECT_EQ(driver.start(accept), Submission::pending);
  take_one();  // and one call in vain
  faults().clear();
  for (int i = 0; i < 16; ++i) take_one();
  EXPECT_EQ(faults().count(Call::accept4), 16U);
  take_one();
  EXPECT_EQ(faults().count(Call::accept4), 18U) << "it is tried again now and then";
  EXPECT_EQ(driver.cancel(accept), CancelAnswer::completed);
}

// The program takes a pause with the connections at the door.
TEST_P(Accepts, a_later_start_takes_what_still_waits) {
  prepare(accept, door);
  EXPECT_EQ(driver.start(accept), Submission::pending);
  connect(3);
  ASSERT_TRUE(driver.run(accept));
  ::close(accept.accepted());
  driver.expect_nothing();
  prepare(accept, door);
  EXPECT_EQ(driver.start(accept), Submission::completed);
  EXPECT_EQ(take_all(accept), 1);
  driver.expect_nothing();
  connect(1);
  ASSERT_TRUE(driver.run(accept)) << "watched again";
  ::close(accept.accepted());
}

TEST_P(Accepts, a_start_tells_the_peer) {
  prepare(accept, door);
  EXPECT_EQ(driver.start(accept), Submission::pending);
  connect(2);
  ASSERT_TRUE(driver.run(accept));
  ::close(accept.accepted());
  Endpoint peer;
  prepare(accept, door);
  accept.set_endpoint(&peer);
  ASSERT_EQ(driver.start(accept), Submission::completed);
  Endpoint name;
  name.set_size(Endpoint::capacity);
  ASSERT_EQ(::getsockname(clients[1], static_cast<sockaddr*>(name.data()), name.size_pointer()), 0);
  EXPECT_EQ(peer, name);
  EXPECT_NE(::fcntl(accept.accepted(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(accept.accepted(), F_GETFD) & FD_CLOEXEC, 0);
  ::close(accept.accepted());
}

// The system may lack descriptors although no connection waits. Only a report begins a pause.
TEST_P(AcceptsByReport, a_shortage_in_a_start_is_left_to_the_report) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED, EINTR}) {
    Driver own{GetParam()};
    Handle* const other = own.adopt(listener(address), HandleKind::listener);
    prepare(accept, other);
    EXPECT_EQ(own.start(accept), Submission::pending);
    connect(1);
    ASSERT_TRUE(own.run(accept));
    ::close(accept.accepted());
    faults().fail(Call::accept4, error, 1);
    prepare(accept, other);
    EXPECT_EQ(own.start(accept), Submission::pending);
    EXPECT_EQ(own.engine().counters().accept_backoffs, 0U);
    own.expect_nothing();
    connect(1);
    EXPECT_EQ(own.wait_once(), 1U) << "it does not pause";
    EXPECT_FALSE(accept.failed());
    ::close(accept.accepted());
  }
}

// Any thread may start it, and another process may have taken the connection.
TEST_P(Accepts, a_start_does_not_call_a_blocking_listener) {
  const int fd = listener(address, false);
  Handle* const other = driver.borrow(fd, HandleKind::listener);
  prepare(accept, other);
  EXPECT_EQ(driver.start(accept), Submission::pending);
  connect(2);
  ASSERT_TRUE(driver.run(accept));
  ::close(accept.accepted());
  const int taken = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
  ASSERT_GE(taken, 0);
  prepare(accept, other);
  EXPECT_EQ(driver.start(accept), Submission::pending);  // would hang
  EXPECT_EQ(driver.cancel(accept), CancelAnswer::completed);
  driver.release(other);
  ::close(taken);
  ::close(fd);
}

TEST_P(Accepts, another_handle_with_the_same_place_begins_anew) {
  prepare(accept, door);
  EXPECT_EQ(driver.start(accept), Submission::pending);
  connect(1);
  ASSERT_TRUE(driver.run(accept));
  ::close(accept.accepted());
  const std::uint32_t index = door->index();
  driver.release(door);
  Handle* const next = driver.adopt(listener(address), HandleKind::listener);
  ASSERT_EQ(next->index(), index);
  faults().clear();
  prepare(accept, next);
  EXPECT_EQ(driver.start(accept), Submission::pending);
  EXPECT_EQ(faults().count(Call::accept4), 0U);
  EXPECT_EQ(driver.cancel(accept), CancelAnswer::completed);
}

}  // namespace
}  // namespace baton::test
