// Real-time signals (Linux; F_SETSIG). The kernel sends a signal with the descriptor and what has
// become ready, and queues real-time signals. Edge-triggered: the cost of a wait grows with the
// number of events. Each signal is directed (F_OWNER_TID) to the one thread that waits, which
// blocks it and takes it by sigtimedwait.
//
// Pitfalls
//
//   - The queue has a bound, RLIMIT_SIGPENDING, for all processes of the user together. Signals
//     that do not fit are lost. One plain SIGIO comes instead, which names no descriptor. Then
//     every descriptor is polled, so that no event is lost. With no room at all this strategy is
//     poll.
//   - Arming sends no signal for what is ready already. So each descriptor is polled once, in the
//     next wait after it was armed; the client interrupts a running one.
//   - A UNIX stream socket signals room only if a write has failed since it was armed
//     (SOCKWQ_ASYNC_NOSPACE, which its poll does not set). A connected UNIX datagram socket does
//     not signal room that its peer makes by reading another socket's datagram. So room is always
//     reported after arming, and the epoll set below watches for it, too. Without a descriptor or
//     memory for that, a client whose write to a stream then fails still gets the signal
//     (tells_room_after_try: also after a short write), and others may get none.
//   - By default, a signal ends the process if its thread does not block it. Hence F_OWNER_TID, and
//     the thread blocks the signal before a descriptor is armed. If the program unblocks it there,
//     our handler notes that a signal is lost, and every descriptor is polled.
//   - A signal to a thread that has ended vanishes, and another thread may have its number by now.
//     The next thread that waits is recognised by its SignalThread. It directs all signals to
//     itself and polls every descriptor. The cost grows with their number, so threads should not
//     take turns.
//   - A queued signal outlives remove and close. It may then be a hint to the next descriptor with
//     that number.
//   - One open file has one owner and one signal. A file that has O_ASYNC already is refused with
//     EBUSY: the program or another strategy has set it, or a duplicate of the descriptor is
//     watched. While a file is watched, its flags show O_ASYNC.
//   - Not every file can signal. eventfd, timerfd, signalfd and the like stay silent, and F_SETFL
//     succeeds all the same. A terminal signals input, but neither room nor a hang-up, and refuses
//     to be armed after a hang-up (ENOTTY). All of these are in a small epoll set (SilentFiles).
//   - When one end of a pipe closes, the other one is signalled as if data or room had come. Those
//     that wait for the direction that it lacks would miss the hang-up. So poll is asked for one at
//     each signal of a pipe that does not bring all that was asked for.
//   - No signal comes when the program itself shuts the reading side of a socket, as the kernel
//     wakes pollers only. A read that waits then goes on waiting; the next one ends.
//   - After a fork the file is shared and still signals the parent's thread, so the child forgets
//     the set and changes nothing. A child inherits the mask, and so does the program after exec.
//     exec without fork also keeps the thread's number: a descriptor that stays open across it has
//     to be removed first.
//   - A thread that has waited keeps the two signals blocked until a strategy ends in it, or the
//     thread ends. SIGIO cannot be shared with a program that handles it: open refuses.
//
// sigtimedwait takes no mask and watches no descriptor. With a mask to apply or with silent files,
// the thread sleeps in ppoll instead: on a signalfd, which the signals make readable, and on the
// set of silent files.
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/uninitialized.hpp"
#include "baton/limits.hpp"
#include "baton/wait_strategy.hpp"
#include "demux/async_file.hpp"
#include "demux/claim_signal.hpp"
#include "demux/signal_thread.hpp"
#include "demux/silent_files.hpp"
#include "demux/wait/common.hpp"
#include "os/mutex.hpp"

