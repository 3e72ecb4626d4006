#include "library.hpp"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "block.hpp"

namespace uaio {
namespace {

sigset_t mask_before_fork;
int timer_signal = 0;

void on_timer(int) {
  const int saved = errno;
  Library::get().tick();
  errno = saved;
}

// When it is loaded: the first use may be in a signal handler that has interrupted malloc.
[[gnu::constructor]] void load() { Library::get(); }

}  // namespace

Library& Library::get() {
  static Library* const library = new Library;
  return *library;
}

Library::Library() : options_(options_of_environment()), notifier_(options_.callbacks) {
  if (!options_.mistake.empty()) {
    complain("UAIO: not understood, and left out: ");
    complain(options_.mistake.c_str());
  }
  set_threads(options_.threads);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (options_.statistics) ::atexit(at_exit);
}

void Library::set_threads(std::uint32_t count) {
  while (shards_.size() < count) {
    shards_.push_back(std::make_unique<Shard>(*this, options_.depth));
  }
  options_.threads = static_cast<std::uint32_t>(shards_.size());
}

bool Library::busy() const noexcept {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard->busy(); });
}

// -- completions ----------------------------------------------------------------------------------

void Library::announce() noexcept {
  // seq_cst, both: either a sleeper sees the new number, or it is seen here.
  events_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake(events_, INT32_MAX);
}

void Library::publish(aiocb& block, int error, ssize_t result, bool immediately) noexcept {
  Block state{block};
  if (error != 0) count(errors);
  if (!keeps_done_) {
    if (immediately) {
      state.publish_at_once(error, result);
    } else {
      state.publish(error, result);
    }
    return;
  }
  const Locked locked{done_mutex_};
  state.links() = {nullptr, done_last_};
  (done_last_ != nullptr ? Block{*done_last_}.links().next : done_first_) = &block;
  done_last_ = &block;
  done_count_.fetch_add(1, std::memory_order_release);
  if (immediately) {
    state.publish_at_once(error, result);
  } else {
    state.publish(error, result);
  }
}

void Library::complete(Request& request, int error, ssize_t result) noexcept {
  const Notification note = request.note;
  Group* const group = request.group;
  if (options_.trace) trace("complete", request.block, error, result);
  publish(*request.block, error, result, false);
  // From here on the aiocb is the program's.
  announce();
  give_request(request);
  tell(note);
  if (group != nullptr) leave(*group, error != 0);
}

void Library::complete_at_once(aiocb& block, int error, ssize_t result,
                               const Notification& note) noexcept {
  count(at_once);
  if (options_.trace) trace("at once", &block, error, result);
  publish(block, error, result, true);
  if (keeps_done_) announce();
  if (note.silent()) return;
  const SignalsBlocked blocked;
  tell(note);
}

void Library::refuse(aiocb& block, int error) noexcept {
  Block state{block};
  if (options_.trace) trace("refused", &block, error, -1);
  // Not on the list of what is complete.
  if (keeps_done_) state.links() = {&block, nullptr};
  state.publish_at_once(error, -1);
}

void Library::tell(const Notification& note) noexcept {
  if (note.silent() || !notifier_.tell(note)) return;
  // The signal had to be put by, and somebody has to send it later. The lock may be held by this
  // very thread, who then has the helper already.
  Shard& first = *shards_.front();
  if (pthread_mutex_trylock(&first.mutex()) == 0) {
    first.need_helper();
    pthread_mutex_unlock(&first.mutex());
  }
  first.ring_bell();
}

void Library::leave(Group& group, bool failed) noexcept {
  const SignalsBlocked blocked;
  if (failed) group.failed.store(true, std::memory_order_relaxed);
  // acq_rel: the last one sees what all the others have done.
  if (group.left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const Notification note = group.note;
    announce();
    tell(note);
  }
  release(group);
}

void Library::release(Group& group) noexcept {
  if (group.users.fetch_sub(1, std::memory_order_acq_rel) == 1) give_request(*group.holder);
}

// Its operation is known to the parent's proactor, so that the memory is not used again here.
void Library::lose(Request& request) noexcept { Block{*request.block}.publish(ECANCELED, -1); }

// -- waiting --------------------------------------------------------------------------------------

void Library::look() noexcept {
  // Who waits for the engine collects for all, and would not notice that he need not any more.
  const pthread_t driver = driver_.load(std::memory_order_relaxed);
  if (driver != pthread_t{} && pthread_equal(driver, pthread_self()) == 0) return;
  for (const auto& shard : shards_) {
    if (shard->has_helper() || !shard->busy() || !shard->has_something()) continue;
    const Locked locked{shard->mutex()};
    shard->collect();
  }
}

int Library::wait_once(std::uint32_t seen, const timespec* until) {
  Shard& first = *shards_.front();
  if (shards_.size() > 1 || first.has_helper() || !first.busy()) return sleep(seen, until);
  const pthread_t me = pthread_self();
  pthread_t nobody{};
  if (!driver_.compare_exchange_strong(nobody, me, std::memory_order_seq_cst)) {
    // A signal handler that has interrupted the driver's sleep drives in its place.
    return pthread_equal(nobody, me) ? drive(first, until) : sleep(seen, until);
  }
  // Also when the thread is cancelled in its sleep.
  struct Driving {
    Library& self;
    ~Driving() {
      self.driver_.store(pthread_t{}, std::memory_order_seq_cst);
      // One of those who sleep must take over.
      if (self.sleepers_.load(std::memory_order_seq_cst) != 0) self.announce();
    }
  } const driving{*this};
  return drive(first, until);
}

