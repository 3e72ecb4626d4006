// How a thread of the program waits: in the kernel for its own requests, or for a keeper, the
// watcher or the timer of mode=single.
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "library.hpp"
#include "thread.hpp"

namespace uaio {
namespace {

// The longest sleep of a thread that expects another one to collect its request: a signal handler
// may hold up that thread.
constexpr timespec slice{0, 20'000'000};
constexpr std::size_t watcher_stack = 128U << 10;

int timer_signal = 0;

void on_timer(int) {
  const int saved = errno;
  {
    const InTimer in_timer;
    Library::get().tick();
  }
  errno = saved;
}

/// Whether the program's handlers ask for restarts of the calls that they interrupt.
enum class Restart : std::uint8_t { all, none, mixed };

/// A fault's signal goes to the thread that caused it, and a waiting thread causes none. Crash
/// reporters have handlers for these signals.
bool is_fault(int signal) noexcept {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGTRAP || signal == SIGABRT;
}

// The kernel does not say which handler has run, and native AIO does not restart a wait as futexes
// do. So the library checks all handlers.
Restart restart_of_handlers() noexcept {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    std::uint64_t mask;
  } action{};
  bool some = false;
  bool others = false;
  for (int signal = 1; signal <= 64; ++signal) {
    const bool unavailable = signal == SIGKILL || signal == SIGSTOP || signal == timer_signal ||
                             (signal >= 32 && signal < SIGRTMIN);
    if (unavailable || is_fault(signal)) continue;
    if (::syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof(action.mask)) != 0) continue;
    if (action.handler == SIG_DFL || action.handler == SIG_IGN) continue;
    ((action.flags & SA_RESTART) != 0 ? some : others) = true;
  }
  if (some && others) return Restart::mixed;
  return others ? Restart::none : Restart::all;
}

bool has_handlers() noexcept { return restart_of_handlers() != Restart::all; }

}  // namespace

std::atomic<std::uint32_t>& Library::signals_of(const aiocb* block) noexcept {
  return unsent_[reinterpret_cast<std::uintptr_t>(block) / sizeof(aiocb) % unsent_.size()];
}

void Library::wait_for_signal(const aiocb& block) noexcept {
  const std::atomic<std::uint32_t>& unsent = signals_of(&block);
  if (unsent.load(std::memory_order_acquire) == 0 || !is_origin()) return;
  const NoCancel no_cancel;
  for (;;) {
    const std::uint32_t seen = events_.load(std::memory_order_seq_cst);
    if (unsent.load(std::memory_order_acquire) == 0) return;
    sleep(seen, nullptr);
  }
}

void Library::look() noexcept {
  if (!is_origin()) return;
  notifier_.look();
  for (const auto& shard : shards_) {
    if (!shard->driven_by_callers() || !shard->busy() || !shard->has_something()) continue;
    const Locked locked{shard->mutex()};
    shard->collect();
  }
  if (watcher_.load(std::memory_order_acquire) || !direct_.has_something()) return;
  // A thread that waits in the kernel for its own request would not notice that it is complete.
  const pthread_t driver = driver_.load(std::memory_order_seq_cst);
  if (driver == pthread_t{} || driver == pthread_self()) direct_.collect();
}

int Library::wait_once(std::uint32_t seen, const timespec* until, bool any, std::uint32_t wanted) {
  if (!is_origin()) return sleep(seen, until);
  if (options_.mode == Mode::single) return wait_in_single_mode(seen, until);
  const bool others = any || shards_busy();
  if (!direct_.busy() && !any) return sleep(seen, until);
  if (watcher_.load(std::memory_order_acquire)) return sleep(seen, until, true);
  // A thread that waits for direct requests does not notice the completions of a keeper.
  if (others && need_watcher()) return sleep(seen, until, true);
  if (others) return sleep_briefly(seen, until);
  const pthread_t me = pthread_self();
  pthread_t driver{};
  if (!driver_.compare_exchange_strong(driver, me, std::memory_order_seq_cst)) {
    // A signal handler that has interrupted the driver's sleep drives in its stead.
    return driver == me ? drive(until, wanted) : sleep_briefly(seen, until);
  }
  // The destructor also runs when the thread is cancelled in its sleep.
  struct Driving {
    Library& self;
    ~Driving() {
      self.driver_.store(pthread_t{}, std::memory_order_seq_cst);
      // A sleeping thread must take over.
      if (self.sleepers_.load(std::memory_order_seq_cst) != 0) self.announce();
    }
  } const driving{*this};
  return drive(until, wanted);
}

/// Waits for direct requests in the kernel, and collects.
int Library::drive(const timespec* until, std::uint32_t wanted) {
  timespec time = slice;
  if (until != nullptr) {
    const timespec left = left_until(*until);
    if (left.tv_sec == 0 && left.tv_nsec == 0) return EAGAIN;
    if (left.tv_sec == 0 && left.tv_nsec < time.tv_nsec) time = left;
  }
  const int error = direct_.wait(time, wanted);
  direct_.collect();
  return error == EINTR ? interrupted(until) : 0;
}

