// Shard: a proactor, the files that are at home in it, and the thread that drives it. There is one,
// unless files are to be shared out among several processors (UAIO=threads=N).
//
// The lock, taken with signals blocked, is round every call into Baton, so that signal handlers,
// forks and threads always find it in order. Nobody sleeps with it: whoever waits does so by the
// proactor's descriptor, where signals interrupt him, and then looks what there is.
//
// Who drives. Requests of regular files that want no notification need nobody: the kernel works on
// them, and whoever asks for one (aio_error, aio_suspend, lio_listio) collects what is complete.
// For everything else there is the helper, from the first such request on.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "baton/proactor.hpp"
#include "files.hpp"
#include "request.hpp"

namespace uaio {

class Library;

class Shard {
 public:
  Shard(Library& library, std::uint32_t depth) noexcept : library_(library), depth_(depth) {}

  [[nodiscard]] pthread_mutex_t& mutex() noexcept { return mutex_; }

  // -- with the lock held -------------------------------------------------------------------------

  /// The record of the open file that the number names; null: no memory, or no descriptor left.
  Descriptor* file_of(int fildes, int flags, const struct stat& status) noexcept {
    return files_.find_or_add(fildes, flags, status);
  }
  /// The same if there are requests of that open file already; null: not known, or not to be told.
  Descriptor* known_file_of(int fildes) noexcept { return files_.find_same(fildes); }
  /// Starts it, at the engine or behind others. 0, or an errno and nothing has happened.
  int start(Request& request, Descriptor& file) noexcept;
  /// Finishes what the engine has completed, and starts what waited for that.
  void collect() noexcept;
  /// The helper runs, from now on. False: there can be no thread.
  bool need_helper() noexcept;

  struct Cancelled {
    std::uint32_t found = 0;
    std::uint32_t cancelled = 0;  // complete as cancelled
    std::uint32_t pending = 0;    // asked for, and not complete yet
    std::uint32_t streams = 0;    // of those: not on files, so that they end soon
  };
  /// Cancels what is pending on the descriptor: one request, or (null) all. `tally` is kept up to
  /// date by collect() until forget(tally).
  void cancel(int fildes, const aiocb* block, Cancelled& tally) noexcept;
  void forget(Cancelled& tally) noexcept;

  [[nodiscard]] bool is_idle() const noexcept { return pending_ == 0; }
  [[nodiscard]] std::string explain() const { return proactor_ ? proactor_->explain() : ""; }

  // -- without it ---------------------------------------------------------------------------------

  /// Anything pending. A hint.
  [[nodiscard]] bool busy() const noexcept { return busy_.load(std::memory_order_relaxed); }
  /// collect() would find something, as far as can be seen without a call. Signal handlers, too.
  [[nodiscard]] bool has_something() const noexcept {
    return opened_.load(std::memory_order_acquire) &&
           proactor_->glance() == baton::Glance::something;
  }
  /// Whether a collect() is due: it would find something, or cannot be seen to, or the last sleep
  /// was a long one and the engine may have put something by.
  [[nodiscard]] bool must_collect() const noexcept {
    return opened_.load(std::memory_order_acquire) &&
           (!glances_ || overslept_.load(std::memory_order_relaxed) || has_something());
  }
  [[nodiscard]] bool has_helper() const noexcept { return helper_.load(std::memory_order_acquire); }
  /// Sleeps until the engine may have something, the time is over (null: none), or a signal handler
  /// has run (EINTR).
  int sleep(const timespec* timeout) noexcept;
  /// Makes the helper look round.
  void ring_bell() noexcept;

  /// In the child after fork, by the only thread, with the lock held since before.
  void after_fork_in_child() noexcept;

 private:
  bool open() noexcept;
  bool ensure_handle(Descriptor& descriptor) noexcept;
  void launch(Request& request) noexcept;
  void queue(Request& request) noexcept;
  bool unqueue(Request*& head, Request& request) noexcept;
  void start_waiting() noexcept;
  void submit(Request& request) noexcept;
  void fill(Request& request) noexcept;
  static void completed(baton::Operation& operation);
  void finish(Request& request, int error, ssize_t result) noexcept;
  void release_held(Inode& inode, std::uint64_t number) noexcept;
  void release_idle() noexcept;
  [[nodiscard]] bool drives_itself(const Request& request) const noexcept;
  static void* helper(void* self);
  void run_helper();

  Library& library_;
  const std::uint32_t depth_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> opened_{false};
  std::atomic<bool> helper_{false};
  std::atomic<bool> busy_{false};
  std::atomic<int> bell_{-1};
  std::atomic<bool> waits_by_ring_{true};
  std::atomic<bool> overslept_{true};

  // Guarded by the lock; the pointer is constant once opened_ is set.
  std::unique_ptr<baton::Proactor> proactor_;
  Files files_;
  Request* run_list_ = nullptr;  // by priority, then in order of starts
  Descriptor* idle_ = nullptr;   // nothing pending: to be released when Baton has let go
  std::uint64_t number_ = 0;
  std::uint32_t pending_ = 0;
  std::uint32_t in_flight_ = 0;
  bool collecting_ = false;
  bool look_again_ = false;
  bool glances_ = false;  // completions are seen without a call
  bool forked_ = false;
};

}  // namespace uaio
