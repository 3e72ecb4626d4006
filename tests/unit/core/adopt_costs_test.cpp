// What it costs to adopt a descriptor: nothing is asked about what the library has opened itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "baton/acceptor.hpp"
#include "baton/connector.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/file.hpp"
#include "baton/pipe.hpp"
#include "baton/proactor.hpp"
#include "baton/stream_socket.hpp"
#include "os/system.hpp"

namespace baton {
namespace {

int flag_calls = 0;   // fcntl
int other_calls = 0;  // fstat, getsockopt

/// The real one, whose questions about descriptors are counted.
const os::System& counting_system() {
  static const os::System counting = [] {
    os::System system = os::real_system();
    system.fcntl = [](int fd, int command, long argument) {
      ++flag_calls;
      return os::real_system().fcntl(fd, command, argument);
    };
    system.fstat = [](int fd, struct stat* status) {
      ++other_calls;
      return os::real_system().fstat(fd, status);
    };
    system.getsockopt = [](int fd, int level, int name, void* value, socklen_t* size) {
      ++other_calls;
      return os::real_system().getsockopt(fd, level, name, value, size);
    };
    return system;
  }();
  return counting;
}

class AdoptCosts : public testing::Test {
 protected:
  AdoptCosts() : proactor(config()) { flag_calls = other_calls = 0; }
  static Config config() {
    Config config;
    config.system = &counting_system();
    config.processors.push_back({.engine = "emulated", .wait = "epoll"});
    return config;
  }
  Proactor proactor;
};

TEST_F(AdoptCosts, an_accepted_connection_is_not_asked) {
  Acceptor acceptor = Acceptor::listen(proactor, Endpoint::loopback(0)).value();
  Endpoint address = acceptor.local_endpoint().value();
  EXPECT_EQ(flag_calls + other_calls, 0) << "the listener neither";
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(client, static_cast<sockaddr*>(address.data()), address.size()), 0);
  Operation accept;
  ASSERT_FALSE(acceptor.accept(accept));
  ASSERT_TRUE(proactor.run_one());
  ASSERT_TRUE(acceptor.take(accept).has_value());
  EXPECT_EQ(flag_calls + other_calls, 0);
  ::close(client);
}

TEST_F(AdoptCosts, what_the_library_opens_is_not_asked) {
  Acceptor acceptor = Acceptor::listen(proactor, Endpoint::loopback(0)).value();
  Endpoint address = acceptor.local_endpoint().value();
  const auto sockets = StreamSocket::pair(proactor).value();
  const PipePair pipe = Pipe::create(proactor).value();
  const auto bound = DatagramSocket::bind(proactor, Endpoint::loopback(0)).value();
  const auto unbound = DatagramSocket::open(proactor, AddressFamily::ipv4).value();
  Operation connect;
  ASSERT_FALSE(Connector{proactor}.connect(connect, address));
  EXPECT_EQ(flag_calls, 0);
  EXPECT_EQ(other_calls, 0);
  while (connect.is_pending()) proactor.run_one();
  EXPECT_TRUE(Connector::take(proactor, connect).has_value());
}

// The open of a file takes O_NONBLOCK back, and looks for what it has opened.
TEST_F(AdoptCosts, a_file_costs_the_call_that_makes_it_blocking) {
  const File file = File::open(proactor, "/proc/self/exe", FileFlags::read).value();
  EXPECT_EQ(flag_calls, 1);
  EXPECT_FALSE(file.handle()->writable());
}

TEST_F(AdoptCosts, what_the_program_has_opened_is_asked) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  ASSERT_TRUE(StreamSocket::adopt(proactor, fds[0]).has_value());
  EXPECT_EQ(flag_calls, 3) << "asked, made non-blocking, and close-on-exec";
  EXPECT_EQ(other_calls, 1) << "it might listen";
  ::close(fds[1]);
}

// With wrong flags the caller breaks its promise; with these it says that the socket blocks.
TEST_F(AdoptCosts, an_opened_socket_that_blocks_is_made_non_blocking) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const auto handle = proactor.adopt_opened(fds[0], HandleKind::stream_socket, O_RDWR);
  ASSERT_TRUE(handle.has_value());
  EXPECT_TRUE((*handle)->nonblocking());
  EXPECT_NE(::fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(proactor.adopt_opened(fds[0], HandleKind::stream_socket, O_RDWR).error(),
            errc::already_adopted);
  proactor.close_detached(**handle);
  ::close(fds[1]);
}

}  // namespace
}  // namespace baton
