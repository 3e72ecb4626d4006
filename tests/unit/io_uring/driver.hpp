// Opens the io_uring engine for an EngineDriver; requests and descriptors.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../support/engine_driver.hpp"
#include "baton/log.hpp"
#include "engines/io_uring/engine.hpp"
#include "os/system.hpp"

namespace baton::test {

/// How the engine is opened.
enum class Form { any, single, pinned };
std::ostream& operator<<(std::ostream& out, Form form);
std::string form_name(const testing::TestParamInfo<Form>& form);

struct Setup {
  Form form = Form::any;
  std::uint32_t ring_entries = 0;
  std::uint32_t completion_entries = 0;
  std::string interrupt = "auto";
  std::string profile = "auto";
  const os::System* system = nullptr;  ///< counting_system(), or one on top of it
  Log* log = nullptr;
};

/// A log that keeps its lines.
struct Lines final : Log {
  void write(LogLevel, std::string_view, std::string_view message) noexcept override {
    all.emplace_back(message);
  }
  std::vector<std::string> all;
};

/// The replacements that the engine reported.
struct Explained {
  std::vector<std::string> lines;
};

class Driver : private Explained, public EngineDriver {
 public:
  explicit Driver(Setup setup);
  explicit Driver(Form form) : Driver(Setup{.form = form}) {}

  [[nodiscard]] const std::vector<std::string>& explained() const { return lines; }

  /// Waits until all are complete; false when that does not happen.
  bool run_until(const Operation& operation) { return run(operation); }
  bool run_until(std::span<Operation* const> operations);
  /// Nothing is complete, and the next wait would sleep: the system calls are counted.
  void expect_quiet();
};

// -- requests -------------------------------------------------------------------------------------

void set_read(Operation& operation, Handle* handle, MutableBuffer buffer, std::uint16_t flags = 0);
void set_write(Operation& operation, Handle* handle, ConstBuffer buffer, std::uint16_t flags = 0);

// -- descriptors ----------------------------------------------------------------------------------

struct Pair {
  int left = -1;
  int right = -1;
};
/// Connected UNIX stream sockets, non-blocking.
Pair stream_pair();
/// The same over TCP on the loopback.
Pair tcp_pair();
Pair datagram_pair();
Pair pipe_pair(int flags);
/// A listener on the loopback, and its address.
int listener(Endpoint& address);

void write_all(int fd, std::string_view text);

}  // namespace baton::test
