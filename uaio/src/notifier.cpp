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

timespec longer(const timespec& pause) noexcept { return after(pause, pause); }

void pause_briefly() noexcept { ::syscall(SYS_nanosleep, &pause_time, nullptr); }

/// The notification must be delivered, so a shortage of memory is waited out.
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

// -- notifications sent at once -------------------------------------------------------------------

int Notifier::prepare(const Notification& note) noexcept {
  return note.kind != SIGEV_THREAD || late_callbacks_.prepare() ? 0 : EAGAIN;
}

void Notifier::tell(const Notification& note) noexcept {
  if (note.silent()) return;
  const bool is_callback = note.kind == SIGEV_THREAD;
  (is_callback ? callbacks_ : signals_).fetch_add(1, std::memory_order_relaxed);
  if (is_callback && note.function == nullptr) return;
  Postponed& late = is_callback ? late_callbacks_ : late_signals_;
  // Waiting signals go first.
  const bool waits = is_callback ? has_own_table() || in_timer() : late.has_waiting();
  const int error = waits ? EAGAIN : (is_callback ? call(note) : queue_signal(note));
  // Any other error is permanent (no such signal, invalid attributes), unless it is this thread's:
  // after unshare(CLONE_NEWPID), or under a filter of its own.
  if (error == 0 || (error != EAGAIN && !late.has_thread())) return;
  if (!is_callback) postponed_.fetch_add(1, std::memory_order_relaxed);
  late.put_by(note);
}

void Notifier::look() noexcept {
  late_signals_.look();
  late_callbacks_.look();
}

/// 0 or an errno: EAGAIN when the queue of the process is full.
int Notifier::queue_signal(const Notification& note) noexcept {
  siginfo_t info{};
  info.si_signo = note.signal;
  info.si_code = SI_ASYNCIO;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value = note.value;
  return ::syscall(SYS_rt_sigqueueinfo, info.si_pid, note.signal, &info) == 0 ? 0 : errno;
}

// -- callbacks ------------------------------------------------------------------------------------

/// Starts a thread for the callback. 0 or an errno.
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
  const bool joinable = state == PTHREAD_CREATE_JOINABLE;
  pthread_t thread{};
  const int error =
      pthread_create(&thread, attributes, joinable ? run_joinable_callback : run_callback, node);
  if (attributes == &detached) pthread_attr_destroy(&detached);
  if (error != 0) give_request(*node);
  return error;
}

// The thread detaches itself, unless the callback has done so, or another thread is joining it. Its
// maker cannot: it may be gone by then, and its memory another thread's.
void* Notifier::run_joinable_callback(void* request) {
  run_callback(request);
  pthread_detach(pthread_self());
  return nullptr;
}

// The callback may end its thread (pthread_exit), which unwinds through here, so there must be no
// object with a destructor.
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

// -- notifications sent later ---------------------------------------------------------------------

void Postponed::Queue::push(Request& request) noexcept {
  request.next = nullptr;
  (first == nullptr ? first : last->next) = &request;
  last = &request;
}

Request* Postponed::Queue::pop() noexcept {
  Request* const request = first;
  if (request != nullptr) first = request->next;
  return request;
}

bool Postponed::prepare() noexcept {
  // seq_cst, both, as in retire(): either the thread stays, or this one sees that it has ended.
  prepared_.fetch_add(1, std::memory_order_seq_cst);
  return thread_.load(std::memory_order_seq_cst) || ensure_thread();
}

// Without the lock: the timer's handler may have interrupted a thread in pthread_create, for whose
// locks the holder of this one waits.
void Postponed::put_by(const Notification& note) noexcept {
  Request& node = take_node(note);
  Request* newest = arrived_.load(std::memory_order_relaxed);
  do {
    node.next = newest;
    // release: the thread that takes it sees the notification.
  } while (!arrived_.compare_exchange_weak(newest, &node, std::memory_order_release,
                                           std::memory_order_relaxed));
  waiting_.fetch_add(1, std::memory_order_release);
  futex_wake(waiting_, 1);
  ensure_thread();
}

/// In the order of their arrival. With the lock held.
void Postponed::take_arrived() noexcept {
  Request* newest = arrived_.exchange(nullptr, std::memory_order_acquire);
  Request* oldest = nullptr;
  while (newest != nullptr) {
    Request& each = *newest;
    newest = each.next;
    each.next = oldest;
    oldest = &each;
  }
  while (oldest != nullptr) {
    Request& each = *oldest;
    oldest = each.next;
    queue_.push(each);
  }
}

void Postponed::look() noexcept {
  if (!has_waiting() || ensure_thread() || (!in_order_ && in_timer())) return;
  const SignalsBlocked blocked;
  if (pthread_mutex_trylock(&mutex_) != 0) return;  // tried again later
  send_waiting();
  unlock();
}

bool Postponed::try_again() noexcept {
  lock();
  const bool some = send_waiting();
  unlock();
  return some;
}

/// True: some are left. With the lock held.
bool Postponed::send_waiting() noexcept {
  take_arrived();
  Queue left;
  bool fits = true;
  while (Request* const node = queue_.pop()) {
    fits = (fits || !in_order_) && send_(node->note) != EAGAIN;
    if (fits) {
      waiting_.fetch_sub(1, std::memory_order_release);
      give_request(*node);
    } else {
      left.push(*node);
    }
  }
  queue_ = left;
  return queue_.first != nullptr;
}

/// A keeper starts none: the callbacks would have its table. The timer's handler starts none.
bool Postponed::ensure_thread() noexcept {
  if (thread_.load(std::memory_order_acquire)) return true;
  if (in_timer()) return false;
  const Locked locked{mutex_};
  if (thread_.load(std::memory_order_relaxed)) return true;
  if (!in_order_ && has_own_table()) return false;
  if (!start_thread(run, this, thread_stack)) return false;
  thread_.store(true, std::memory_order_release);
  return true;
}

void* Postponed::run(void* self) {
  pthread_setname_np(pthread_self(), "uaio-notifier");
  static_cast<Postponed*>(self)->serve();
  return nullptr;
}

void Postponed::serve() noexcept {
  for (;;) {
    for (timespec pause = pause_time; try_again();
         pause = std::min(longer(pause), pause_max, is_before)) {
      const timespec until = after(monotonic_now(), pause);
      futex_wait(waiting_, waiting_.load(std::memory_order_acquire), &until);
    }
    const std::uint32_t seen = prepared_.load(std::memory_order_seq_cst);
    const timespec until = after(monotonic_now(), idle_time);
    if (futex_wait(waiting_, 0, &until) == ETIMEDOUT && retire(seen)) return;
  }
}

/// True: no notification needs the thread any more. REQUIRES: called by the thread.
bool Postponed::retire(std::uint32_t seen) noexcept {
  lock();
  thread_.store(false, std::memory_order_seq_cst);
  const bool idle =
      !has_waiting() && !Library::get().busy() && prepared_.load(std::memory_order_seq_cst) == seen;
  if (!idle) thread_.store(true, std::memory_order_seq_cst);
  unlock();
  return idle;
}

void Postponed::reset() noexcept {
  take_arrived();
  while (Request* const node = queue_.pop()) give_request(*node);
  waiting_.store(0);
  thread_.store(false);
}

}  // namespace uaio
