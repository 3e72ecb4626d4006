#include "driver.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "../demux/fake_strategies.hpp"
#include "engines/emulated/engine.hpp"

namespace baton::test {

std::ostream& operator<<(std::ostream& out, const Form& form) {
  return out << form.wait << (form.concurrent ? "" : "_single");
}

std::string form_name(const testing::TestParamInfo<Form>& form) {
  return testing::PrintToString(form.param);
}

std::vector<Form> forms() {
  return {{.wait = "epoll"},      {.wait = "epoll", .concurrent = false},
          {.wait = "poll"},       {.wait = "select"},
          {.wait = "rt_signals"}, {.wait = "rt_signals", .concurrent = false},
          {.wait = "fake_edge"},  {.wait = "fake_one_shot"}};
}

namespace {

Result<std::unique_ptr<Engine>, Failure> open_engine(const Form& form) {
  add_fake_strategies();
  ProcessorConfig config;
  config.wait = form.wait;
  config.workers = form.workers;
  EngineOptions options;
  options.system = &fault_system();
  options.log = form.log;
  options.config = &config;
  options.concurrent = form.concurrent;
  options.one_thread_waits = true;
  return engines::open_emulated(options);
}

}  // namespace

Driver::Driver(const Form& form) : EngineDriver(open_engine(form), fault_system()) {}

void set_read(Operation& operation, Handle* handle, MutableBuffer buffer, std::uint16_t flags) {
  operation.prepare(OperationKind::read_stream, handle, flags);
  operation.set_buffer(buffer);
}

void set_write(Operation& operation, Handle* handle, ConstBuffer buffer, std::uint16_t flags) {
  operation.prepare(OperationKind::write_stream, handle, flags);
  operation.set_buffer(buffer);
}

Pair stream_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {ends[0], ends[1]};
}

Pair datagram_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {ends[0], ends[1]};
}

Pair pipe_pair(int flags) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC | flags), 0);
  return {ends[1], ends[0]};
}

int tcp_socket(int flags) { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }

int listener(Endpoint& address, bool nonblocking) {
  const int fd = tcp_socket(nonblocking ? SOCK_NONBLOCK : 0);
  address = Endpoint::loopback(0);
  EXPECT_EQ(::bind(fd, static_cast<sockaddr*>(address.data()), address.size()), 0);
  EXPECT_EQ(::listen(fd, 1024), 0);
  address.set_size(Endpoint::capacity);
  EXPECT_EQ(::getsockname(fd, static_cast<sockaddr*>(address.data()), address.size_pointer()), 0);
  return fd;
}

int client(const Endpoint& address) {
  const int fd = tcp_socket();
  EXPECT_EQ(::connect(fd, static_cast<const sockaddr*>(address.data()), address.size()), 0);
  return fd;
}

std::size_t fill(int fd) {
  const std::string block(4096, '.');
  std::size_t total = 0;
  for (;;) {
    const ssize_t put = ::send(fd, block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put <= 0) return total;
    total += static_cast<std::size_t>(put);
  }
}

}  // namespace baton::test
