// The real system with faults: each call of interest is counted, can be made to fail a number of
// times, and transfers can be cut short. Process-wide, because the table has no context. A test
// begins with faults().clear().
#pragma once

#include <errno.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "os/system.hpp"

namespace baton::test {

enum class Call : std::uint8_t {
  recv,
  recvfrom,
  recvmsg,
  send,
  sendmsg,
  sendto,
  read,
  write,  // writev and write
  preadv2,
  pwritev2,
  fsync,
  accept4,
  connect,
  getsockopt,
  ppoll,
  epoll_ctl,
  wait,  // epoll_pwait
  thread_start,
  thread_sigmask,
  close,
  count
};

class Faults {
 public:
  void clear();

  /// The next `times` calls answer -1 with this errno (thread_start: answer it), after `spared`
  /// that pass.
  void fail(Call call, int error, unsigned times = 1, unsigned spared = 0);
  /// The most bytes that a transfer moves; 0: no bound.
  void cut(std::size_t bytes) { cut_ = bytes; }
  /// RWF_NOWAIT and RWF_NOSIGNAL are refused as by a kernel (or a file system) without them.
  void refuse_flags(int flags) { refused_flags_ = flags; }
  /// RWF_NOWAIT finds nothing in the page cache.
  void cold(bool yes) { cold_ = yes; }

  /// The next write that must not wait calls it first: another thread that comes meanwhile. The
  /// write is made, whether the file system could make it without waiting or not.
  void before_try(std::function<void()> call) { before_try_ = std::move(call); }

  /// The next send that the system fails calls it before it returns.
  void after_failed_send(std::function<void()> call) { after_failed_send_ = std::move(call); }

  /// Blocking file calls (preadv2, pwritev2 without RWF_NOWAIT, fsync, connect) wait at the gate.
  void close_gate();
  /// Lets `count` of them through.
  void open_gate(unsigned count);
  void open_gate();
  /// Returns when so many wait at the gate.
  void until_at_gate(unsigned count);

  [[nodiscard]] std::uint64_t count(Call call) const { return counts_[index(call)]; }
  /// The calls that a connection costs: transfers, registrations, waits, looks.
  [[nodiscard]] std::uint64_t all() const;

  // For the table.
  bool is_tried() {
    const auto call = std::exchange(before_try_, nullptr);
    if (call) call();
    return call != nullptr;
  }
  void send_has_failed() {
    const int error = errno;
    const auto call = std::exchange(after_failed_send_, nullptr);
    if (call) call();
    errno = error;
  }
  int enter(Call call);  // 0, or the errno to answer
  std::size_t shortened(std::size_t size) const {
    const std::size_t cut = cut_;
    return cut != 0 && size > cut ? cut : size;
  }
  [[nodiscard]] int refused_flags() const { return refused_flags_; }
  [[nodiscard]] bool is_cold() const { return cold_; }
  void pass_gate();

 private:
  static std::size_t index(Call call) { return static_cast<std::size_t>(call); }
  static constexpr std::size_t calls = static_cast<std::size_t>(Call::count);
  struct Failing {
    std::atomic<int> error{0};
    std::atomic<unsigned> spared{0};
    std::atomic<unsigned> times{0};
  };
  std::array<std::atomic<std::uint64_t>, calls> counts_{};
  std::array<Failing, calls> failing_;
  std::atomic<std::size_t> cut_{0};
  std::atomic<int> refused_flags_{0};
  std::atomic<bool> cold_{false};
  std::function<void()> before_try_;
  std::function<void()> after_failed_send_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool gate_closed_ = false;
  unsigned passes_ = 0;
  unsigned at_gate_ = 0;
};

Faults& faults();
const os::System& fault_system();

}  // namespace baton::test
