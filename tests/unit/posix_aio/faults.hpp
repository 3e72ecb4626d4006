// The real system with faults in POSIX AIO. They affect only requests on regular files, not those
// of interrupts and of the probe. Process-wide, because the table has no context. A test begins
// with faults().clear().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "os/system.hpp"

namespace baton::test::aio {

enum class Call : std::uint8_t { read, write, fsync, fdatasync, cancel, suspend, seek_end, count };

class Faults {
 public:
  void clear();

  /// The next `times` calls answer -1 with this errno, after `spared` that pass.
  void fail(Call call, int error, unsigned times = 1, unsigned spared = 0);
  /// The next `times` requests end with this errno.
  void end_with(int error, unsigned times = 1, unsigned spared = 0);
  /// The most bytes that a request moves; 0: no bound.
  void cut(std::size_t bytes) { cut_ = bytes; }
  /// Requests are taken and do not begin until the gate is opened.
  void close_gate() { closed_ = true; }
  void open_gate();
  /// New requests begin; those that were taken before do not, until the gate is opened.
  void open_gate_for_new() { closed_ = false; }
  /// aio_cancel answers AIO_NOTCANCELED.
  void never_cancel(bool yes) { never_cancel_ = yes; }
  /// Notifications are held back from the engine; deliver() sends them late.
  void withhold(bool yes) { withheld_ = yes; }
  void deliver();

  /// Each call that begins a request, in their order.
  struct Attempt {
    int fd = -1;
    bool taken = false;
  };
  [[nodiscard]] std::vector<Attempt> attempts() const {
    const std::scoped_lock lock(mutex_);
    return attempts_;
  }
  [[nodiscard]] unsigned count(Call call) const { return counts_[index(call)]; }

  // For the table.
  int start(Call call, aiocb* block, const std::function<int()>& real);
  int error_of(const aiocb* block);
  /// The list with null for parked requests.
  std::vector<const aiocb*> known(std::vector<const aiocb*> list);
  ssize_t return_of(aiocb* block);
  int cancel(int fd, aiocb* block);
  int enter(Call call);  // 0, or the errno to answer

 private:
  static std::size_t index(Call call) { return static_cast<std::size_t>(call); }
  struct Failing {
    int error = 0;
    unsigned spared = 0;
    unsigned times = 0;
    int next();
  };
  /// A request that the system does not know, or that ends with another result.
  struct Told {
    int error = 0;
    std::function<int()> begin;  // parked
  };

  mutable std::mutex mutex_;
  std::vector<Attempt> attempts_;
  std::array<Failing, static_cast<std::size_t>(Call::count)> failing_;
  std::array<std::atomic<unsigned>, static_cast<std::size_t>(Call::count)> counts_{};
  Failing ending_;
  std::map<const aiocb*, Told> told_;
  std::vector<std::function<void()>> late_;
  std::atomic<std::size_t> cut_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> never_cancel_{false};
  std::atomic<bool> withheld_{false};
};

Faults& faults();
const os::System& fault_system();

}  // namespace baton::test::aio
