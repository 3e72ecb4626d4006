#include "notifier.hpp"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "futex.hpp"
#include "library.hpp"
#include "thread.hpp"

namespace uaio {
namespace {

constexpr timespec pause_time{0, 2'000'000};
constexpr timespec pause_max{0, 128'000'000};
constexpr std::size_t thread_stack = 128U << 10;

/// 0 or an errno: EAGAIN when the queue of the process is full.
int queue_signal(const Notification& note) noexcept {
  siginfo_t info{};
  info.si_signo = note.signal;
  info.si_code = SI_ASYNCIO;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value = note.value;
  return ::syscall(SYS_rt_sigqueueinfo, info.si_pid, note.signal, &info) == 0 ? 0 : errno;
}

timespec longer(const timespec& pause) noexcept { return after(pause, pause); }

void pause_briefly() noexcept { ::syscall(SYS_nanosleep, &pause_time, nullptr); }

/// The program is to be told, so a shortage of memory is waited for.
Request& take_node(const Notification& note) noexcept {
  Request* node = take_request();
  while (node == nullptr) {
    pause_briefly();
    node = take_request();
  }
  node->note = note;
  return *node;
}

}  // namespace

void Notifier::Queue::push(Request& request) noexcept {
  request.next = nullptr;
  (first == nullptr ? first : last->next) = &request;
  last = &request;
}

Request* Notifier::Queue::pop() noexcept {
  Request* const request = first;
  if (request != nullptr) first = request->next;
  return request;
}

int Notifier::prepare(const Notification& note) noexcept {
  if (note.kind != SIGEV_THREAD || thread_.load(std::memory_order_acquire)) return 0;
  return ensure_thread() ? 0 : EAGAIN;
}

void Notifier::tell(const Notification& note) noexcept {
  if (note.silent()) return;
  int error = 0;
  if (note.kind == SIGEV_THREAD) {
    callbacks_.fetch_add(1, std::memory_order_relaxed);
    if (note.function == nullptr) return;
    error = call(note);
  } else {
    signals_.fetch_add(1, std::memory_order_relaxed);
    // Those that wait go first.
    const bool others = signals_waiting_.load(std::memory_order_acquire) != 0;
    error = others ? EAGAIN : queue_signal(note);
  }
  // Another error is for good, no such signal or no such attributes: it cannot be sent.
  if (error == EAGAIN) put_by(note);
}

void Notifier::put_by(const Notification& note) noexcept {
  Request& node = take_node(note);
  postponed_.fetch_add(1, std::memory_order_relaxed);
  {
    const Locked locked{mutex_};
    queue_.push(node);
    if (note.kind != SIGEV_THREAD) signals_waiting_.fetch_add(1, std::memory_order_release);
    waiting_.fetch_add(1, std::memory_order_release);
  }
  futex_wake(waiting_, 1);
  ensure_thread();
}

bool Notifier::is_out(const Notification& note) noexcept {
  return (note.kind == SIGEV_THREAD ? call(note) : queue_signal(note)) != EAGAIN;
}

/// Sends what can be sent: signals in their order, and callbacks whatever waits before them, since
/// there may never be room for the thread of one. True: some are left.
bool Notifier::try_again() noexcept {
  lock();
  Queue left;
  bool signals_fit = true;
  while (Request* const node = queue_.pop()) {
    const bool is_signal = node->note.kind != SIGEV_THREAD;
    if ((!is_signal || signals_fit) && is_out(node->note)) {
      if (is_signal) signals_waiting_.fetch_sub(1, std::memory_order_release);
      waiting_.fetch_sub(1, std::memory_order_release);
      give_request(*node);
    } else {
      if (is_signal) signals_fit = false;
      left.push(*node);
    }
  }
  queue_ = left;
  const bool some = queue_.first != nullptr;
  unlock();
  return some;
}

void Notifier::look() noexcept {
  if (!has_waiting() || ensure_thread()) return;
  const SignalsBlocked blocked;
  try_again();
}

// -- callbacks ------------------------------------------------------------------------------------

/// A thread of its own for the callback. 0 or an errno.
int Notifier::call(const Notification& note) noexcept {
  Request* const node = take_request();
  if (node == nullptr) return EAGAIN;
  node->note = note;
  pthread_attr_t detached;
  const pthread_attr_t* attributes = note.attributes;
  if (attributes == nullptr) {
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    attributes = &detached;
  }
  int state = PTHREAD_CREATE_JOINABLE;
  pthread_attr_getdetachstate(attributes, &state);
  pthread_t thread{};
  const int error = pthread_create(&thread, attributes, run_callback, node);
  if (attributes == &detached) pthread_attr_destroy(&detached);
  if (error != 0) {
    give_request(*node);
  } else if (state == PTHREAD_CREATE_JOINABLE) {
    pthread_detach(thread);
  }
  return error;
}

// The callback may end its thread (pthread_exit), which unwinds through here: no object stands in
// the way.
void* Notifier::run_callback(void* request) {
  auto* const node = static_cast<Request*>(request);
  void (*const function)(sigval) = node->note.function;
  const sigval value = node->note.value;
  give_request(*node);
  // As with the system's library: no signal is blocked.
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  function(value);
  return nullptr;
}

// -- the thread that tries again ------------------------------------------------------------------

bool Notifier::ensure_thread() noexcept {
  if (thread_.load(std::memory_order_acquire)) return true;
  const Locked locked{mutex_};
  if (thread_.load(std::memory_order_relaxed)) return true;
  if (!start_thread(run, this, thread_stack)) return false;
  thread_.store(true, std::memory_order_release);
  return true;
}

void* Notifier::run(void* self) {
  pthread_setname_np(pthread_self(), "uaio-notifier");
  static_cast<Notifier*>(self)->serve();
  return nullptr;
}

void Notifier::serve() noexcept {
  for (;;) {
    for (timespec pause = pause_time; try_again();
         pause = std::min(longer(pause), pause_max, is_before)) {
      const timespec until = after(monotonic_now(), pause);
      futex_wait(waiting_, waiting_.load(std::memory_order_acquire), &until);
    }
    const timespec until = after(monotonic_now(), idle_time);
    if (futex_wait(waiting_, 0, &until) == ETIMEDOUT && retire()) return;
  }
}

/// True: no notification needs the thread any more. REQUIRES: this is the thread.
bool Notifier::retire() noexcept {
  lock();
  const bool idle = !has_waiting() && !Library::get().busy();
  if (idle) thread_.store(false, std::memory_order_release);
  unlock();
  return idle;
}

void Notifier::reset() noexcept {
  while (Request* const node = queue_.pop()) give_request(*node);
  waiting_.store(0);
  signals_waiting_.store(0);
  thread_.store(false);
}

}  // namespace uaio