namespace baton::demux {
namespace {

constexpr WaitStrategyInfo facts{.name = "rt_signals",
                                 .trigger = Trigger::edge,
                                 .any_thread_waits = false,
                                 .hands_over = true,
                                 .tells_room_after_try = true,
                                 .takes_signal_mask = true,
                                 .forgets_closed = true};

// Counts signals that were delivered to the handler in any thread, so that their descriptor is
// unknown.
std::atomic<std::uint64_t> strays{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "counted by a signal handler");
extern "C" void baton_rt_signal_handler(int) { strays.fetch_add(1, std::memory_order_relaxed); }

short events_of(Interest interest) noexcept {
  short events = 0;
  if (any(interest & Interest::in)) events |= POLLIN;
  if (any(interest & Interest::out)) events |= POLLOUT;
  if (any(interest & Interest::urgent)) events |= POLLPRI;
  return events;
}

// The bits of poll, which are those of a signal's band, too. POLLNVAL, a closed descriptor, counts
// as nothing.
Interest readiness_of(long events) noexcept {
  Interest ready = Interest::none;
  if ((events & POLLIN) != 0) ready = ready | Interest::in;
  if ((events & POLLOUT) != 0) ready = ready | Interest::out;
  if ((events & POLLPRI) != 0) ready = ready | Interest::urgent;
  if ((events & (POLLERR | POLLHUP)) != 0) ready = ready | Interest::both;
  return ready;
}

bool is_silent(std::error_code error) noexcept {
  return error == std::errc::operation_not_supported ||
         error == std::errc::inappropriate_io_control_operation;
}

class RtSignalsWaitStrategy final : public WaitStrategy {
 public:
  RtSignalsWaitStrategy(const os::System& system, int number, const sigset_t& signals,
                        int signalfd) noexcept
      : system_(system), number_(number), signals_(signals), signalfd_(signalfd), silent_(system) {}
  ~RtSignalsWaitStrategy() override {
    if (thread_ != nullptr) thread_->leave(system_);
    close_signalfd();
  }

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return facts; }

  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    BATON_ASSERT(fd >= 0);
    const os::LockGuard lock(mutex_, system_);
    if (find(fd) != nullptr) return std::make_error_code(std::errc::file_exists);
    if (!make_room(fd)) return std::make_error_code(std::errc::not_enough_memory);
    return watch(fd, interest, token);
  }

  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    const os::LockGuard lock(mutex_, system_);
    if (find(fd) == nullptr) return std::make_error_code(std::errc::no_such_file_or_directory);
    return watch(fd, interest, token);
  }

  std::error_code remove(NativeHandle fd) noexcept override {
    const os::LockGuard lock(mutex_, system_);
    Entry* const entry = find(fd);
    if (entry == nullptr) return {};
    stop_watching(fd);
    entry->known = false;
    return {};
  }

  Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                           const SignalMask* unblocked) noexcept override {
    BATON_ASSERT(!reports.empty());
    reports_ = reports;
    count_ = 0;
    ++wait_;
    if (const std::error_code error = take_place()) return unexpected{error};
    if (take_over_the_rest()) deadline = std::min(deadline, soon());
    if (something_is_lost()) look_at_all();
    look();
    // With reports at hand the mask is not applied: a signal that it would let in ends the next
    // wait.
    const bool sleeps = count_ == 0;
    if (!sleeps) deadline = Deadline::immediately();
    // Reports at hand come before an error: they are made once, and the next wait meets the error
    // again.
    if (const auto error = collect(deadline, sleeps ? unblocked : nullptr)) {
      if (count_ == 0) return unexpected{error};
    }
    if (something_is_lost()) {
      look_at_all();
      look();
    }
    return count_;
  }

  void after_fork_in_child() noexcept override {
    // Without the lock: a thread of the parent may hold it, and does not exist here.
    mutex_.assume_held();
    entries_.clear();
    first_ = last_ = no_descriptor;
    listed_ = 0;
    close_signalfd();
    silent_.close();
  }

 private:
  static constexpr NativeHandle no_descriptor = invalid_handle;
  static constexpr Duration try_again_after{10'000'000};

  struct Entry {
    Token token;
    Interest interest = Interest::none;
    bool known = false;
    bool armed = false;        // signals come, or will from the first wait on
    bool pipe = false;         // armed, and no socket
    bool silent = false;       // the file cannot signal
    bool silent_room = false;  // room is asked of the set of silent files as well
    bool fresh = false;        // armed, and not polled since
    bool astray = false;  // its signals do not go to the waiting thread yet; take_over is retried
    bool listed = false;  // in the list of those to poll
    NativeHandle next = no_descriptor;
    std::uint64_t reported_in = 0;  // the number of the wait in which `slot` is its report
    std::size_t slot = 0;
  };

  // -- the set ------------------------------------------------------------------------------------

  Entry& at(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) {
    return entries_[static_cast<std::size_t>(fd)];
  }
  Entry* find(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) {
    const bool fits = fd >= 0 && static_cast<std::size_t>(fd) < entries_.size();
    return fits && at(fd).known ? &at(fd) : nullptr;
  }
  bool make_room(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) try {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= entries_.size()) entries_.resize(index + index / 2 + 64);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  std::error_code watch(NativeHandle fd, Interest interest, Token token) noexcept
      BATON_REQUIRES(mutex_) {
    Entry& entry = at(fd);
    if (!any(interest)) {
      stop_watching(fd);
    } else if (const std::error_code error = ask(fd, interest)) {
      return error;
    }
    entry.token = token;
    entry.interest = interest;
    entry.known = true;
    entry.reported_in = 0;
    return {};
  }

  std::error_code ask(NativeHandle fd, Interest interest) noexcept BATON_REQUIRES(mutex_) {
    Entry& entry = at(fd);
    if (entry.silent) return silent_.modify(fd, interest);
    if (!entry.armed) {
      const bool terminal = system_.isatty(fd) == 1;
      const std::error_code error = terminal ? std::error_code{} : arm_or_try(fd);
      if (terminal || is_silent(error)) return ask_silent(fd, interest);
      if (error) return error;
    }
    if (!std::exchange(entry.armed, true)) {
      entry.astray = false;
      entry.pipe = domain_of(fd) == AF_UNSPEC;
    }
    entry.fresh = true;
    look_later(fd);
    ask_for_room(fd, any(interest & Interest::out));
    return {};
  }

  // A UNIX socket does not signal all room. A failure leaves what it signals.
  void ask_for_room(NativeHandle fd, bool wanted) noexcept BATON_REQUIRES(mutex_) {
    Entry& entry = at(fd);
    if (wanted && domain_of(fd) != AF_UNIX) wanted = false;
    if (std::exchange(entry.silent_room, false)) {
      if (wanted && !silent_.modify(fd, Interest::out)) entry.silent_room = true;
      if (!wanted) silent_.remove(fd);
    }
    if (wanted && !entry.silent_room) entry.silent_room = !silent_.add(fd, Interest::out);
  }

  // AF_UNSPEC: no socket.
  [[nodiscard]] int domain_of(NativeHandle fd) const noexcept {
    int domain = AF_UNSPEC;
    socklen_t size = sizeof(domain);
    const int answer = system_.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    return answer == 0 ? domain : AF_UNSPEC;
  }

  std::error_code ask_silent(NativeHandle fd, Interest interest) noexcept BATON_REQUIRES(mutex_) {
    const std::error_code error = silent_.add(fd, interest);
    at(fd).silent = !error;
    return error;
  }

  void stop_watching(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) {
    Entry& entry = at(fd);
    if (std::exchange(entry.armed, false)) disarm(system_, fd);
    const bool room = std::exchange(entry.silent_room, false);
    if (std::exchange(entry.silent, false) || room) silent_.remove(fd);
  }

  // While no thread waits, the calling thread stands in for it, to find out whether the file can be
  // armed.
  std::error_code arm_or_try(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) {
    if (thread_ != nullptr) {
      const std::error_code error = arm(system_, fd, number_, *thread_);
      if (error != std::errc::no_such_process) return error;
    }
    const auto here = SignalThread::current(system_);
    if (here == nullptr) return std::make_error_code(std::errc::not_enough_memory);
    here->enter(system_, signals_);
    const std::error_code error = arm(system_, fd, number_, *here);
    if (!error) disarm(system_, fd);
    here->leave(system_);
    return error;
  }

  // -- the thread that waits ----------------------------------------------------------------------

  std::error_code take_place() noexcept {
    if (thread_ != nullptr && thread_->is_current()) return {};
    auto here = SignalThread::current(system_);
    if (here == nullptr) return std::make_error_code(std::errc::not_enough_memory);
    here->enter(system_, signals_);
    const os::LockGuard lock(mutex_, system_);
    if (thread_ != nullptr) thread_->leave(system_);
    thread_ = std::move(here);
    losses_seen_ = losses();  // those of the other thread are covered: all is polled below
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].known && entries_[i].armed) take_over(static_cast<NativeHandle>(i));
    }
    look_at_all_locked();
    return {};
  }

  // EBADF: its owner has closed it. EBUSY: its owner has armed it while no thread waited. After any
  // other error (ENOMEM) this is retried: until it succeeds, the signals go to a thread that no
  // longer waits here, or to none.
  void take_over(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) {
    Entry& entry = at(fd);
    std::error_code error;
    if (is_armed(system_, fd)) {
      error = thread_->own(system_, fd);
    } else {
      error = arm(system_, fd, number_, *thread_);
      entry.fresh = true;
    }
    entry.astray = error && error != std::errc::bad_file_descriptor &&
                   error != std::errc::device_or_resource_busy;
    astray_ = astray_ || entry.astray;
  }

  // True: some descriptors still do not signal this thread.
  bool take_over_the_rest() noexcept {
    const os::LockGuard lock(mutex_, system_);
    if (BATON_LIKELY(!astray_)) return false;
    astray_ = false;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].known || !entries_[i].armed || !entries_[i].astray) continue;
      const auto fd = static_cast<NativeHandle>(i);
      take_over(fd);
      look_later(fd);
    }
    return astray_;
  }
  Deadline soon() const noexcept {
    return Deadline::after(try_again_after, Deadline::at_ns(system_.monotonic_ns()));
  }

  // relaxed: this thread counts them; strays too, unless the program has directed some elsewhere.
  std::uint64_t losses() const noexcept {
    return strays.load(std::memory_order_relaxed) + thread_->losses();
  }
  bool something_is_lost() noexcept {
    const std::uint64_t now = losses();
    return std::exchange(losses_seen_, now) != now;
  }

  // -- looking ------------------------------------------------------------------------------------

  void look_later(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) {
    if (at(fd).listed) return;
    at(fd).listed = true;
    at(fd).next = no_descriptor;
    (first_ == no_descriptor ? first_ : at(last_).next) = fd;
    last_ = fd;
    ++listed_;
  }

  void look_at_all() noexcept {
    const os::LockGuard lock(mutex_, system_);
    look_at_all_locked();
  }
  void look_at_all_locked() noexcept BATON_REQUIRES(mutex_) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].known && entries_[i].armed) look_later(static_cast<NativeHandle>(i));
    }
  }

  struct Looked {
    std::array<pollfd, limits::reports_max> list;
    std::array<Token, limits::reports_max> tokens;
    std::size_t count = 0;
  };

  // Polls as many listed descriptors as there is room for reports; the others keep their turn. A
  // descriptor that is listed meanwhile has its turn in the next wait.
  void look() noexcept {
    Looked looked;
    const timespec at_once{};
    std::size_t left = listed();
    while (count_ < reports_.size() && left > 0) {
      take_listed(looked, left);
      if (looked.count == 0) return;
      const int answer = system_.ppoll(looked.list.data(), looked.count, &at_once, nullptr);
      // EINTR, ENOMEM, EINVAL (RLIMIT_NOFILE was lowered below their number): unknown, so let the
      // clients try. EFAULT: only a bug.
      const bool known = answer >= 0;
      const os::LockGuard lock(mutex_, system_);
      for (std::size_t i = 0; i < looked.count; ++i) {
        const NativeHandle fd = looked.list[i].fd;
        Entry* const entry = find(fd);
        if (entry == nullptr || entry->token != looked.tokens[i]) continue;
        const short found = looked.list[i].revents;
        Interest ready = known ? readiness_of(found) : Interest::all;
        const bool closed = known && (found & POLLNVAL) != 0;
        if (std::exchange(entry->fresh, false) && !closed) ready = ready | Interest::out;
        report(fd, ready);
      }
    }
  }

  std::size_t listed() noexcept {
    const os::LockGuard lock(mutex_, system_);
    return listed_;
  }

  void take_listed(Looked& looked, std::size_t& left) noexcept {
    const os::LockGuard lock(mutex_, system_);
    const std::size_t room = std::min(reports_.size() - count_, looked.list.size());
    looked.count = 0;
    for (; looked.count < room && left > 0; --left, --listed_) {
      const NativeHandle fd = first_;
      Entry& entry = at(fd);
      first_ = entry.next;
      entry.listed = false;
      if (!entry.known || !entry.armed) continue;
      looked.list[looked.count] = {fd, events_of(entry.interest), 0};
      looked.tokens[looked.count++] = entry.token;
    }
  }

  // -- taking what comes --------------------------------------------------------------------------

  std::error_code collect(Deadline deadline, const SignalMask* unblocked) noexcept {
    if (unblocked != nullptr || silent_.descriptor() != invalid_handle) {
      const Result<bool> signals = sleep(deadline, unblocked);
      if (!signals) return signals.error();
      if (!*signals) return {};
      deadline = Deadline::immediately();
    }
    for (std::size_t i = 0; i < limits::reports_max && count_ < reports_.size(); ++i) {
      siginfo_t info{};
      const Result<bool> taken = take(info, deadline);
      if (!taken) return taken.error();
      if (!*taken) break;
      note(info);
      deadline = Deadline::immediately();
    }
    return {};
  }

  // Returns whether there are signals to take. Makes the reports of silent files itself.
  Result<bool> sleep(Deadline deadline, const SignalMask* unblocked) noexcept {
    sigset_t mask;
    if (unblocked != nullptr) {
      mask = unblocked->set;
      sigaddset(&mask, number_);
      sigaddset(&mask, SIGIO);
    }
    std::array<pollfd, 2> list{{{signalfd_, POLLIN, 0}, {silent_.descriptor(), POLLIN, 0}}};
    const Timeout timeout(system_, deadline);
    const sigset_t* const pending = unblocked != nullptr ? &mask : nullptr;
    int count = system_.ppoll(list.data(), list.size(), timeout.get(), pending);
    if (count < 0 && errno == EINVAL) count = select(list, timeout.get(), pending);
    if (count < 0) {
      // ENOMEM: the caller's answer. EINVAL, EFAULT: only a bug.
      return errno == EINTR ? Result<bool>{false} : unexpected{system_error()};
    }
    // The program has closed a descriptor of ours: no wait is possible any more.
    if (((list[0].revents | list[1].revents) & POLLNVAL) != 0) {
      return unexpected{std::make_error_code(std::errc::bad_file_descriptor)};
    }
    if (list[1].revents != 0) take_silent();
    return list[0].revents != 0;
  }

  // Does the same when RLIMIT_NOFILE is less than two, which select does not check. Only reading
  // matters for both descriptors.
  int select(std::array<pollfd, 2>& list, const timespec* span, const sigset_t* mask) noexcept {
    fd_set in;
    FD_ZERO(&in);
    int end = 0;
    for (const pollfd& each : list) {
      if (each.fd < 0) continue;
      if (each.fd >= FD_SETSIZE) {
        errno = EINVAL;
        return -1;
      }
      FD_SET(each.fd, &in);
      end = std::max(end, each.fd + 1);
    }
    const int count = system_.pselect(end, &in, nullptr, nullptr, span, mask);
    if (count < 0) return count;
    for (pollfd& each : list) {
      if (each.fd >= 0 && FD_ISSET(each.fd, &in)) each.revents = POLLIN;
    }
    return count;
  }

  void take_silent() noexcept {
    BATON_UNINITIALIZED std::array<SilentFiles::Ready, limits::reports_max> ready;
    const std::size_t room = std::min(reports_.size() - count_, ready.size());
    if (room == 0) return;
    const std::size_t count = silent_.take(std::span{ready}.first(room));
    const os::LockGuard lock(mutex_, system_);
    for (std::size_t i = 0; i < count; ++i) {
      if (find(ready[i].fd) != nullptr) report(ready[i].fd, ready[i].what);
    }
  }

  // EAGAIN: the time is up. EINTR: some other signal. EINVAL: only a bug.
  Result<bool> take(siginfo_t& info, Deadline deadline) noexcept {
    const Timeout timeout(system_, deadline);
    if (system_.sigtimedwait(&signals_, &info, timeout.get()) > 0) return true;
    if (errno == EAGAIN || errno == EINTR) return false;
    return unexpected{system_error()};
  }

  void note(const siginfo_t& info) noexcept {
    if (info.si_signo == SIGIO) return thread_->lose();             // the queue was full
    if (info.si_code < POLL_IN || info.si_code > POLL_HUP) return;  // sent by hand
    const os::LockGuard lock(mutex_, system_);
    if (const Entry* const entry = find(info.si_fd); entry != nullptr) {
      Interest ready = readiness_of(info.si_band);
      const bool all = (ready & entry->interest) == entry->interest;
      if (entry->pipe && !all && has_hung_up(info.si_fd)) ready = ready | Interest::both;
      return report(info.si_fd, ready);
    }
    // The signal is stale, or was meant for another strategy that waits in this thread.
    if (thread_->shared()) thread_->lose();
  }

  [[nodiscard]] bool has_hung_up(NativeHandle fd) const noexcept {
    const timespec at_once{};
    // Without events, poll reports only hang-ups and errors.
    pollfd look{fd, 0, 0};
    return system_.ppoll(&look, 1, &at_once, nullptr) > 0 && (look.revents & POLLNVAL) == 0;
  }

  // Makes one report for each descriptor, however many signals came. REQUIRES also: room for it.
  void report(NativeHandle fd, Interest ready) noexcept BATON_REQUIRES(mutex_) {
    Entry& entry = at(fd);
    // A hang-up is both, also for those that wait for urgent data only.
    const bool hung_up = ready == Interest::both && entry.interest == Interest::urgent;
    if (!hung_up) ready = ready & entry.interest;
    if (!any(ready)) return;
    if (entry.reported_in == wait_) {
      reports_[entry.slot].ready = reports_[entry.slot].ready | ready;
      return;
    }
    BATON_ASSERT(count_ < reports_.size());
    entry.reported_in = wait_;
    entry.slot = count_;
    reports_[count_++] = {entry.token, ready};
  }

  void close_signalfd() noexcept {
    if (signalfd_ != invalid_handle) static_cast<void>(system_.close(signalfd_));
    signalfd_ = invalid_handle;
  }

  const os::System& system_;
  const int number_;
  const sigset_t signals_;  // the number, and SIGIO
  int signalfd_;
  SilentFiles silent_;

  // Shared by the waiting thread and those that change the set.
  os::Mutex mutex_;
  std::vector<Entry> entries_ BATON_GUARDED_BY(mutex_);          // by descriptor
  bool astray_ BATON_GUARDED_BY(mutex_) = false;                 // at least one entry is astray
  NativeHandle first_ BATON_GUARDED_BY(mutex_) = no_descriptor;  // those to poll, by Entry::next
  NativeHandle last_ BATON_GUARDED_BY(mutex_) = no_descriptor;
  std::size_t listed_ BATON_GUARDED_BY(mutex_) = 0;

  // Only the waiting thread changes it, under the mutex, so it reads it without.
  std::shared_ptr<SignalThread> thread_;

  // Used by the waiting thread only.
  std::span<Report> reports_;
  std::size_t count_ = 0;
  std::uint64_t wait_ = 0;
  std::uint64_t losses_seen_ = 0;
};

