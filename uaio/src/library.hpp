// Library: the single object of a process, with options, shards, notifications and counters, and
// how threads wait for completions.
#pragma once

#include <aio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "direct.hpp"
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
  /// Before the first request: creates this many shards.
  void set_threads(std::uint32_t count);
  [[nodiscard]] bool busy() const noexcept;
  /// The same for requests that are not direct.
  [[nodiscard]] bool shards_busy() const noexcept;
  /// A request of this number may be pending there.
  [[nodiscard]] bool shards_may_have(int fildes) const noexcept;

  /// False in a process that was forked by the system call itself, which the library does not
  /// notice (pthread_atfork). The context, the keeper and the pending requests belong to its
  /// parent, and the memory is shared. It can start nothing (EAGAIN), and completes nothing.
  [[nodiscard]] bool is_origin() const noexcept { return origin_ == nullptr || *origin_ != 0; }

  [[nodiscard]] Direct& direct() noexcept { return direct_; }
  [[nodiscard]] Notifier& notifier() noexcept { return notifier_; }

  // -- completions --------------------------------------------------------------------------------

  /// The end of a request: result, waiters, notification, list. The request's memory still belongs
  /// to the caller. Any thread, and signal handlers.
  void publish(Request& request, int error, ssize_t result) noexcept;
  /// The same for a request that the caller carried out itself, or that is invalid.
  void complete_at_once(aiocb& block, int error, ssize_t result, const Notification& note,
                        Group* group) noexcept;
  /// It was not started; aio_error tells why.
  void refuse(aiocb& block, int error) noexcept;
  /// The list waits for one request less.
  void leave(Group& group, bool failed) noexcept;
  void release(Group& group) noexcept;
  /// The kernel is done with a direct request: a sync may wait for that.
  void direct_done() noexcept;
  /// From now on, or no longer, a sync waits for direct requests.
  void wait_for_direct(std::int32_t more) noexcept { waits_for_direct_.fetch_add(more); }
  /// Hands a direct request that the kernel gave back late to the keeper.
  void hand_on(Request& request) noexcept;

  // -- waiting ------------------------------------------------------------------------------------

  /// Waits until done() answers true: 0; EAGAIN at the (monotonic) time, EINTR after a signal
  /// handler has run that does not restart calls. Collects if no other thread does. A cancellation
  /// point. `any`: also for requests that other threads start meanwhile. `wanted()`: how many
  /// requests still have to complete.
  template <class Done, class Wanted>
  int wait(Done&& done, const timespec* until, bool any, Wanted&& wanted) {
    for (;;) {
      const std::uint32_t seen = events_.load(std::memory_order_seq_cst);
      if (done()) return 0;
      look();
      if (done()) return 0;
      const int error = wait_once(seen, until, any, wanted());
      if (error != 0) return done() ? 0 : error;
    }
  }
  template <class Done>
  int wait(Done&& done, const timespec* until, bool any = false) {
    return wait(std::forward<Done>(done), until, any, [] { return 1U; });
  }
  /// A request is complete: waits until its signal is sent.
  void wait_for_signal(const aiocb& block) noexcept;
  /// Collects complete requests, if no other thread does.
  void look() noexcept;
  /// The watcher collects direct requests from now on. False: there can be no thread.
  bool need_watcher() noexcept;
  /// The timer of the single mode; also from its signal's handler.
  void tick() noexcept;
  bool start_timer() noexcept;

  // -- complete and not fetched (libuaio's uaio_waitcomplete) -------------------------------------

  /// Called before the first request, and any number of times.
  void keep_done_list() noexcept {
    if (!keeps_done_.load(std::memory_order_relaxed)) {
      keeps_done_.store(true, std::memory_order_relaxed);
    }
  }
  /// Takes the result of this request; false: another thread was quicker.
  bool fetch(aiocb& block) noexcept;
  /// Takes the oldest request with its error and result; null: there is none.
  aiocb* fetch_first(int& error, ssize_t& result) noexcept;
  [[nodiscard]] bool has_done() const noexcept {
    return done_count_.load(std::memory_order_acquire) != 0;
  }

  // -- what was done ------------------------------------------------------------------------------

  enum Counter : std::size_t {
    at_once,
    at_engine,
    direct_starts,
    not_cached,
    errors,
    lists,
    threads,
    counters
  };
  void count(Counter which) noexcept { counts_[which].fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::string statistics() const;
  /// Prints the choices and their reasons, if requested by UAIO=explain=1.
  void explain(const char* text, int number = 0) const noexcept {
    if (options_.explain) complain(text, number);
  }
  void trace(const char* what, const void* block, long first, long second) const noexcept;
  void complain(const char* text, int number = 0) const noexcept;

 private:
  Library();
  int wait_once(std::uint32_t seen, const timespec* until, bool any, std::uint32_t wanted);
  int drive(const timespec* until, std::uint32_t wanted);
  int interrupted(const timespec* until) noexcept;
  int wait_in_single_mode(std::uint32_t seen, const timespec* until);
  int sleep(std::uint32_t seen, const timespec* until, bool watched = false);
  int sleep_briefly(std::uint32_t seen, const timespec* until);
  void announce() noexcept;
  [[gnu::noinline]] void tell(const Request& request, bool signal_first, int error,
                              ssize_t result) noexcept;
  std::atomic<std::uint32_t>& signals_of(const aiocb* block) noexcept;
  [[gnu::noinline]] void store_and_list(aiocb& block, int error, ssize_t result,
                                        bool immediately) noexcept;
  void unlink_done(aiocb& block) noexcept;
  static void* watch(void* self);
  bool retire_watcher() noexcept;
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;
  static void at_exit();

  Options options_;
  volatile char* origin_ = nullptr;  // 1, in memory that is 0 in the child of a fork
  std::vector<std::unique_ptr<Shard>> shards_;
  Notifier notifier_;
  Direct direct_{*this};
  // Incremented with every completion; a sleeping thread compares it with the value that it saw.
  std::atomic<std::uint32_t> events_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  // Requests that are complete, and whose signals are not sent yet; by the address of the aiocb.
  std::array<std::atomic<std::uint32_t>, 64> unsent_{};
  std::atomic<pthread_t> driver_{};  // the thread that waits for direct requests for itself
  std::atomic<bool> watcher_{false};
  std::atomic<std::int32_t> waits_for_direct_{0};
  pthread_mutex_t start_mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> timer_started_{false};
  std::atomic<bool> keeps_done_{false};

  pthread_mutex_t done_mutex_ = PTHREAD_MUTEX_INITIALIZER;
  aiocb* done_first_ = nullptr;
  aiocb* done_last_ = nullptr;
  std::atomic<std::uint32_t> done_count_{0};

  std::array<std::atomic<std::uint64_t>, counters> counts_{};
};

}  // namespace uaio
