// Shared by the tests of threads (roles, driving, ending): a fixture that keeps memory alive until
// the kernel has released it, echo sessions, gates for handlers that block, and a system-call table
// that counts sleeping threads.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"
#include "support/slowness.hpp"

namespace baton::conformance {

using namespace std::chrono_literals;

using test::slowness;

/// How often a long test tries: a tenth of it under the sanitizers, and where each operation is
/// delayed (BATON_TEST_CHAOS).
inline int tries(int count) { return count / (with_troubles() ? 10 : slowness); }

/// A raw descriptor of the test's own.
class Peer {
 public:
  explicit Peer(int fd = -1) : fd_(fd) {}
  Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Peer& operator=(Peer&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Peer() { close(); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// A stream: `ours` for the proactor, `peer` for raw calls that block, while patience lasts.
struct Stream {
  Stream();
  Peer ours;
  Peer peer;
};
void send_all(int fd, const void* data, std::size_t size);
/// False when the stream ended, or nothing came.
bool receive_all(int fd, void* data, std::size_t size);
/// Waits for the end of the stream. (EINTR is no error: a ring that is destroyed interrupts the
/// calls of every thread that has used it.)
bool at_end(int fd);
/// Sends `size` bytes made from `seed` and expects them back.
void round_trip(int fd, std::size_t size = 64, unsigned seed = 1);

/// Opened once; then all waiting threads are released. Handlers wait in it to simulate blocking.
class Gate {
 public:
  ~Gate() { open(); }
  void open();
  /// False when the test's patience is over.
  void wait();
  [[nodiscard]] bool is_open() const { return open_.load(std::memory_order_acquire) != 0; }

 private:
  std::atomic<int> open_{0};
};

/// Reads and writes back until the stream ends, then closes.
class Echo {
 public:
  Echo(Proactor& proactor, Handle* handle) : proactor_(proactor), handle_(handle) {}
  void start();
  [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
  Operation operation;
  std::atomic<std::uint64_t> messages{0};

 private:
  void read();
  void write(std::size_t size);
  void end();
  Proactor& proactor_;
  Handle* handle_;
  std::atomic<bool> done_{false};
  char buffer_[512];
};

/// Sleeping threads by place: filled by the functions of watched_system().
struct Sleepers {
  std::atomic<int> parked{0};           // on a futex
  std::atomic<int> waiting{0};          // in the wait of an engine
  std::atomic<int> timed{0};            // of both kinds, those with a timeout
  std::atomic<std::uint64_t> calls{0};  // of both kinds, ever
  std::atomic<std::uint64_t> naps{0};   // of these, those with a time that was not over
};
Sleepers& sleepers();

/// One thread asleep, for as long as it lives; one inside another counts as the outer one. For
/// watched_system(), and for parts that do not call through a table (kit/watched_parts.hpp).
class Asleep {
 public:
  /// `span`: how long at most, for a wait with an end.
  Asleep(std::atomic<int>& place, std::optional<Duration> span);
  ~Asleep();
  Asleep(const Asleep&) = delete;
  Asleep& operator=(const Asleep&) = delete;

 private:
  std::atomic<int>& place_;
  const bool timed_;
};

/// The real table, watched. One for the process: at most one proactor at a time.
const os::System& watched_system();

class Threads : public Conformance {
 protected:
  void TearDown() override;

  /// The proactor of this test, on the watched system.
  Proactor& use(unsigned threads, const std::function<void(Config&)>& change = {});
  Proactor& proactor() { return *proactor_; }
  /// Threads inside run(), until TearDown or stop().
  void run(unsigned threads);
  /// Stops and joins; exceptions of run() are in failures().
  void stop();
  void join();
  [[nodiscard]] std::vector<std::exception_ptr> failures() {
    const os::LockGuard lock{mutex_, os::real_system()};
    return failures_;
  }
  /// Destroys the proactor.
  void destroy();

  // Live until the proactor is gone. Operations may be asked for by any thread.
  Operation& operation();
  Gate& gate() { return gates_.emplace_back(); }
  char* memory(std::size_t size) { return memory_.emplace_back(size, '\0').data(); }

  Handle* adopt(Peer& fd, HandleKind kind = HandleKind::stream_socket, Home home = {});
  /// A session; answers the other end.
  Peer echo(Home home = {});
  std::deque<Echo>& echoes() { return echoes_; }
  /// A read of one byte into memory of its own, with this handler.
  void read_byte(Handle* handle, Operation& operation);
  /// Posts `body` with a caller-owned operation.
  void post(std::function<void()> body, Notify level = Notify::strong, Home home = {});
  void timer(Deadline when, std::function<void()> body);

  /// Until `threads` of the test, and the leaders of dedicated processors, are asleep, and none
  /// wakes up any more.
  void wait_until_asleep(int threads);
  /// Until they are asleep without a timeout: none will wake up by itself.
  void wait_until_asleep_for_good(int threads);

  /// At this moment, with the leaders of dedicated processors.
  [[nodiscard]] bool are_asleep(int threads) const;

  [[nodiscard]] Mode mode() const { return GetParam().mode; }

 private:
  Operation& with(std::function<void()> body);
  os::Mutex mutex_;  // operations_, bodies_, failures_
  std::deque<Operation> operations_;
  std::deque<std::function<void()>> bodies_;
  std::deque<std::string> memory_;
  std::deque<Gate> gates_;
  std::deque<Echo> echoes_;
  std::unique_ptr<Proactor> proactor_;
  std::vector<std::thread> threads_;
  std::vector<std::exception_ptr> failures_;
};

/// The combinations of one mode.
std::vector<Combination> combinations_in(std::initializer_list<Mode> modes);

}  // namespace baton::conformance

#define BATON_CONFORMANCE_SUITE_IN(Suite, ...)                                                    \
  INSTANTIATE_TEST_SUITE_P(proactor, Suite,                                                       \
                           testing::ValuesIn(baton::conformance::combinations_in({__VA_ARGS__})), \
                           baton::conformance::combination_name)