Claim claim(const os::System& system, int number) noexcept {
  return claim_signal(system, number, baton_rt_signal_handler);
}

// Searches from the end: programs number their signals upwards from SIGRTMIN.
int free_number(const os::System& system) noexcept {
  for (int number = SIGRTMAX; number > SIGRTMIN; --number) {
    if (claim(system, number) == Claim::ours) return number;
  }
  return 0;
}

Failure refused(int number, const char* why, ReasonCode code) {
  return {errc::bad_configuration,
          "signal " + std::to_string(number) + " cannot tell of readiness: " + why +
              "; choose another wait_signal, or 0",
          code};
}

Result<int, Failure> choose_number(const os::System& system, int wanted) {
  if (wanted == 0) {
    const int number = free_number(system);
    if (number != 0) return number;
    return unexpected{Failure{errc::engine_unavailable,
                              "the program uses every real-time signal itself; name a wait_signal",
                              ReasonCode::signal_taken}};
  }
  if (wanted < SIGRTMIN || wanted > SIGRTMAX) {
    return unexpected{refused(wanted, "only real-time signals queue up", ReasonCode::bad_value)};
  }
  const Claim answer = claim(system, wanted);
  if (answer == Claim::ours) return wanted;
  return unexpected{
      answer == Claim::taken
          ? refused(wanted, "the program uses it itself", ReasonCode::signal_taken)
          : refused(wanted, "the system does not let it be caught", ReasonCode::denied)};
}

}  // namespace

