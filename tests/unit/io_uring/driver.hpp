// Drives the engine as a processor would, without one: attach, submit, wait, cancel.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baton/engine.hpp"
#include "core/handle_table.hpp"
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
  const os::System* system = nullptr;
};

class Driver {
 public:
  explicit Driver(Setup setup);
  explicit Driver(Form form) : Driver(Setup{.form = form}) {}
  /// Waits for everything that is still in the engine, cancelled.
  ~Driver();

  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const std::vector<std::string>& explained() const { return explained_; }

  /// A handle for `fd`; the driver closes it at the end.
  Handle* adopt(int fd, HandleKind kind, Ownership ownership = Ownership::owned);
  /// The same, of a descriptor that somebody else closes.
  Handle* borrow(int fd, HandleKind kind);

  /// Submits, and flushes as a thread would that does not wait next.
  Submission start(Operation& operation);
  /// Submits only.
  Submission submit(Operation& operation);
  CancelAnswer cancel(Operation& operation);

  /// One wait; how many completed.
  std::size_t wait_once(Deadline deadline);
  /// Waits until it is complete; false after `patience`.
  bool run_until(const Operation& operation, Duration patience = std::chrono::seconds{10});
  bool run_until(std::span<Operation* const> operations,
                 Duration patience = std::chrono::seconds{10});
  /// Nothing may complete for a while (there is no event for "nothing").
  void expect_quiet(Duration span = std::chrono::milliseconds{20});

  [[nodiscard]] bool is_done(const Operation& operation) const {
    return done_.count(const_cast<Operation*>(&operation)) != 0;
  }
  /// In the order of completion.
  [[nodiscard]] const std::vector<const Operation*>& history() const { return history_; }
  void forget();

 private:
  void note(Operation& operation);

  std::unique_ptr<HandleTable> handles_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::string> explained_;
  std::vector<std::pair<Handle*, bool>> adopted_;
  std::set<Operation*> in_engine_;
  std::set<Operation*> done_;
  std::vector<const Operation*> history_;
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
/// A temporary file without a name.
int temporary_file(int flags = 0);
/// A listener on the loopback, and its address.
int listener(Endpoint& address);

/// Everything that can be read now.
std::string read_all(int fd);
void write_all(int fd, std::string_view text);
std::string pattern(std::size_t size, unsigned seed = 1);

}  // namespace baton::test
