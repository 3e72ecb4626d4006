#include "notifier.hpp"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "futex.hpp"

namespace uaio {
namespace {

constexpr timespec idle_time{2, 0};
constexpr timespec memory_pause{0, 1'000'000};

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

/// Somebody must be told, so want of memory is waited for.
Request* take_node(const Notification& note) noexcept {
  Request* node = take_request();
  while (node == nullptr) {
    ::nanosleep(&memory_pause, nullptr);
    node = take_request();
  }
  node->note = note;
  return node;
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

bool Notifier::tell(const Notification& note) noexcept {
  if (note.kind == SIGEV_THREAD) {
    callbacks_.fetch_add(1, std::memory_order_relaxed);
    call(note);
    return false;
  }
  if (note.kind != SIGEV_SIGNAL || note.signal == 0) return false;
  signals_.fetch_add(1, std::memory_order_relaxed);
  // What had to wait goes first.
  if (!has_waiting() && queue_signal(note) != EAGAIN) return false;
  return put_by(note);
}

bool Notifier::put_by(const Notification& note) noexcept {
  Request* const node = take_node(note);
  postponed_.fetch_add(1, std::memory_order_relaxed);
  lock();
  signals_waiting_.push(*node);
  waiting_count_.fetch_add(1, std::memory_order_release);
  unlock();
  return true;
}

bool Notifier::send_waiting() noexcept {
  if (!has_waiting()) return false;
  lock();
  while (signals_waiting_.first != nullptr &&
         queue_signal(signals_waiting_.first->note) != EAGAIN) {
    give_request(*signals_waiting_.pop());
    waiting_count_.fetch_sub(1, std::memory_order_release);
  }
  const bool some = signals_waiting_.first != nullptr;
  unlock();
  return some;
}

void Notifier::call(const Notification& note) noexcept {
  if (note.function == nullptr) return;
  if (note.attributes != nullptr && call_in_own_thread(note)) return;
  Request* const node = take_node(note);
  lock();
  callbacks_waiting_.push(*node);
  // relaxed: the queue is guarded by the mutex.
  queued_.fetch_add(1, std::memory_order_relaxed);
  ++callbacks_length_;
  // A callback may wait for another: each that is queued needs a thread, up to the bound.
  const bool wake = idle_ >= callbacks_length_;
  bool create = !wake && threads_ < threads_max_;
  if (create) ++threads_;
  unlock();
  while (create) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, serve, this) == 0) {
      pthread_detach(thread);
      break;
    }
    // Another one will come by; if there is none, there must be one.
    lock();
    if (threads_ > 1) {
      --threads_;
      create = false;
    }
    unlock();
    if (create) ::nanosleep(&memory_pause, nullptr);
  }
  if (wake) futex_wake(queued_, 1);
}

// A program that gives attributes wants them: a thread for this call, as long as there are few.
bool Notifier::call_in_own_thread(const Notification& note) noexcept {
  if (own_threads_.fetch_add(1, std::memory_order_relaxed) >= threads_max_) {
    own_threads_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  Request* const node = take_node(note);
  node->data = this;
  pthread_t thread;
  if (pthread_create(&thread, note.attributes, serve_one, node) != 0) {
    give_request(*node);
    own_threads_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  int state = PTHREAD_CREATE_JOINABLE;
  pthread_attr_getdetachstate(note.attributes, &state);
  if (state == PTHREAD_CREATE_JOINABLE) pthread_detach(thread);
  return true;
}

void* Notifier::serve_one(void* request) {
  auto* const node = static_cast<Request*>(request);
  auto* const self = static_cast<Notifier*>(node->data);
  const Notification note = node->note;
  give_request(*node);
  note.function(note.value);
  self->own_threads_.fetch_sub(1, std::memory_order_relaxed);
  return nullptr;
}

void* Notifier::serve(void* self) {
  static_cast<Notifier*>(self)->serve_queue();
  return nullptr;
}

// A callback may end its thread (pthread_exit), which unwinds through here.
void Notifier::serve_queue() {
  struct Leaving {
    Notifier& self;
    ~Leaving() {
      self.lock();
      --self.threads_;
      self.unlock();
    }
  } const leaving{*this};
  Notification note;
  while (next_callback(note)) note.function(note.value);
}

/// False: there was none for a while.
bool Notifier::next_callback(Notification& note) noexcept {
  lock();
  for (;;) {
    if (Request* const node = callbacks_waiting_.pop(); node != nullptr) {
      --callbacks_length_;
      unlock();
      note = node->note;
      give_request(*node);
      return true;
    }
    const std::uint32_t seen = queued_.load(std::memory_order_relaxed);
    ++idle_;
    unlock();
    const timespec until = after(monotonic_now(), idle_time);
    const int answer = futex_wait(queued_, seen, &until);
    lock();
    --idle_;
    if (answer == ETIMEDOUT && callbacks_waiting_.first == nullptr) break;
  }
  unlock();
  return false;
}

void Notifier::reset() noexcept {
  while (Request* const node = signals_waiting_.pop()) give_request(*node);
  while (Request* const node = callbacks_waiting_.pop()) give_request(*node);
  threads_ = 0;
  callbacks_length_ = 0;
  idle_ = 0;
  waiting_count_.store(0);
  own_threads_.store(0);
}

}  // namespace uaio
