// Library: what there is once in a process - options, shards, notifications, counters - and how
// threads wait for completions.
#pragma once

#include <aio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "futex.hpp"
#include "notifier.hpp"
#include "options.hpp"
#include "request.hpp"
#include "shard.hpp"

namespace uaio {

class Library {
 public:
  /// The only one; made when it is loaded, and never destroyed: threads may be in it at exit.
  static Library& get();

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] Shard& shard_of(const struct stat& status) noexcept {
    return *shards_[static_cast<std::size_t>(status.st_ino ^ status.st_dev) % shards_.size()];
  }
  [[nodiscard]] const std::vector<std::unique_ptr<Shard>>& shards() const noexcept {
    return shards_;
  }
  /// Before the first request: as many shards, unless the environment says otherwise.
  void set_threads(std::uint32_t count);
  [[nodiscard]] bool busy() const noexcept;

  // -- completions --------------------------------------------------------------------------------

  /// The end of a request: result, list, notification. It goes back to the free list. With signals
  /// blocked.
  void complete(Request& request, int error, ssize_t result) noexcept;
  /// The same for what the caller did itself.
  void complete_at_once(aiocb& block, int error, ssize_t result, const Notification& note) noexcept;
  /// It was not started; aio_error tells why.
  void refuse(aiocb& block, int error) noexcept;
  /// One less that the list waits for.
  void leave(Group& group, bool failed) noexcept;
  void release(Group& group) noexcept;
  /// In a forked child: a request that is the parent's.
  void lose(Request& request) noexcept;
  bool send_waiting_signals() noexcept { return notifier_.send_waiting(); }

  /// Waits until done() answers true: 0; EAGAIN at the (monotonic) time, EINTR after a signal
  /// handler has run. Drives the shard if there is nobody else to. done() takes no lock.
  template <class Done>
  int wait(Done&& done, const timespec* until) {
    for (;;) {
      const std::uint32_t seen = events_.load(std::memory_order_seq_cst);
      if (done()) return 0;
      const int error = wait_once(seen, until);
      if (error != 0) return done() ? 0 : error;
    }
  }
  /// Collects what is complete, if somebody must and something is.
  void look() noexcept;
  /// The timer of the single mode; also from its signal's handler.
  void tick() noexcept;
  bool start_timer() noexcept;

  // -- what is complete and not fetched (libuaio's uaio_waitcomplete) -----------------------------

  void keep_done_list() noexcept { keeps_done_ = true; }
  void fetched(aiocb& block) noexcept;
  [[nodiscard]] aiocb* first_done() noexcept;
  [[nodiscard]] bool has_done() const noexcept {
    return done_count_.load(std::memory_order_acquire) != 0;
  }

  // -- what was done ------------------------------------------------------------------------------

  enum Counter : std::size_t { at_once, at_engine, not_cached, errors, lists, helpers, counters };
  void count(Counter which) noexcept { counts_[which].fetch_add(1, std::memory_order_relaxed); }
  void helper_started() noexcept { count(helpers); }
  [[nodiscard]] std::string statistics() const;
  void trace(const char* what, const void* block, long first, long second) const noexcept;
  void complain(const char* text, int number = 0) const noexcept;

 private:
  Library();
  int wait_once(std::uint32_t seen, const timespec* until);
  int drive(Shard& shard, const timespec* until);
  int sleep(std::uint32_t seen, const timespec* until) noexcept;
  void announce() noexcept;
  void publish(aiocb& block, int error, ssize_t result, bool immediately) noexcept;
  void tell(const Notification& note) noexcept;
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;
  static void at_exit();

  Options options_;
  std::vector<std::unique_ptr<Shard>> shards_;
  Notifier notifier_;
  // Raised with every completion; a thread that sleeps compares it with what it saw.
  std::atomic<std::uint32_t> events_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<pthread_t> driver_{};  // the thread that drives because there is no helper
  std::atomic<bool> timer_started_{false};
  bool keeps_done_ = false;

  pthread_mutex_t done_mutex_ = PTHREAD_MUTEX_INITIALIZER;
  aiocb* done_first_ = nullptr;
  aiocb* done_last_ = nullptr;
  std::atomic<std::uint32_t> done_count_{0};

  std::array<std::atomic<std::uint64_t>, counters> counts_{};
};

}  // namespace uaio
