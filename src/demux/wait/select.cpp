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
//     reading would miss the hang-ups after which there is no room (terminals, UNIX sockets, the
//     reading end of a pipe), and those that end the wait for urgent data. So the wait asks for
//     input as well, and one look with poll tells a hang-up from data. Unread data would end every
//     further wait: such a descriptor is polled instead, after each wait, until it is changed.
//     Waits are shortened for it. The hang-up of an IP socket is always room as well.
//   - The third set means urgent data, not errors.
//   - As with poll, a running wait does not see changes: the client interrupts it.
//
// The wait works on copies of the sets. Reports are made from the tables as they are afterwards, so
// that a removed descriptor is not reported. The count of changes tells whether a number was
// removed and added again meanwhile, as another descriptor. A scan starts where the last one ended:
// if the report array is short, low descriptors do not starve high ones.
#include <fcntl.h>
#include <sys/select.h>
#include <sys/socket.h>

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
    entry.family = Family::unknown;
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
    if (count == 0 && !waited.polled) return std::size_t{0};
    if (waited.watched) look_for_hang_ups(waited);
    return collect(reports, waited);
  }

 private:
  // How the client hears of a hang-up: by the bits that it asks for, by the bit for reading, which
  // it does not ask for, or, with unread data, by poll.
  enum class HangUp : std::uint8_t { reported, watched, polled };
  enum class Family : std::uint8_t { unknown, internet, other };
  struct Entry {
    Token token;
    std::uint64_t added_at = 0;  // in the count of changes; 0: not in the set
    Family family = Family::unknown;
    HangUp hang_up = HangUp::reported;
  };
  struct Waited {
    fd_set in;
    fd_set out;
    fd_set urgent;
    int end;
    std::uint64_t changes;
    bool watched;  // some entries are watched or polled for hang-ups
    bool polled;
  };

  void ask(NativeHandle fd, Interest interest) noexcept BATON_REQUIRES(mutex_) {
    Entry& entry = entries_[static_cast<std::size_t>(fd)];
    const bool in = any(interest & Interest::in);
    const bool watched =
        !in && (any(interest & Interest::urgent) ||
                (any(interest & Interest::out) && hangs_up_without_room(fd, entry)));
    set(in_, fd, in || watched);
    set(out_, fd, any(interest & Interest::out));
    set(urgent_, fd, any(interest & Interest::urgent));
    hear_of_hang_up(entry, watched ? HangUp::watched : HangUp::reported);
  }

  void hear_of_hang_up(Entry& entry, HangUp by) noexcept BATON_REQUIRES(mutex_) {
    watched_ += (by != HangUp::reported ? 1 : 0) - (entry.hang_up != HangUp::reported ? 1 : 0);
    polled_ += (by == HangUp::polled ? 1 : 0) - (entry.hang_up == HangUp::polled ? 1 : 0);
    entry.hang_up = by;
  }

  [[nodiscard]] bool hangs_up_without_room(NativeHandle fd, Entry& entry) const noexcept
      BATON_REQUIRES(mutex_) {
    if (entry.family == Family::unknown) {
      int domain = AF_UNSPEC;
      socklen_t size = sizeof(domain);
      const bool internet = system_.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
                            (domain == AF_INET || domain == AF_INET6);
      entry.family = internet ? Family::internet : Family::other;
    }
    return entry.family == Family::other;
  }

  // Leaves the bit for reading to those that ask for it.
  void look_for_hang_ups(Waited& waited) noexcept {
    const timespec at_once{};
    const os::LockGuard lock(mutex_, system_);
    for (NativeHandle fd = 0; fd < waited.end; ++fd) {
      Entry& entry = entries_[static_cast<std::size_t>(fd)];
      if (entry.hang_up == HangUp::reported) continue;
      if (entry.hang_up == HangUp::watched && !FD_ISSET(fd, &waited.in)) continue;
      // Without events, poll reports only hang-ups and errors.
      pollfd look{fd, 0, 0};
      const bool hung_up = system_.ppoll(&look, 1, &at_once, nullptr) > 0;
      set(waited.in, fd, hung_up);
      if (hung_up) {
        FD_SET(fd, &waited.out);
      } else {
        FD_CLR(fd, &in_);
        hear_of_hang_up(entry, HangUp::polled);
      }
    }
  }

  Waited copy() noexcept {
    const os::LockGuard lock(mutex_, system_);
    return {in_, out_, urgent_, end_, changes_, watched_ > 0, polled_ > 0};
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
  // The numbers of entries whose hang-ups are watched or polled for, and of those polled.
  int watched_ BATON_GUARDED_BY(mutex_) = 0;
  int polled_ BATON_GUARDED_BY(mutex_) = 0;
  std::array<Entry, FD_SETSIZE> entries_ BATON_GUARDED_BY(mutex_);

  int next_ = 0;  // used by the waiting thread only
};

}  // namespace

Result<std::unique_ptr<WaitStrategy>, Failure> open_select(const WaitOptions& options) {
  const os::System& system = os::or_real(options.system);
  return std::unique_ptr<WaitStrategy>(new SelectWaitStrategy(system));
}

}  // namespace baton::demux
