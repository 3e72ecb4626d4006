// Accept and connect: addresses, several at once, and every resource that can run short.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "baton/log.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

using Connections = EveryForm;
INSTANTIATE_TEST_SUITE_P(forms, Connections, testing::ValuesIn(forms()), form_name);

void set_accept(Operation& operation, Handle* handle, Endpoint* peer = nullptr) {
  operation.prepare(OperationKind::accept, handle);
  operation.set_endpoint(peer);
}

void set_connect(Operation& operation, Handle* handle, Endpoint& peer) {
  operation.prepare(OperationKind::connect, handle);
  operation.set_endpoint(&peer);
}

Endpoint name_of(int fd) {
  Endpoint name;
  name.set_size(Endpoint::capacity);
  EXPECT_EQ(::getsockname(fd, static_cast<sockaddr*>(name.data()), name.size_pointer()), 0);
  return name;
}

TEST_P(Connections, accept_reports_the_peer) {
  Endpoint address;
  Handle* const door = driver.adopt(listener(address), HandleKind::listener);
  Endpoint peer;
  Operation accept;
  set_accept(accept, door, &peer);
  EXPECT_EQ(driver.start(accept), Submission::pending);
  driver.expect_nothing();
  const int fd = client(address);
  ASSERT_TRUE(driver.run(accept));
  ASSERT_FALSE(accept.failed());
  EXPECT_EQ(peer, name_of(fd));
  EXPECT_NE(::fcntl(accept.accepted(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(accept.accepted(), F_GETFD) & FD_CLOEXEC, 0);
  ::close(accept.accepted());
  ::close(fd);
}

TEST_P(Connections, several_accepts_are_served_together) {
  Endpoint address;
  Handle* const door = driver.adopt(listener(address), HandleKind::listener);
  std::array<Operation, 5> accepts;
  for (Operation& accept : accepts) {
    set_accept(accept, door);
    driver.start(accept);
  }
  std::vector<int> fds;
  for (std::size_t i = 0; i < accepts.size(); ++i) fds.push_back(client(address));
  for (Operation& accept : accepts) {
    ASSERT_TRUE(driver.run(accept));
    ASSERT_FALSE(accept.failed());
    fds.push_back(accept.accepted());
  }
  for (const int fd : fds) ::close(fd);
}

TEST_P(Connections, connect_with_and_without_a_listener) {
  Endpoint address;
  const int door = listener(address);
  Handle* const handle = driver.adopt(tcp_socket(SOCK_NONBLOCK), HandleKind::stream_socket);
  Operation connect;
  set_connect(connect, handle, address);
  ASSERT_TRUE(driver.complete(connect));
  EXPECT_FALSE(connect.failed()) << connect.error().message();
  Operation write;
  set_write(write, handle, std::string_view{"x"});
  ASSERT_TRUE(driver.complete(write));
  EXPECT_FALSE(write.failed());
  ::close(door);

  Handle* const other = driver.adopt(tcp_socket(SOCK_NONBLOCK), HandleKind::stream_socket);
  set_connect(connect, other, address);
  ASSERT_TRUE(driver.complete(connect));
  EXPECT_EQ(connect.error(), std::errc::connection_refused);
}

// A report of "writable" must not be taken for a connection. Without a peer, without an error and
// with nothing in flight the connect has failed, and another call - of a read - got the error.
TEST_P(Connections, connect_succeeds_only_with_a_peer) {
  Endpoint address;
  const int door = listener(address);
  Handle* const handle = driver.adopt(tcp_socket(SOCK_NONBLOCK), HandleKind::stream_socket);
  Operation connect;
  set_connect(connect, handle, address);
  faults().fail(Call::connect, EINTR, 1);  // although no connect is in progress
  ASSERT_TRUE(driver.complete(connect));
  EXPECT_EQ(connect.error(), std::errc::connection_aborted);
  ::close(door);
}

// It is made between the first question and the second, and reset between the second and the third.
TEST_P(Connections, connect_that_was_reset_at_once_says_so) {
  Endpoint address;
  const int door = listener(address);
  Handle* const handle = driver.adopt(tcp_socket(SOCK_NONBLOCK), HandleKind::stream_socket);
  Operation connect;
  set_connect(connect, handle, address);
  faults().fail(Call::connect, EINTR, 1);  // although no connect is in progress
  faults().fail(Call::getsockopt, ECONNRESET, 1, 2);
  ASSERT_TRUE(driver.complete(connect));
  EXPECT_EQ(connect.error(), std::errc::connection_reset);
  ::close(door);
}

TEST_P(Connections, connect_on_a_blocking_socket_is_a_workers) {
  Endpoint address;
  const int door = listener(address);
  const int fd = tcp_socket();
  Handle* const handle = driver.borrow(fd, HandleKind::stream_socket);
  Operation connect;
  set_connect(connect, handle, address);
  ASSERT_TRUE(driver.complete(connect));
  EXPECT_FALSE(connect.failed());
  EXPECT_EQ(driver.engine().worker_threads(), 1U);
  EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  driver.release(handle);
  ::close(fd);
  ::close(door);
}

// The time of its call is up, and readiness tells the rest.
TEST_P(Connections, connect_by_a_worker_goes_on_without_the_worker) {
  Endpoint address;
  const int door = listener(address);
  const int fd = tcp_socket();
  Handle* const handle = driver.borrow(fd, HandleKind::stream_socket);
  Operation connect;
  set_connect(connect, handle, address);
  faults().fail(Call::connect, EINPROGRESS, 1);
  EXPECT_EQ(driver.start(connect), Submission::pending);
  ASSERT_EQ(::connect(fd, static_cast<sockaddr*>(address.data()), address.size()), 0);
  ASSERT_TRUE(driver.run(connect));
  EXPECT_FALSE(connect.failed()) << connect.error().message();
  // Another connect has not begun that one.
  set_connect(connect, handle, address);
  ASSERT_TRUE(driver.complete(connect));
  EXPECT_EQ(connect.error(), std::errc::already_connected);
  driver.release(handle);
  ::close(fd);
  ::close(door);
}

// -- UNIX: a full backlog -------------------------------------------------------------------------

class FullBacklog {
 public:
  FullBacklog() {
    name_ = "@baton-test-" + std::to_string(::getpid());
    address_ = Endpoint::unix_path(name_).value();
    door_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(door_, static_cast<sockaddr*>(address_.data()), address_.size()), 0);
    EXPECT_EQ(::listen(door_, 0), 0);
    for (;;) {
      const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      waiting_.push_back(fd);
      if (::connect(fd, static_cast<sockaddr*>(address_.data()), address_.size()) != 0) break;
    }
  }
  ~FullBacklog() {
    ::close(door_);
    for (const int fd : waiting_) ::close(fd);
  }
  void accept_all() {
    for (int fd = 0; (fd = ::accept4(door_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) ::close(fd);
  }
  Endpoint& address() { return address_; }

 private:
  std::string name_;
  Endpoint address_;
  int door_ = -1;
  std::vector<int> waiting_;
};

/// A connect of a borrowed socket in blocking mode.
class BlockingConnect {
 public:
  BlockingConnect(Driver& driver, Endpoint& address) : driver_(driver) {
    set_connect(connect, handle_, address);
  }
  ~BlockingConnect() {
    driver_.release(handle_);
    ::close(fd_);
  }
  Operation connect;

 private:
  Driver& driver_;
  const int fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Handle* const handle_ = driver_.borrow(fd_, HandleKind::stream_socket);
};

TEST_P(Connections, a_full_backlog_is_waited_for_without_spinning) {
  FullBacklog full;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  Handle* const handle = driver.adopt(fd, HandleKind::stream_socket);
  Operation connect;
  set_connect(connect, handle, full.address());
  EXPECT_EQ(driver.start(connect), Submission::pending);
  EXPECT_EQ(driver.wait_once(Deadline::after(std::chrono::milliseconds{200})), 0U);
  EXPECT_LE(faults().count(Call::connect), 8U);
  full.accept_all();
  ASSERT_TRUE(driver.run(connect));
  EXPECT_FALSE(connect.failed()) << connect.error().message();
}

// A signal such as SIGCONT interrupts a bounded call, even a worker's.
TEST_P(Connections, interrupted_connect_to_a_unix_socket_is_tried_again) {
  FullBacklog full;
  full.accept_all();
  BlockingConnect blocking{driver, full.address()};
  Operation& connect = blocking.connect;
  faults().fail(Call::connect, EINTR, 1);
  ASSERT_TRUE(driver.complete(connect));
  EXPECT_FALSE(connect.failed()) << connect.error().message();
}

TEST_P(Connections, a_worker_tries_a_full_backlog_again) {
  FullBacklog full;
  BlockingConnect blocking{driver, full.address()};
  Operation& connect = blocking.connect;
  EXPECT_EQ(driver.start(connect), Submission::pending);
  while (faults().count(Call::connect) < 3) driver.wait_once();
  full.accept_all();
  ASSERT_TRUE(driver.run(connect));
  EXPECT_FALSE(connect.failed()) << connect.error().message();
}

TEST_P(Connections, connect_is_cancelled_while_a_worker_has_it) {
  FullBacklog full;
  BlockingConnect blocking{driver, full.address()};
  Operation& connect = blocking.connect;
  faults().close_gate();
  EXPECT_EQ(driver.start(connect), Submission::pending);
  faults().until_at_gate(1);
  EXPECT_EQ(driver.cancel(connect), CancelAnswer::requested);
  faults().open_gate();
  ASSERT_TRUE(driver.run(connect));
  EXPECT_EQ(connect.error(), std::errc::operation_canceled);
}

TEST_P(Connections, a_back_off_is_not_inherited_by_the_next_connect) {
  FullBacklog full;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  Handle* const handle = driver.adopt(fd, HandleKind::stream_socket);
  Operation connect;
  set_connect(connect, handle, full.address());
  EXPECT_EQ(driver.start(connect), Submission::pending);
  EXPECT_EQ(driver.cancel(connect), CancelAnswer::completed);
  EXPECT_EQ(connect.error(), std::errc::operation_canceled);
  full.accept_all();
  set_connect(connect, handle, full.address());
  EXPECT_EQ(driver.start(connect), Submission::completed);
  EXPECT_FALSE(connect.failed());
}

// -- shortage -------------------------------------------------------------------------------------

struct Lines final : Log {
  void write(LogLevel, std::string_view, std::string_view message) noexcept override {
    lines.emplace_back(message);
  }
  std::vector<std::string> lines;
};

TEST_P(Connections, accept_outlives_every_shortage) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    Lines log;
    Form form = GetParam();
    form.log = &log;
    Driver own{form};
    Endpoint address;
    Handle* const door = own.adopt(listener(address), HandleKind::listener);
    Operation accept;
    set_accept(accept, door);
    own.start(accept);
    own.expect_nothing();
    const int first = client(address);
    const int second = client(address);
    faults().fail(Call::accept4, error, 1);
    own.wait_once();
    EXPECT_FALSE(own.is_done(accept));
    EXPECT_EQ(own.engine().counters().accept_backoffs, 1U);
    ASSERT_EQ(log.lines.size(), 1U);
    EXPECT_NE(log.lines[0].find(std::system_category().message(error)), std::string::npos);
    const std::uint64_t calls = faults().count(Call::accept4);
    ASSERT_TRUE(own.run(accept));
    EXPECT_FALSE(accept.failed());
    EXPECT_EQ(faults().count(Call::accept4), calls + 1);
    ::close(accept.accepted());
    ::close(first);
    ::close(second);
  }
}

TEST_P(Connections, a_client_that_cannot_be_accepted_sees_the_end) {
  Endpoint address;
  Handle* const door = driver.adopt(listener(address), HandleKind::listener);
  Operation accept;
  set_accept(accept, door);
  driver.start(accept);
  const int fd = client(address);
  faults().fail(Call::accept4, EMFILE, 1);
  driver.wait_once();
  char end;
  EXPECT_LE(::recv(fd, &end, 1, 0), 0) << "closed, by means of the spare descriptor";
  ::close(fd);
  EXPECT_EQ(driver.cancel(accept), CancelAnswer::completed) << "also while it rests";
}

TEST_P(Connections, all_clients_that_cannot_be_accepted_see_the_end) {
  Endpoint address;
  Handle* const door = driver.adopt(listener(address), HandleKind::listener);
  Operation accept;
  set_accept(accept, door);
  driver.start(accept);
  const std::array<int, 2> fds{client(address), client(address)};
  for (const int fd : fds) {
    const std::uint64_t calls = faults().count(Call::accept4);
    faults().fail(Call::accept4, EMFILE, 1);
    driver.wait_once();
    ASSERT_EQ(faults().count(Call::accept4), calls + 2) << "one without, one with the spare";
    char end;
    EXPECT_LE(::recv(fd, &end, 1, 0), 0);
    ::close(fd);
  }
  EXPECT_EQ(driver.cancel(accept), CancelAnswer::completed);
}

TEST_P(Connections, a_lasting_shortage_costs_nothing) {
  Endpoint address;
  Handle* const door = driver.adopt(listener(address), HandleKind::listener);
  Operation accept;
  set_accept(accept, door);
  driver.start(accept);
  const int fd = client(address);
  faults().fail(Call::accept4, ENOBUFS, 1'000'000);
  const Deadline end = Deadline::after(std::chrono::milliseconds{500});
  int waits = 0;
  for (; Deadline::at(std::chrono::steady_clock::now()) < end; ++waits) driver.wait_once(end);
  EXPECT_LE(waits, 20);
  EXPECT_LE(faults().count(Call::accept4), 10U);
  EXPECT_FALSE(driver.engine().due().is_never()) << "a merged wait must look by then";
  faults().clear();
  ASSERT_TRUE(driver.run(accept));
  ::close(accept.accepted());
  ::close(fd);
}

TEST_P(Connections, a_connection_that_died_is_passed_over) {
  for (const int error : {ECONNABORTED, EPROTO, ENETDOWN, EHOSTUNREACH, EPERM}) {
    Endpoint address;
    Handle* const door = driver.adopt(listener(address), HandleKind::listener);
    Operation accept;
    set_accept(accept, door);
    driver.start(accept);
    const int fd = client(address);
    faults().fail(Call::accept4, error, 3);
    ASSERT_TRUE(driver.run(accept));
    EXPECT_FALSE(accept.failed());
    ::close(accept.accepted());
    ::close(fd);
  }
  // A deadline of "never" is not over at once.
  EXPECT_EQ(driver.engine().counters().accept_backoffs, 0U);
  Endpoint address;
  Handle* const door = driver.adopt(listener(address), HandleKind::listener);
  Operation accept;
  set_accept(accept, door);
  driver.start(accept);
  const int fd = client(address);
  faults().fail(Call::accept4, ECONNABORTED, 20);
  driver.wait_once();
  EXPECT_EQ(driver.engine().counters().accept_backoffs, 1U);
  ASSERT_TRUE(driver.run(accept));
  ::close(accept.accepted());
  ::close(fd);
}

TEST_P(Connections, a_broken_listener_ends_the_accept) {
  Endpoint address;
  Handle* const door = driver.adopt(listener(address), HandleKind::listener);
  for (const int error : {EBADF, EINVAL, ENOTSOCK, EOPNOTSUPP}) {
    Operation accept;
    set_accept(accept, door);
    driver.start(accept);
    const int fd = client(address);
    faults().fail(Call::accept4, error, 1);
    ASSERT_TRUE(driver.run(accept));
    EXPECT_EQ(accept.error().value(), error);
    ::close(fd);
    const int left = ::accept4(door->native(), nullptr, nullptr, SOCK_CLOEXEC);
    ::close(left);
  }
  EXPECT_EQ(driver.engine().counters().accept_backoffs, 0U);
}

// Another process may take a connection between two calls.
TEST_P(Connections, a_blocking_listener_is_looked_at_before_each_accept) {
  Endpoint address;
  const int fd = listener(address, false);
  Handle* const door = driver.borrow(fd, HandleKind::listener);
  Operation accept;
  set_accept(accept, door);
  driver.start(accept);
  const int peer = client(address);
  faults().clear();
  faults().fail(Call::accept4, ECONNABORTED, 3);
  ASSERT_TRUE(driver.run(accept));
  EXPECT_EQ(faults().count(Call::accept4), 4U);
  EXPECT_GE(faults().count(Call::ppoll), 4U);
  ::close(accept.accepted());
  ::close(peer);
  driver.release(door);
  ::close(fd);
}

TEST_P(Connections, a_blocking_listener_blocks_no_other_operation) {
  Endpoint address;
  const int fd = listener(address, false);
  Handle* const door = driver.borrow(fd, HandleKind::listener);
  Operation first;
  Operation second;
  set_accept(first, door);
  set_accept(second, door);
  driver.start(first);
  driver.start(second);
  const int peer = client(address);
  ASSERT_TRUE(driver.run(first));
  driver.expect_nothing();  // would hang in accept
  EXPECT_EQ(driver.cancel(second), CancelAnswer::completed);
  ::close(first.accepted());
  ::close(peer);
  driver.release(door);
  ::close(fd);
}

}  // namespace
}  // namespace baton::test
