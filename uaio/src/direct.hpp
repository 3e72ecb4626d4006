// Direct: transfers past the page cache by the kernel's native AIO (io_submit), which suits a
// library inside any program. Its completions arrive without task work, so that no
// thread of the program is ever interrupted; a context is no descriptor; and the kernel holds the
// file of a request itself.
//
// Completions are in a ring that the kernel maps into the process. They are taken from there
// without a system call: the library's own counter holds how many were taken. The thread that
// raises it by compare-and-swap owns the completion that it has copied before. One thread at a time
// takes them (the collector's role); a signal handler that has interrupted that thread may take
// them, too.
//
// A thread that waits calls io_pgetevents with a buffer that cannot be written. The kernel waits
// for a completion, fails to copy it (EFAULT), and leaves it in the ring.
//
// A request asks for IOCB_NOWAIT (RWF_NOWAIT), so that io_submit never waits for the device. The
// kernel gives back what it cannot do without waiting, and it goes to the keeper. The starter sends
// it there before its call ends, because the program may reuse the number for another file after
// that. So the starter looks for refusals itself: another thread may have taken one from the ring
// and not have finished with it. A short transfer goes the same way: its starter checks whether the
// number now belongs to another file, of which the kernel moved a part.
//
// A write also has RWF_DONTCACHE (since Linux 6.14). A direct transfer is not changed by it, but
// the kernel refuses everything that is not a file of a file system. So a number that now belongs
// to a pipe or a socket takes no byte and causes no SIGPIPE.
#pragma once

#include <linux/aio_abi.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "futex.hpp"
#include "request.hpp"

namespace uaio {

class Library;

class Direct {
 public:
  /// The most requests that one call submits to the kernel.
  static constexpr std::size_t batch_max = 64;

  explicit Direct(Library& library) noexcept : library_(library) {}

  /// Opens the context unless it is open. False: the system provides none.
  bool open() noexcept;

  /// Starts filled-in requests. Returns how many the kernel refused, or read a part of (`result`):
  /// these are moved to the front of the list and belong to the caller again. `watched`: all are
  /// refused if there is no watcher. `may_wait`: the kernel may block the caller. Any thread, and
  /// signal handlers.
  std::size_t start(Request* list[], std::size_t count, bool watched, bool may_wait) noexcept;

  /// Finishes what is complete. Any thread, several at once, and signal handlers: one that is
  /// interrupted here withholds a single completion from the others.
  void collect() noexcept;
  [[nodiscard]] bool has_something() const noexcept;
  [[nodiscard]] bool busy() const noexcept {
    return in_flight_.load(std::memory_order_seq_cst) != 0;
  }
  /// Sleeps until there is something to collect, `wanted` completions if the kernel can (since
  /// Linux 6.8): 0, ETIMEDOUT, or EINTR after a signal handler. A cancellation point.
  int wait(const timespec& timeout, std::uint32_t wanted);
  /// The same for the watcher: no cancellation point. False: nothing came in that time.
  bool watch(const timespec& timeout) noexcept;

  /// The number that the next request gets, and whether the kernel is done with all requests below
  /// a number whose starts are over. A request that the kernel gives back late counts until the
  /// shard has it, or if another shard is to get it. The caller may have interrupted a start, which
  /// continues only afterwards.
  [[nodiscard]] std::uint64_t next_number() const noexcept {
    return numbers_.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] bool all_complete_below(std::uint64_t number, const Shard& shard) const noexcept;
  /// Its shard has it, or will not get it: it is no longer a direct request. False: it was not one.
  bool take_back(Request& request) noexcept;
  /// It is a direct request, and not handed on to a shard.
  [[nodiscard]] static bool has(const Request& request) noexcept;
  /// How many are pending of this descriptor.
  [[nodiscard]] std::size_t count(int fildes) const noexcept;

  /// Whether the kernel itself refuses a direct write to anything but a file of a file system.
  [[nodiscard]] bool refuses_streams() const noexcept {
    return refuses_streams_.load(std::memory_order_relaxed);
  }
  /// The kernel has refused a file, so this kernel or file system cannot distinguish.
  void stop_refusing_streams() noexcept {
    refuses_streams_.store(false, std::memory_order_relaxed);
  }

  /// In a forked child: the context was the parent's.
  void after_fork_in_child() noexcept;

 private:
  struct Ring;
  [[nodiscard]] Ring* ring() const noexcept { return ring_.load(std::memory_order_acquire); }
  std::size_t submit(Request* list[], std::size_t count) noexcept;
  void fill(Request& request, bool may_wait) noexcept;
  [[nodiscard]] std::uint32_t tail() const noexcept;
  [[nodiscard]] const io_event* find_given_back(const Request& request, std::uint32_t first,
                                                std::uint32_t end) const noexcept;
  bool take(io_event& event, std::optional<SignalsBlocked>& blocked) noexcept;
  void settle_head() noexcept;
  void finish(const io_event& event) noexcept;
  bool give_back(Request& request, const io_event& event) noexcept;
  void one_less() noexcept;

  Library& library_;
  std::atomic<Ring*> ring_{nullptr};
  std::atomic<int> why_{0};  // the errno of a refusal for good
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> numbers_{1};
  std::atomic<std::uint32_t> in_flight_{0};
  std::atomic<bool> refuses_streams_{true};
};

}  // namespace uaio
