// select (POSIX; pselect), the oldest and most portable strategy. Every wait passes three bit sets
// to the kernel, which looks at every number up to the highest.
//
// Pitfalls
//
//   - A descriptor of FD_SETSIZE (1024) or more does not fit: setting its bit would write beyond
//     the set. It is refused with errc::descriptor_out_of_range.
//   - One closed descriptor fails the whole wait with EBADF, which does not say which one it is.
//     Then fcntl checks each, and the closed ones are reported as both, so that their owner's next
//     call finds the error.
//   - A hang-up sets the bit for reading only, an error sets both. A client that does not watch for
//     reading would miss two kinds of hang-ups: after one the descriptor never gets writable
//     (terminals only), and one ends the wait for urgent data. Such descriptors are polled after
//     each wait, and waits are shortened for them.
//   - The third set means urgent data, not errors.
//   - As with poll, a running wait does not see changes: the client interrupts it.
//
// The wait works on copies of the sets. Reports are made from the tables as they are afterwards, so
// that a removed descriptor is not reported. The count of changes tells whether a number was
// removed and added again meanwhile, as another descriptor. A scan starts where the last one ended:
// if the report array is short, low descriptors do not starve high ones.
#include <fcntl.h>
#include <sys/select.h>

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "baton/wait_strategy.hpp"
#include "demux/wait/common.hpp"
#include "os/mutex.hpp"

