// Opens the emulated engine for an EngineDriver; requests and descriptors.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "../support/engine_driver.hpp"
#include "engines/emulated/emulated_engine.hpp"
#include "fault_system.hpp"

namespace baton::test {

/// The wait strategy, and whether threads share the engine.
struct Form {
  std::string wait = "epoll";
  bool concurrent = true;
  std::uint32_t workers = 0;
  Log* log = nullptr;
};
std::ostream& operator<<(std::ostream& out, const Form& form);
std::string form_name(const testing::TestParamInfo<Form>& form);
/// Every built-in strategy, an edge-triggered and a one-shot one, and epoll without locks.
std::vector<Form> forms();

class Driver : public EngineDriver {
 public:
  explicit Driver(const Form& form = {});
  ~Driver() { faults().clear(); }

  [[nodiscard]] engines::emulated::EmulatedEngine& engine() {
    return static_cast<engines::emulated::EmulatedEngine&>(EngineDriver::engine());
  }
};

/// A test of every form.
class EveryForm : public testing::TestWithParam<Form> {
 protected:
  EveryForm() { faults().clear(); }
  Driver driver{GetParam()};
};
/// A test of one.
class OneForm : public testing::Test {
 protected:
  OneForm() { faults().clear(); }
  Driver driver;
};

// -- requests -------------------------------------------------------------------------------------

void set_read(Operation& operation, Handle* handle, MutableBuffer buffer, std::uint16_t flags = 0);
void set_write(Operation& operation, Handle* handle, ConstBuffer buffer, std::uint16_t flags = 0);

// -- descriptors ----------------------------------------------------------------------------------

struct Pair {
  int ours = -1;
  int peer = -1;
};
Pair stream_pair();  // UNIX stream sockets, non-blocking
Pair datagram_pair();
Pair pipe_pair(int flags);  // ours is written, peer is read
int tcp_socket(int flags = 0);
/// A listener on the loopback, and its address.
int listener(Endpoint& address, bool nonblocking = true);
/// A blocking connection to it.
int client(const Endpoint& address);

/// Writes until the socket takes no more; returns the number of bytes.
std::size_t fill(int fd);

}  // namespace baton::test
