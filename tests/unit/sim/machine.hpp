// A simulated machine with only those faults that a test asks for, and shorthands for its tests.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string_view>

#include "os/system.hpp"
#include "sim/world.hpp"

namespace baton::sim::test {

/// A chance of all cases.
inline constexpr std::uint32_t always = 65'536;

/// The result of a call, with its errno if that is a failure.
struct Answer {
  std::int64_t result;
  int error;
  bool operator==(const Answer&) const = default;
};
void PrintTo(const Answer& answer, std::ostream* out);
template <class Result>
Answer answer_of(Result result) {
  return {static_cast<std::int64_t>(result), result < 0 ? errno : 0};
}
inline Answer failed(int error) { return {-1, error}; }
inline Answer gave(std::int64_t result) { return {result, 0}; }

/// Runs the scenario in a machine with these faults, and demands that it breaks no promise.
void in_machine(const Faults& faults, const std::function<void(const os::System&)>& scenario);
inline void in_machine(const std::function<void(const os::System&)>& scenario) {
  in_machine(Faults::none(), scenario);
}

sockaddr_in address_of(std::uint16_t port);
int listener_at(const os::System& system, std::uint16_t port, int backlog = 8);
int stream_socket(const os::System& system);
Answer connect_to(const os::System& system, int fd, std::uint16_t port);
Answer accept_from(const os::System& system, int fd);
/// The value of SO_ERROR.
int error_of(const os::System& system, int fd);
/// Time passes.
void sleep_for(const os::System& system, std::int64_t span_ns);

/// Both ends of a connection over a listener.
struct Connection {
  int listener = -1;
  int client = -1;
  int server = -1;
};
Connection connection_at(const os::System& system, std::uint16_t port);

inline Answer send_text(const os::System& system, int fd, std::string_view text) {
  return answer_of(system.send(fd, text.data(), text.size(), 0));
}
inline Answer receive(const os::System& system, int fd, std::size_t size = 64) {
  char buffer[64];
  return answer_of(system.recv(fd, buffer, size, 0));
}

}  // namespace baton::sim::test