namespace baton::demux {
namespace {

constexpr WaitStrategyInfo facts{.name = "select",
                                 .trigger = Trigger::level,
                                 .descriptors_max = FD_SETSIZE,
                                 .descriptor_end = FD_SETSIZE,
                                 .takes_signal_mask = true};

// The time between two polls for the hang-ups that the wait does not report.
constexpr Duration polled_every{100'000'000};

void set(fd_set& bits, NativeHandle fd, bool on) noexcept {
  if (on) {
    FD_SET(fd, &bits);
  } else {
    FD_CLR(fd, &bits);
  }
}

class SelectWaitStrategy final : public WaitStrategy {
 public:
  explicit SelectWaitStrategy(const os::System& system) noexcept : system_(system) {
    FD_ZERO(&in_);
    FD_ZERO(&out_);
    FD_ZERO(&urgent_);
  }

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return facts; }

  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    BATON_ASSERT(fd >= 0);
    if (fd >= FD_SETSIZE) return errc::descriptor_out_of_range;
    const os::LockGuard lock(mutex_, system_);
    Entry& entry = entries_[static_cast<std::size_t>(fd)];
    if (entry.added_at != 0) return std::make_error_code(std::errc::file_exists);
    entry.token = token;
    entry.added_at = ++changes_;
    entry.is = Is::unknown;
    ask(fd, interest);
    if (fd >= end_) end_ = fd + 1;
    return {};
  }

  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    if (fd >= FD_SETSIZE) return errc::descriptor_out_of_range;
    const os::LockGuard lock(mutex_, system_);
    Entry& entry = entries_[static_cast<std::size_t>(fd)];
    if (entry.added_at == 0) return std::make_error_code(std::errc::no_such_file_or_directory);
    entry.token = token;
    ask(fd, interest);
    return {};
  }

  std::error_code remove(NativeHandle fd) noexcept override {
    if (fd >= FD_SETSIZE) return {};
    const os::LockGuard lock(mutex_, system_);
    entries_[static_cast<std::size_t>(fd)].added_at = 0;
    ask(fd, Interest::none);
    while (end_ > 0 && entries_[static_cast<std::size_t>(end_ - 1)].added_at == 0) --end_;
    return {};
  }

  Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                           const SignalMask* unblocked) noexcept override {
    BATON_ASSERT(!reports.empty());
    Waited waited = copy();
    if (waited.polled) {
      const Deadline now = Deadline::at_ns(system_.monotonic_ns());
      deadline = std::min(deadline, Deadline::after(polled_every, now));
    }
    const Timeout timeout(system_, deadline);
    const int count =
        system_.pselect(waited.end, &waited.in, &waited.out, &waited.urgent, timeout.get(),
                        unblocked != nullptr ? &unblocked->set : nullptr);
    if (count < 0) return failed(reports, waited);
    if (waited.polled) {
      poll_for_hang_ups(waited);
    } else if (count == 0) {
      return std::size_t{0};
    }
    return collect(reports, waited);
  }

 private:
  enum class Is : std::uint8_t { unknown, terminal, other };
  struct Entry {
    Token token;
    std::uint64_t added_at = 0;  // in the count of changes; 0: not in the set
    Is is = Is::unknown;
    bool polled = false;  // for a hang-up
  };
  struct Waited {
    fd_set in;
    fd_set out;
    fd_set urgent;
    int end;
    std::uint64_t changes;
    bool polled;  // some entries are polled
  };

  void ask(NativeHandle fd, Interest interest) noexcept BATON_REQUIRES(mutex_) {
    set(in_, fd, any(interest & Interest::in));
    set(out_, fd, any(interest & Interest::out));
    set(urgent_, fd, any(interest & Interest::urgent));
    Entry& entry = entries_[static_cast<std::size_t>(fd)];
    const bool polled = !any(interest & Interest::in) &&
                        (any(interest & Interest::urgent) ||
                         (any(interest & Interest::out) && is_terminal(fd, entry)));
    if (polled != entry.polled) polled_ += polled ? 1 : -1;
    entry.polled = polled;
  }

  [[nodiscard]] bool is_terminal(NativeHandle fd, Entry& entry) const noexcept
      BATON_REQUIRES(mutex_) {
    if (entry.is == Is::unknown) {
      entry.is = system_.isatty(fd) == 1 ? Is::terminal : Is::other;
    }
    return entry.is == Is::terminal;
  }

  void poll_for_hang_ups(Waited& waited) noexcept {
    const timespec at_once{};
    const os::LockGuard lock(mutex_, system_);
    for (NativeHandle fd = 0; fd < waited.end; ++fd) {
      if (!entries_[static_cast<std::size_t>(fd)].polled) continue;
      // Without events, poll reports only hang-ups and errors.
      pollfd look{fd, 0, 0};
      if (system_.ppoll(&look, 1, &at_once, nullptr) <= 0) continue;
      FD_SET(fd, &waited.in);
      FD_SET(fd, &waited.out);
    }
  }

  Waited copy() noexcept {
    const os::LockGuard lock(mutex_, system_);
    return {in_, out_, urgent_, end_, changes_, polled_ > 0};
  }

  // EINTR: zero reports. EBADF: a descriptor was closed. ENOMEM: the caller's answer. EINVAL: the
  // limit of descriptors was lowered below the highest one. EFAULT: only a bug.
  Result<std::size_t> failed(std::span<Report> reports, Waited& asked) noexcept {
    const int error = errno;
    if (error == EINTR) return std::size_t{0};
    if (error != EBADF) return unexpected{system_error(error)};
    bool found = false;
    for (NativeHandle fd = 0; fd < asked.end; ++fd) {
      const bool wanted =
          FD_ISSET(fd, &asked.in) || FD_ISSET(fd, &asked.out) || FD_ISSET(fd, &asked.urgent);
      const bool closed = wanted && system_.fcntl(fd, F_GETFD, 0) < 0 && errno == EBADF;
      set(asked.in, fd, closed);
      set(asked.out, fd, closed);
      set(asked.urgent, fd, false);
      found = found || closed;
    }
    return found ? collect(reports, asked) : std::size_t{0};
  }

  std::size_t collect(std::span<Report> reports, const Waited& waited) noexcept {
    const os::LockGuard lock(mutex_, system_);
    std::size_t count = 0;
    for (int looked = 0; looked < waited.end && count < reports.size(); ++looked) {
      if (next_ >= waited.end) next_ = 0;
      const NativeHandle fd = next_++;
      Interest ready = Interest::none;
      if (FD_ISSET(fd, &waited.in)) ready = ready | Interest::in;
      if (FD_ISSET(fd, &waited.out)) ready = ready | Interest::out;
      if (FD_ISSET(fd, &waited.urgent)) ready = ready | Interest::urgent;
      if (!any(ready) || !still_asked_for(fd, waited)) continue;
      reports[count++] = Report{entries_[static_cast<std::size_t>(fd)].token, ready};
    }
    return count;
  }

  [[nodiscard]] bool still_asked_for(NativeHandle fd, const Waited& waited) const noexcept
      BATON_REQUIRES(mutex_) {
    const Entry& entry = entries_[static_cast<std::size_t>(fd)];
    const bool same = entry.added_at != 0 && entry.added_at <= waited.changes;
    return same && (FD_ISSET(fd, &in_) || FD_ISSET(fd, &out_) || FD_ISSET(fd, &urgent_));
  }

  const os::System& system_;

  // Shared by the waiting thread and those that change the set.
  os::Mutex mutex_;
  fd_set in_ BATON_GUARDED_BY(mutex_);
  fd_set out_ BATON_GUARDED_BY(mutex_);
  fd_set urgent_ BATON_GUARDED_BY(mutex_);
  int end_ BATON_GUARDED_BY(mutex_) = 0;  // one more than the highest
  std::uint64_t changes_ BATON_GUARDED_BY(mutex_) = 0;
  int polled_ BATON_GUARDED_BY(mutex_) = 0;  // number of polled entries
  std::array<Entry, FD_SETSIZE> entries_ BATON_GUARDED_BY(mutex_);

  int next_ = 0;  // used by the waiting thread only
};

}  // namespace

Result<std::unique_ptr<WaitStrategy>, Failure> open_select(const WaitOptions& options) {
  const os::System& system = os::or_real(options.system);
  return std::unique_ptr<WaitStrategy>(new SelectWaitStrategy(system));
}

}  // namespace baton::demux
