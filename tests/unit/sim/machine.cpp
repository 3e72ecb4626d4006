// The simulated machine of these tests.
#include "machine.hpp"

#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <ostream>

namespace baton::sim::test {

void PrintTo(const Answer& answer, std::ostream* out) {
  *out << answer.result;
  if (answer.result < 0) *out << " (" << std::strerror(answer.error) << ")";
}

void in_machine(const Faults& faults, const std::function<void(const os::System&)>& scenario) {
  World world;
  const Outcome outcome = world.run(1, {.faults = false}, [&](World& here) {
    here.kernel().begin(faults);
    scenario(system());
  });
  EXPECT_TRUE(outcome.ok()) << outcome.report();
}

sockaddr_in address_of(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return address;
}

int stream_socket(const os::System& system) {
  return system.socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
}

int listener_at(const os::System& system, std::uint16_t port, int backlog) {
  const int fd = stream_socket(system);
  const sockaddr_in address = address_of(port);
  EXPECT_EQ(system.bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(system.listen(fd, backlog), 0);
  return fd;
}

Answer connect_to(const os::System& system, int fd, std::uint16_t port) {
  const sockaddr_in address = address_of(port);
  return answer_of(
      system.connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
}

Answer accept_from(const os::System& system, int fd) {
  return answer_of(system.accept4(fd, nullptr, nullptr, SOCK_NONBLOCK));
}

int error_of(const os::System& system, int fd) {
  int error = -1;
  socklen_t size = sizeof(error);
  EXPECT_EQ(system.getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
  return error;
}

void sleep_for(const os::System& system, std::int64_t span_ns) {
  std::atomic<std::uint32_t> word{0};
  const std::int64_t end = system.monotonic_ns() + span_ns;
  while (system.futex_wait(&word, 0, end)) {
  }
}

Connection connection_at(const os::System& system, std::uint16_t port) {
  Connection made;
  made.listener = listener_at(system, port);
  made.client = stream_socket(system);
  EXPECT_EQ(connect_to(system, made.client, port), failed(EINPROGRESS));
  sleep_for(system, 1'000'000);
  EXPECT_EQ(error_of(system, made.client), 0);
  made.server = static_cast<int>(accept_from(system, made.listener).result);
  EXPECT_GE(made.server, 0);
  return made;
}

}  // namespace baton::sim::test
