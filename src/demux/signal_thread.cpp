// SignalThread: the object of a thread in which strategies wait for signals.
#include "demux/signal_thread.hpp"

#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <utility>

#include "base/assert.hpp"
#include "os/thread_end.hpp"

namespace baton::demux {

// The thread's reference to its object.
struct SignalThread::OfThisThread {
  // Null after its end: a static proactor may still wait when the locals of a thread are destroyed.
  static thread_local OfThisThread* mine;
  static bool delete_at_thread_end() noexcept {
    static os::ThreadEnd end{[](void*) { delete std::exchange(mine, nullptr); }};
    return end.watch(mine);
  }

  ~OfThisThread() {
    if (thread == nullptr) return;
    const os::System& system = os::real_system();
    // In the child of a fork the object belongs to a thread of the parent, which may have held the
    // lock.
    if (thread->number_ != system.thread_self()) return;
    const os::LockGuard lock(thread->mutex_, system);
    thread->ended_ = true;
  }
  std::shared_ptr<SignalThread> thread;
};
constinit thread_local SignalThread::OfThisThread* SignalThread::OfThisThread::mine = nullptr;

SignalThread::SignalThread(std::uint64_t number) noexcept : number_(number) {
  sigemptyset(&blocked_);
}

std::shared_ptr<SignalThread> SignalThread::current(const os::System& system) noexcept try {
  if (OfThisThread::mine == nullptr) {
    OfThisThread::mine = new OfThisThread;
    if (!OfThisThread::delete_at_thread_end()) {
      delete std::exchange(OfThisThread::mine, nullptr);
      return nullptr;
    }
  }
  auto& mine = OfThisThread::mine->thread;
  const std::uint64_t number = system.thread_self();
  // In the child of a fork the object is the parent's, so make another one.
  if (mine == nullptr || mine->number_ != number) mine = std::make_shared<SignalThread>(number);
  return mine;
} catch (const std::bad_alloc&) {
  return nullptr;
}

bool SignalThread::is_current() const noexcept {
  return OfThisThread::mine != nullptr && OfThisThread::mine->thread.get() == this;
}

void SignalThread::enter(const os::System& system, const sigset_t& signals) noexcept {
  BATON_ASSERT(is_current());
  strategies_.fetch_add(1, std::memory_order_relaxed);
  sigset_t before;
  const int error = system.thread_sigmask(SIG_BLOCK, &signals, &before);
  BATON_ASSERT(error == 0);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (sigismember(&signals, number) == 1 && sigismember(&before, number) == 0) {
      sigaddset(&blocked_, number);
    }
  }
}

void SignalThread::leave(const os::System& system) noexcept {
  if (strategies_.fetch_sub(1, std::memory_order_relaxed) > 1 || !is_current()) return;
  const timespec at_once{};
  while (system.sigtimedwait(&blocked_, nullptr, &at_once) > 0 || errno == EINTR) {
  }
  system.thread_sigmask(SIG_UNBLOCK, &blocked_, nullptr);
  sigemptyset(&blocked_);
}

// The lock keeps the thread from ending, so its number is not reused. EBADF: the descriptor's owner
// has closed it.
std::error_code SignalThread::own(const os::System& system, NativeHandle fd) noexcept {
  const os::LockGuard lock(mutex_, system);
  if (ended_) return {ESRCH, std::system_category()};
  f_owner_ex owner{F_OWNER_TID, static_cast<pid_t>(number_)};
  if (system.fcntl(fd, F_SETOWN_EX, reinterpret_cast<long>(&owner)) == 0) return {};
  return {errno, std::system_category()};
}

}  // namespace baton::demux
