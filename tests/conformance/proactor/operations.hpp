// Shared by the tests of the operations' contract: operations that count their completions, and a
// fixture that keeps all memory that the kernel may touch alive until the proactor is gone, even if
// a test fails half way. Its TearDown checks rule 1 for every test: as many completions as
// successful starts, and none of them inside start.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "harness.hpp"

namespace baton::conformance {

using namespace std::chrono_literals;

/// An operation that counts: how often it was started (by Operations::start), how often it
/// completed.
struct Probe : Operation {
  Probe();
  [[nodiscard]] bool done() const {
    return completions.load(std::memory_order_acquire) == starts.load(std::memory_order_acquire);
  }
  std::atomic<int> starts{0};
  std::atomic<int> completions{0};
  std::function<void()> then;  // called by the handler, after counting
};

/// A raw descriptor of the test's own; closed at the end of its scope.
class Fd {
 public:
  Fd() = default;
  Fd(int fd) : fd_(fd) {}  // NOLINT: implicit, `Fd fd = ::open(...)`
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// Two ends of a stream: `ours` is for the proactor, `peer` for raw system calls (it blocks, for at
/// most as long as patience lasts). Little goes in before the other reads.
struct Pair {
  Fd ours;
  Fd peer;
};
Pair unix_pair();
Pair tcp_pair();
/// `peer` is the end that writes.
Pair pipe_to_read();
/// `peer` is the end that reads.
Pair pipe_to_write();

/// A listening socket, its address stored in `endpoint`.
Fd listener(Endpoint& endpoint, int backlog = 128);
/// A socket that is bound and does not listen: connects are refused, and no other program can have
/// its number.
Fd unheard(Endpoint& endpoint);
/// An unlinked file in the directory for temporary files, opened with these flags (O_RDWR, ...).
Fd temporary(int flags);
Endpoint bound_to(int fd);

void send_all(int fd, std::string_view text);
/// `count` bytes; fewer only at the end of the stream.
std::string receive(int fd, std::size_t count);
/// Everything to the end of the stream.
std::string receive_rest(int fd);
/// `count` bytes that differ from each other's neighbours: position and content belong together.
std::string pattern(std::size_t count, unsigned seed = 0);

class Operations : public Conformance {
 protected:
  void TearDown() override;

  /// Opened at the first use, with `change` applied when given to `use` before.
  Proactor& proactor();
  Proactor& use(const std::function<void(Config&)>& change);

  // Live until the proactor is gone.
  Probe& operation() { return probes_.emplace_back(); }
  std::string& memory(std::size_t size) { return memory_.emplace_back(size, '\0'); }
  std::string& memory(std::string text) { return memory_.emplace_back(std::move(text)); }

  Handle* adopt(Fd& fd, HandleKind kind = HandleKind::stream_socket,
                Ownership ownership = Ownership::owned);
  Handle* borrow(const Fd& fd, HandleKind kind = HandleKind::stream_socket);

  // Prepare.
  Probe& reading(Handle* handle, std::string& into, std::uint16_t flags = 0);
  Probe& writing(Handle* handle, std::string& from, std::uint16_t flags = 0);
  Probe& plain(OperationKind kind, Handle* handle, std::uint16_t flags = 0);
  Probe& file_reading(Handle* handle, std::string& into, std::uint64_t offset,
                      std::uint16_t flags = 0);
  Probe& file_writing(Handle* handle, std::string& from, std::uint64_t offset,
                      std::uint16_t flags = 0);

  /// Starts and expects that it works.
  void start(Probe& probe);
  /// Starts and counts the start if it works.
  std::error_code try_start(Probe& probe);
  void start_timer(Probe& probe, Deadline when);
  /// Starts, if it is not started, and runs until it is complete.
  void finish(Probe& probe);
  void run(const std::function<bool()>& done) { run_until(proactor(), done); }
  /// Runs `body` as a handler: in per_thread mode on the thread of the lane.
  void inside(const std::function<void()>& body);
  /// Runs for this long, whatever completes.
  void run_for(Duration span);
  /// Runs until nothing unread is left at this end of a connection.
  void run_until_taken(int fd);
  /// Closes and runs until it is closed.
  void finish_close(Handle* handle);

 private:
  std::deque<Probe> probes_;
  std::deque<std::string> memory_;
  std::unique_ptr<Proactor> proactor_;
};

}  // namespace baton::conformance
