#include "driver.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "../../support/counting_system.hpp"

namespace baton::test {

std::ostream& operator<<(std::ostream& out, Form form) {
  constexpr const char* names[] = {"any", "single", "pinned"};
  return out << names[static_cast<int>(form)];
}

std::string form_name(const testing::TestParamInfo<Form>& form) {
  return testing::PrintToString(form.param);
}

namespace {

const os::System& system_of(const Setup& setup) {
  return setup.system != nullptr ? *setup.system : counting_system();
}

Result<std::unique_ptr<Engine>, Failure> open_engine(const Setup& setup,
                                                     std::vector<std::string>& explained) {
  ProcessorConfig config;
  config.ring_entries = setup.ring_entries;
  config.completion_entries = setup.completion_entries;
  config.interrupt = setup.interrupt;
  config.profile = setup.profile;
  EngineOptions options;
  options.system = &system_of(setup);
  options.log = setup.log;
  options.config = &config;
  options.concurrent = setup.form == Form::any;
  options.pinned_ok = setup.form == Form::pinned;
  options.explain = [&explained](std::string_view line) { explained.emplace_back(line); };
  return engines::open_io_uring(options);
}

}  // namespace

Driver::Driver(Setup setup) : EngineDriver(open_engine(setup, lines), system_of(setup)) {}

bool Driver::run_until(std::span<Operation* const> operations) {
  for (const Operation* operation : operations) {
    if (!run(*operation)) return false;
  }
  return true;
}

void Driver::expect_quiet() {
  const Sleepless sleepless;
  // A wait may end early: a ring that is destroyed interrupts its threads later.
  for (int i = 0; i < 100 && sleepless.sleeps() == 0; ++i) {
    EXPECT_EQ(wait_once(), 0U);
  }
  EXPECT_GT(sleepless.sleeps(), 0U) << "the engine wakes up for nothing";
}

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
  return {ends[0], ends[1]};
}

int listener(Endpoint& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
  EXPECT_EQ(::listen(fd, 1024), 0);
  address.set_size(Endpoint::capacity);
  EXPECT_EQ(::getsockname(fd, static_cast<sockaddr*>(address.data()), address.size_pointer()), 0);
  return fd;
}

Pair tcp_pair() {
  Endpoint address;
  const int door = listener(address);
  const int left = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(left, static_cast<sockaddr*>(address.data()), address.size()), 0);
  ::fcntl(left, F_SETFL, O_NONBLOCK);
  int right = -1;
  while (right < 0) right = ::accept4(door, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  const int on = 1;
  ::setsockopt(left, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(right, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::close(door);
  return {left, right};
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    ASSERT_GT(written, 0) << std::strerror(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace baton::test