/// A handler has run in a wait that the kernel does not restart: returns what a futex would.
int Library::interrupted(const timespec* until) noexcept {
  if (until != nullptr) return has_handlers() ? EINTR : 0;
  const Restart restart = restart_of_handlers();
  if (restart == Restart::mixed) need_watcher();  // from now on the kernel decides
  return restart == Restart::all ? 0 : EINTR;
}

/// This thread collects for itself, so that the timer need not interrupt it.
int Library::wait_in_single_mode(std::uint32_t seen, const timespec* until) {
  struct TimerBlocked {
    sigset_t before;
    TimerBlocked() noexcept {
      sigset_t timer;
      sigemptyset(&timer);
      if (timer_signal != 0) sigaddset(&timer, timer_signal);
      pthread_sigmask(SIG_BLOCK, &timer, &before);
    }
    ~TimerBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } const blocked;
  for (const auto& shard : shards_) {
    if (!shard->busy() || !shard->driven_by_callers()) continue;
    const int error = shard->wait_as_caller(until);
    direct_.collect();
    return error == EINTR ? interrupted(until) : error;
  }
  // Another thread is about to open the first request's proactor.
  if (shards_busy()) return sleep_briefly(seen, until);
  return direct_.busy() ? drive(until, 1) : sleep(seen, until);
}

/// `watched`: unless the watcher has ended meanwhile.
int Library::sleep(std::uint32_t seen, const timespec* until, bool watched) {
  struct Sleeping {
    std::atomic<std::uint32_t>& count;
    explicit Sleeping(std::atomic<std::uint32_t>& sleepers) noexcept : count(sleepers) {
      count.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Sleeping() { count.fetch_sub(1, std::memory_order_seq_cst); }
  } const sleeping{sleepers_};
  if (watched && !watcher_.load(std::memory_order_seq_cst)) return 0;
  const int answer = futex_wait_cancellable(events_, seen, until);
  if (answer == ETIMEDOUT) return EAGAIN;
  return answer == EINTR ? EINTR : 0;
}

/// Sleeps for a slice: another thread collects, but may be kept from waking this one.
int Library::sleep_briefly(std::uint32_t seen, const timespec* until) {
  timespec end = after(monotonic_now(), slice);
  const bool last = until != nullptr && is_before(*until, end);
  if (last) end = *until;
  int error = sleep(seen, &end);
  direct_.collect();
  // The kernel does not restart a sleep with a time-out, and this time-out is not the caller's.
  if (error == EINTR && until == nullptr) error = interrupted(until);
  return error == EAGAIN && !last ? 0 : error;
}

bool Library::need_watcher() noexcept {
  if (options_.mode == Mode::single) return start_timer();
  if (watcher_.load(std::memory_order_seq_cst)) return true;
  const NoCancel no_cancel;
  const Locked locked{start_mutex_};
  if (watcher_.load(std::memory_order_relaxed)) return true;
  if (!direct_.open() || !start_thread(watch, this, watcher_stack)) return false;
  count(threads);
  watcher_.store(true, std::memory_order_release);
  return true;
}

void* Library::watch(void* self) {
  pthread_setname_np(pthread_self(), "uaio-watcher");
  note_no_handlers();
  auto& library = *static_cast<Library*>(self);
  for (;;) {
    const bool idle = !library.direct_.watch(idle_time);
    // The kernel wakes a thread that still waits for itself together with this one. That thread
    // must find its request in the ring or complete; it checks again after a slice.
    library.direct_.collect();
    if (!idle) continue;
    if (library.retire_watcher()) return nullptr;
  }
}

/// True: the watcher is not needed and its thread may end. The next thread that needs one starts
/// another.
bool Library::retire_watcher() noexcept {
  const Locked locked{start_mutex_};
  // seq_cst, all: either the watcher sees a thread that needs it, or that thread sees that the
  // watcher ends.
  watcher_.store(false, std::memory_order_seq_cst);
  const bool needed = direct_.busy() || sleepers_.load(std::memory_order_seq_cst) != 0;
  if (needed) watcher_.store(true, std::memory_order_seq_cst);
  return !needed;
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

// Every lock is held with signals blocked, so that a handler finds the locks of its own thread
// free. It does not wait for a lock of another thread.
void Library::tick() noexcept {
  for (const auto& shard : shards_) {
    if (pthread_mutex_trylock(&shard->mutex()) != 0) continue;
    shard->collect();
    pthread_mutex_unlock(&shard->mutex());
  }
  direct_.collect();
  notifier_.look();
}

}  // namespace uaio