Result<std::unique_ptr<WaitStrategy>, Failure> open_rt_signals(const WaitOptions& options) {
  const os::System& system = os::or_real(options.system);
  if (const Claim answer = claim(system, SIGIO); answer != Claim::ours) {
    const bool taken = answer == Claim::taken;
    return unexpected{Failure{errc::engine_unavailable,
                              std::string(taken ? "the program uses SIGIO itself"
                                                : "the system does not let SIGIO be caught") +
                                  ", by which the system tells that the queue of signals is full",
                              taken ? ReasonCode::signal_taken : ReasonCode::denied}};
  }
  const auto number = choose_number(system, options.signal_number);
  if (!number) return unexpected{number.error()};
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, *number);
  sigaddset(&signals, SIGIO);
  const int signalfd = system.signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signalfd < 0) {
    // EMFILE, ENFILE, ENOMEM, ENODEV: limits. ENOSYS, EPERM: no signalfd, or a filter of system
    // calls.
    const std::error_code error = system_error();
    return unexpected{Failure{error, "signalfd: " + error.message()}};
  }
  std::unique_ptr<WaitStrategy> made(new (std::nothrow)
                                         RtSignalsWaitStrategy(system, *number, signals, signalfd));
  if (made != nullptr) return made;
  static_cast<void>(system.close(signalfd));
  return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory), "no memory"}};
}

}  // namespace baton::demux