int Library::drive(Shard& shard, const timespec* until) {
  const std::uint32_t before = events_.load(std::memory_order_seq_cst);
  if (shard.must_collect()) {
    const Locked locked{shard.mutex()};
    shard.collect();
  }
  if (events_.load(std::memory_order_seq_cst) != before) return 0;
  if (until == nullptr) return shard.sleep(nullptr);
  const timespec left = left_until(*until);
  if (left.tv_sec == 0 && left.tv_nsec == 0) return EAGAIN;
  return shard.sleep(&left);
}

int Library::sleep(std::uint32_t seen, const timespec* until) noexcept {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const int answer = futex_wait(events_, seen, until);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  if (answer == ETIMEDOUT) return EAGAIN;
  return answer == EINTR ? EINTR : 0;
}

// -- the single-threaded mode ---------------------------------------------------------------------

bool Library::start_timer() noexcept {
  if (timer_started_.exchange(true)) return true;
  timer_signal = options_.signal != 0 ? options_.signal : SIGRTMAX - 2;
  struct sigaction action{};
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = timer_signal;
  timer_t timer{};
  if (::sigaction(timer_signal, &action, nullptr) != 0 ||
      ::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) {
    timer_started_.store(false);
    return false;
  }
  itimerspec period{};
  period.it_interval.tv_sec = options_.interval_us / 1'000'000;
  period.it_interval.tv_nsec = static_cast<long>(options_.interval_us % 1'000'000) * 1'000;
  period.it_value = period.it_interval;
  return ::timer_settime(timer, 0, &period, nullptr) == 0;
}

// Every lock is held with signals blocked, so that the handler of this thread's own signal finds
// them free; another thread's it does not wait for.
void Library::tick() noexcept {
  for (const auto& shard : shards_) {
    if (pthread_mutex_trylock(&shard->mutex()) != 0) continue;
    shard->collect();
    pthread_mutex_unlock(&shard->mutex());
  }
  notifier_.send_waiting();
}

// -- what is complete and not fetched -------------------------------------------------------------

void Library::fetched(aiocb& block) noexcept {
  if (!keeps_done_) return;
  const Locked locked{done_mutex_};
  const Block::Links links = Block{block}.links();
  if (links.next == &block) return;  // refused
  (links.previous != nullptr ? Block{*links.previous}.links().next : done_first_) = links.next;
  (links.next != nullptr ? Block{*links.next}.links().previous : done_last_) = links.previous;
  done_count_.fetch_sub(1, std::memory_order_relaxed);
}

aiocb* Library::first_done() noexcept {
  const Locked locked{done_mutex_};
  return done_first_;
}

// -- what was done --------------------------------------------------------------------------------

std::string Library::statistics() const {
  static constexpr const char* names[counters] = {"at_once", "at_engine", "not_cached",
                                                  "errors",  "lists",     "helpers"};
  std::string text;
  const auto add = [&text](const char* name, std::uint64_t value) {
    text += name;
    text += ' ';
    text += std::to_string(value);
    text += '\n';
  };
  for (std::size_t i = 0; i < counters; ++i) add(names[i], counts_[i].load());
  add("signals", notifier_.signals());
  add("signals_postponed", notifier_.postponed());
  add("callbacks", notifier_.callbacks());
  return text;
}

void Library::trace(const char* what, const void* block, long first, long second) const noexcept {
  char line[160];
  const int length = ::snprintf(line, sizeof(line), "uaio[%d]: %s %p %ld %ld\n", ::getpid(), what,
                                block, first, second);
  if (length > 0 && ::write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0) return;
}

void Library::complain(const char* text, int number) const noexcept {
  char line[512];
  const int length = number != 0 ? ::snprintf(line, sizeof(line), "uaio: %s%d\n", text, number)
                                 : ::snprintf(line, sizeof(line), "uaio: %s\n", text);
  const auto size = std::min(sizeof(line) - 1, static_cast<std::size_t>(std::max(length, 0)));
  if (::write(STDERR_FILENO, line, size) < 0) return;
}

void Library::at_exit() {
  const Library& self = get();
  std::string text = "uaio: statistics of process " + std::to_string(::getpid()) + "\n";
  text += self.statistics();
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

// -- fork -----------------------------------------------------------------------------------------

void Library::before_fork() noexcept {
  Library& self = get();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (const auto& shard : self.shards_) pthread_mutex_lock(&shard->mutex());
  self.notifier_.lock();
  pthread_mutex_lock(&self.done_mutex_);
  lock_requests();
  mask_before_fork = before;
}

void Library::after_fork_in_parent() noexcept {
  Library& self = get();
  const sigset_t before = mask_before_fork;
  unlock_requests();
  pthread_mutex_unlock(&self.done_mutex_);
  self.notifier_.unlock();
  for (const auto& shard : self.shards_) pthread_mutex_unlock(&shard->mutex());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Library::after_fork_in_child() noexcept {
  Library& self = get();
  const sigset_t before = mask_before_fork;
  unlock_requests();
  self.done_first_ = self.done_last_ = nullptr;
  self.done_count_.store(0);
  pthread_mutex_unlock(&self.done_mutex_);
  self.notifier_.reset();
  self.notifier_.unlock();
  self.sleepers_.store(0);
  self.driver_.store(pthread_t{});
  self.timer_started_.store(false);
  for (const auto& shard : self.shards_) {
    shard->after_fork_in_child();
    pthread_mutex_unlock(&shard->mutex());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace uaio
