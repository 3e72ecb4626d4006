// Drives the emulated engine as a processor would, without one: attach, submit, wait, cancel.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/engine.hpp"
#include "core/handle_table.hpp"
#include "engines/emulated/emulated_engine.hpp"
#include "fault_system.hpp"

namespace baton::test {

/// Over which wait strategy, and whether threads share the engine.
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

class Driver {
 public:
  explicit Driver(const Form& form = {});
  /// Cancels what is still in the engine and waits for it; closes what was adopted.
  ~Driver();

  [[nodiscard]] engines::emulated::EmulatedEngine& engine() {
    return static_cast<engines::emulated::EmulatedEngine&>(*engine_);
  }

  /// A handle for `fd`, which the driver closes at the end; a borrowed one it leaves alone.
  Handle* adopt(int fd, HandleKind kind, Ownership ownership = Ownership::owned);
  Handle* borrow(int fd, HandleKind kind) { return adopt(fd, kind, Ownership::borrowed); }
  /// Detached, closed and forgotten.
  void release(Handle* handle);

  Submission start(Operation& operation);
  CancelAnswer cancel(Operation& operation);
  /// One wait; how many completed.
  std::size_t wait_once(Deadline deadline = Deadline::after(std::chrono::seconds{10}));
  /// Waits until it is complete; false after ten seconds.
  bool run(const Operation& operation);
  /// Starts and runs.
  bool complete(Operation& operation) { return start(operation), run(operation); }
  /// Looks once, without waiting: nothing is complete.
  void expect_nothing() { EXPECT_EQ(wait_once(Deadline::immediately()), 0U); }

  [[nodiscard]] bool is_done(const Operation& operation) const {
    return done_.count(&operation) != 0;
  }
  [[nodiscard]] const std::vector<const Operation*>& history() const { return history_; }

 private:
  void note(Operation& operation);

  std::unique_ptr<HandleTable> handles_;
  std::unique_ptr<Engine> engine_;
  std::vector<Handle*> adopted_;
  std::set<Operation*> in_engine_;
  std::set<const Operation*> done_;
  std::vector<const Operation*> history_;
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
void set_file(Operation& operation, OperationKind kind, Handle* handle, MutableBuffer buffer,
              std::uint64_t offset, std::uint16_t flags = 0);

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
int temporary_file(int flags = 0);

std::string read_all(int fd);
/// Until the socket takes no more; how much that was.
std::size_t fill(int fd);
std::string pattern(std::size_t size);

}  // namespace baton::test
