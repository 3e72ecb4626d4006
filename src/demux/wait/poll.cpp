// poll (POSIX; ppoll). The set is an array that every wait passes to the kernel. The kernel looks
// at all of it, so the cost of a wait grows with the number of descriptors.
//
// Pitfalls
//
//   - POLLERR, POLLHUP and POLLNVAL are reported even when nothing is asked for. The array holds
//     the complement of a descriptor without interest: the kernel skips negative numbers.
//   - A running wait does not see changes, and keeps every file of its array open inside the
//     kernel. If another thread closes a descriptor meanwhile, the close takes effect only when the
//     wait returns; until then the peer sees no end of stream. So the client interrupts the wait
//     after each change, a remove included.
//   - A closed descriptor stays in the array: each wait answers POLLNVAL, which is reported as
//     both.
//
// entries_ is the client's request: a dense array whose last entry replaces a removed one. places_
// finds a descriptor in it. wait polls its own copy and renews it only after a change. changes_
// tells whether the copy is current. If it is not, each report is checked against entries_, so that
// after remove no report has the old token. A scan starts where the last one ended: if the report
// array is short, low places do not starve high ones.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "base/assert.hpp"
#include "baton/wait_strategy.hpp"
#include "demux/wait/common.hpp"
#include "os/mutex.hpp"

namespace baton::demux {
namespace {

constexpr WaitStrategyInfo facts{
    .name = "poll", .trigger = Trigger::level, .takes_signal_mask = true};

constexpr std::uint32_t nowhere = UINT32_MAX;

pollfd entry_of(NativeHandle fd, Interest interest) noexcept {
  pollfd entry{};
  entry.fd = any(interest) ? fd : ~fd;
  if (any(interest & Interest::in)) entry.events |= POLLIN;
  if (any(interest & Interest::out)) entry.events |= POLLOUT;
  if (any(interest & Interest::urgent)) entry.events |= POLLPRI;
  return entry;
}

NativeHandle descriptor_of(const pollfd& entry) noexcept {
  return entry.fd >= 0 ? entry.fd : ~entry.fd;
}

Interest readiness_of(short events) noexcept {
  Interest ready = Interest::none;
  if ((events & POLLIN) != 0) ready = ready | Interest::in;
  if ((events & POLLOUT) != 0) ready = ready | Interest::out;
  if ((events & POLLPRI) != 0) ready = ready | Interest::urgent;
  if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) ready = ready | Interest::both;
  return ready;
}

// A set for select that is not limited to FD_SETSIZE.
class BitSet {
 public:
  explicit BitSet(std::size_t size) : words_(size / bits + 1) {}
  void set(NativeHandle fd, bool on) noexcept {
    if (on) words_[word(fd)] |= mask(fd);
  }
  [[nodiscard]] bool has(NativeHandle fd) const noexcept {
    return (words_[word(fd)] & mask(fd)) != 0;
  }
  [[nodiscard]] fd_set* get() noexcept { return reinterpret_cast<fd_set*>(words_.data()); }

 private:
  static constexpr std::size_t bits = 8 * sizeof(unsigned long);
  static std::size_t word(NativeHandle fd) noexcept { return static_cast<std::size_t>(fd) / bits; }
  static unsigned long mask(NativeHandle fd) noexcept {
    return 1UL << (static_cast<std::size_t>(fd) % bits);
  }
  std::vector<unsigned long> words_;
};
struct Sets {
  explicit Sets(std::size_t size) : in(size), out(size), urgent(size) {}
  BitSet in, out, urgent;
};

class PollWaitStrategy final : public WaitStrategy {
 public:
  explicit PollWaitStrategy(const os::System& system) noexcept : system_(system) {}

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return facts; }

  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    BATON_ASSERT(fd >= 0);
    const os::LockGuard lock(mutex_, system_);
    if (place_of(fd) != nowhere) return std::make_error_code(std::errc::file_exists);
    if (!make_room(fd)) return std::make_error_code(std::errc::not_enough_memory);
    places_[static_cast<std::size_t>(fd)] = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back(entry_of(fd, interest));
    tokens_.push_back(token);
    changed();
    return {};
  }

  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    const os::LockGuard lock(mutex_, system_);
    const std::uint32_t place = place_of(fd);
    if (place == nowhere) return std::make_error_code(std::errc::no_such_file_or_directory);
    entries_[place] = entry_of(fd, interest);
    tokens_[place] = token;
    changed();
    return {};
  }

  std::error_code remove(NativeHandle fd) noexcept override {
    const os::LockGuard lock(mutex_, system_);
    const std::uint32_t place = place_of(fd);
    if (place == nowhere) return {};
    places_[static_cast<std::size_t>(descriptor_of(entries_.back()))] = place;
    entries_[place] = entries_.back();
    tokens_[place] = tokens_.back();
    entries_.pop_back();
    tokens_.pop_back();
    places_[static_cast<std::size_t>(fd)] = nowhere;
    changed();
    return {};
  }

  Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                           const SignalMask* unblocked) noexcept override {
    BATON_ASSERT(!reports.empty());
    refresh();
    const Timeout timeout(system_, deadline);
    const int count =
        system_.ppoll(waited_.data(), static_cast<nfds_t>(waited_.size()), timeout.get(),
                      unblocked != nullptr ? &unblocked->set : nullptr);
    if (count < 0 && errno == EINVAL) return wait_by_select(reports, deadline, unblocked);
    if (count < 0) return failed();
    return collect(reports, static_cast<std::size_t>(count));
  }

 private:
  [[nodiscard]] std::uint32_t place_of(NativeHandle fd) const noexcept BATON_REQUIRES(mutex_) {
    const auto index = static_cast<std::size_t>(fd);
    return index < places_.size() ? places_[index] : nowhere;
  }

  bool make_room(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) try {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= places_.size()) places_.resize(index + index / 2 + 64, nowhere);
    if (entries_.size() == entries_.capacity()) {
      const std::size_t room = entries_.size() * 2 + 64;
      // Makes room for the waiting thread's copy first: that thread could not report a lack of
      // memory.
      spare_.reserve(room);
      spare_tokens_.reserve(room);
      tokens_.reserve(room);
      entries_.reserve(room);
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  // release, although no reader depends on the order: one that sees the new number takes the mutex.
  // Written under the mutex only.
  void changed() noexcept BATON_REQUIRES(mutex_) {
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  [[nodiscard]] bool copy_is_true() const noexcept {
    return changes_.load(std::memory_order_acquire) == waited_changes_;
  }

  // Renews the waiting thread's copy of the set. A later change counts as one during the wait.
  // Allocates nothing: adding an entry has made room for the copy.
  void refresh() noexcept {
    if (copy_is_true()) return;
    const os::LockGuard lock(mutex_, system_);
    // Either may be the short one: what has no memory for both lists may have enlarged the first.
    if (waited_.capacity() < entries_.size() || waited_tokens_.capacity() < tokens_.size()) {
      waited_.swap(spare_);
      waited_tokens_.swap(spare_tokens_);
    }
    BATON_ASSERT(waited_.capacity() >= entries_.size() &&
                 waited_tokens_.capacity() >= tokens_.size());
    waited_.assign(entries_.begin(), entries_.end());
    waited_tokens_.assign(tokens_.begin(), tokens_.end());
    waited_changes_ = changes_.load(std::memory_order_relaxed);
  }

  // EINVAL: there are more entries than RLIMIT_NOFILE. The program has lowered the limit meanwhile,
  // as daemons do after they have opened their descriptors. select checks no limit, and its sets
  // are made here as large as needed.
  Result<std::size_t> wait_by_select(std::span<Report> reports, Deadline deadline,
                                     const SignalMask* unblocked) noexcept try {
    NativeHandle end = 0;
    for (const pollfd& entry : waited_) end = std::max(end, entry.fd + 1);
    Sets sets(static_cast<std::size_t>(end));
    for (const pollfd& entry : waited_) {
      if (entry.fd < 0) continue;
      sets.in.set(entry.fd, (entry.events & POLLIN) != 0);
      sets.out.set(entry.fd, (entry.events & POLLOUT) != 0);
      sets.urgent.set(entry.fd, (entry.events & POLLPRI) != 0);
    }
    const Timeout timeout(system_, deadline);
    if (system_.pselect(end, sets.in.get(), sets.out.get(), sets.urgent.get(), timeout.get(),
                        unblocked != nullptr ? &unblocked->set : nullptr) < 0) {
      return errno == EBADF ? collect_closed(reports) : failed();
    }
    std::size_t ready = 0;
    for (pollfd& entry : waited_) {
      entry.revents = 0;
      if (entry.fd < 0) continue;
      if (sets.in.has(entry.fd)) entry.revents |= POLLIN;
      if (sets.out.has(entry.fd)) entry.revents |= POLLOUT;
      if (sets.urgent.has(entry.fd)) entry.revents |= POLLPRI;
      if (entry.revents != 0) ++ready;
    }
    return collect(reports, ready);
  } catch (const std::bad_alloc&) {
    return unexpected{std::make_error_code(std::errc::not_enough_memory)};
  }

  // One closed descriptor fails the whole select, which does not say which one it is. If the number
  // is in use again by now, the next wait waits.
  std::size_t collect_closed(std::span<Report> reports) noexcept {
    std::size_t closed = 0;
    for (pollfd& entry : waited_) {
      entry.revents = 0;
      if (entry.fd < 0 || system_.fcntl(entry.fd, F_GETFD, 0) >= 0) continue;
      entry.revents = POLLNVAL;
      ++closed;
    }
    return collect(reports, closed);
  }

  // EINTR: zero reports. ENOMEM: the caller's answer. EFAULT: only a bug.
  static Result<std::size_t> failed() noexcept {
    if (errno == EINTR) return std::size_t{0};
    return unexpected{system_error()};
  }

  std::size_t collect(std::span<Report> reports, std::size_t ready) noexcept {
    std::size_t count = 0;
    std::size_t looked = 0;
    for (; looked < waited_.size() && ready > 0 && count < reports.size(); ++looked) {
      if (next_ >= waited_.size()) next_ = 0;
      const std::size_t place = next_++;
      if (waited_[place].revents == 0) continue;
      --ready;
      const Report report{waited_tokens_[place], readiness_of(waited_[place].revents)};
      if (still_asked_for(place)) reports[count++] = report;
    }
    return count;
  }

  bool still_asked_for(std::size_t place) noexcept {
    if (copy_is_true()) return true;
    const os::LockGuard lock(mutex_, system_);
    const std::uint32_t now = place_of(descriptor_of(waited_[place]));
    return now != nowhere && tokens_[now] == waited_tokens_[place] && entries_[now].fd >= 0;
  }

  const os::System& system_;

  // Shared by the waiting thread and those that change the set.
  os::Mutex mutex_;
  std::vector<pollfd> entries_ BATON_GUARDED_BY(mutex_);
  std::vector<Token> tokens_ BATON_GUARDED_BY(mutex_);  // parallel to entries_
  std::vector<std::uint32_t> places_ BATON_GUARDED_BY(mutex_);
  // Room for the waiting thread's next copy.
  std::vector<pollfd> spare_ BATON_GUARDED_BY(mutex_);
  std::vector<Token> spare_tokens_ BATON_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> changes_{1};

  // Used by the waiting thread only.
  std::vector<pollfd> waited_;
  std::vector<Token> waited_tokens_;
  std::uint64_t waited_changes_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<WaitStrategy>, Failure> open_poll(const WaitOptions& options) {
  const os::System& system = os::or_real(options.system);
  return std::unique_ptr<WaitStrategy>(new PollWaitStrategy(system));
}

}  // namespace baton::demux
