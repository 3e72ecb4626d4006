// The Demultiplexer: lazy registration, and one semantics for level, edge and one-shot strategies.
// Strategies are found by name in demux/registry. The code asks WaitStrategyInfo how they differ,
// and never looks at the name.
#include "demux/demultiplexer.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "baton/limits.hpp"
#include "baton/log.hpp"
#include "demux/registry.hpp"

namespace baton::demux {
namespace {

constexpr Token interrupt_token{UINT32_MAX, 1};

constexpr unsigned ready_shift = 3;
constexpr std::uint8_t registered_bit = 64;

// Values of holders_ that are no index of a client.
constexpr std::uint32_t not_held = UINT32_MAX - 1;
constexpr std::uint32_t never_held = UINT32_MAX;

constexpr std::uint8_t armed(Interest interest) noexcept {
  return static_cast<std::uint8_t>(interest);
}
constexpr std::uint8_t ready(Interest interest) noexcept {
  return static_cast<std::uint8_t>(armed(interest) << ready_shift);
}
constexpr Interest armed_of(std::uint8_t state) noexcept {
  return static_cast<Interest>(state & armed(Interest::all));
}
constexpr std::uint8_t without(std::uint8_t bits) noexcept {
  return static_cast<std::uint8_t>(~bits);
}
// An error or a hang-up is reported as both. A client that watches for urgent data only has to get
// the report as well, or a level-triggered strategy would repeat it for ever.
constexpr Interest with_trouble(Interest ready, Interest watched) noexcept {
  const bool unheard = (ready & Interest::both) == Interest::both && watched == Interest::urgent;
  return unheard ? ready | Interest::urgent : ready;
}

template <class Entries>
std::string names(const Entries& entries) {
  std::string list = "auto";
  for (const auto& entry : entries) list += ", " + entry.name;
  return list;
}

Result<std::unique_ptr<WaitStrategy>, Failure> open_wait(
    const RegistryEntry<WaitStrategyFactory>& entry, const Options& options) {
  const WaitOptions wait_options{.system = options.system,
                                 .descriptors_max = options.descriptors_max + 1,  // the interrupter
                                 .signal_number = options.wait_signal};
  auto strategy = entry.factory(wait_options);
  if (!strategy) {
    Failure failure = strategy.error();
    failure.reason = "wait=" + entry.name + ": " + failure.reason;
    return unexpected{std::move(failure)};
  }
  if (!(*strategy)->info().any_thread_waits && !options.one_thread_waits) {
    return unexpected{Failure{errc::bad_configuration,
                              "wait=" + entry.name +
                                  " needs one thread that always waits: use mode=dedicated or "
                                  "mode=per_thread",
                              ReasonCode::needs_one_thread}};
  }
  return strategy;
}

Result<std::unique_ptr<WaitStrategy>, Failure> choose_wait(const Options& options) {
  if (options.wait != "auto") {
    const auto entry = find_wait_strategy(options.wait);
    if (entry) return open_wait(*entry, options);
    return unexpected{Failure{errc::unknown_name, "unknown wait strategy '" +
                                                      std::string(options.wait) + "'; there are " +
                                                      names(wait_strategies())}};
  }
  Failure last{errc::engine_unavailable, "no wait strategy is built in"};
  for (const auto& entry : builtin_wait_strategies()) {
    auto strategy = open_wait(entry, options);
    if (strategy) return strategy;
    last = strategy.error();
    if (options.explain)
      options.explain(with_code(last.reason + "; the next one is tried", last.reason_code));
  }
  return unexpected{std::move(last)};
}

}  // namespace

// -- opening --------------------------------------------------------------------------------------

Result<std::unique_ptr<Demultiplexer>, Failure> Demultiplexer::open(const Options& given) {
  Options options = given;
  if (options.descriptors_max == 0) options.descriptors_max = limits::handles_max;
  try {
    auto strategy = choose_wait(options);
    if (!strategy) return unexpected{strategy.error()};
    std::unique_ptr<Demultiplexer> demultiplexer(new Demultiplexer(options, std::move(*strategy)));
    if (auto chosen = demultiplexer->choose_interrupt(options); !chosen) {
      return unexpected{chosen.error()};
    }
    return demultiplexer;
  } catch (const std::bad_alloc&) {
    return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory),
                              "no memory for the table of descriptors"}};
  }
}

Demultiplexer::Demultiplexer(const Options& options, std::unique_ptr<WaitStrategy> strategy)
    : system_(os::or_real(options.system)),
      concurrent_(options.concurrent),
      strategy_(std::move(strategy)),
      edge_(strategy_->info().trigger == Trigger::edge),
      one_shot_(strategy_->info().trigger == Trigger::one_shot),
      keeps_watching_(!edge_ && !one_shot_),
      fixed_set_(concurrent_ && !strategy_->info().changes_during_wait),
      descriptors_(options.descriptors_max),
      log_(options.log) {
  BATON_ASSERT(options.descriptors_max < interrupt_token.index);
}

Demultiplexer::~Demultiplexer() = default;

// A named strategy that fits is opened, or its error is returned. A strategy that does not fit the
// wait is replaced by the first that does, with a note. A strategy that a program has added is
// chosen only by its name.
Result<void, Failure> Demultiplexer::choose_interrupt(const Options& options) {
  std::string replaced;
  ReasonCode replaced_code = ReasonCode::unspecified;
  bool unfit = false;
  if (options.interrupt == "ring") {
    replaced = "an engine's own interrupt, of io_uring";
    replaced_code = ReasonCode::unsuitable;
  } else if (options.interrupt != "auto") {
    const auto entry = find_interrupt_strategy(options.interrupt);
    if (!entry) {
      return unexpected{Failure{errc::unknown_name,
                                "unknown interrupt strategy '" + std::string(options.interrupt) +
                                    "'; there are " + names(interrupt_strategies())}};
    }
    auto opened = open_interrupt(*entry, options, unfit);
    if (opened || !unfit) return opened;
    replaced = opened.error().reason;
    replaced_code = opened.error().reason_code;
  }
  Failure last{errc::engine_unavailable, "no interrupt strategy is built in"};
  for (const auto& entry : builtin_interrupt_strategies()) {
    if (auto opened = open_interrupt(entry, options, unfit); !opened) {
      last = opened.error();
      if (options.explain && replaced.empty()) {
        options.explain(with_code(last.reason, last.reason_code));
      }
      continue;
    }
    if (options.explain && !replaced.empty()) {
      options.explain(with_code(
          "interrupt: " + std::string(options.interrupt) + " -> " + entry.name + ": " + replaced,
          replaced_code));
    }
    return {};
  }
  return unexpected{std::move(last)};
}

Result<void, Failure> Demultiplexer::open_interrupt(
    const RegistryEntry<InterruptStrategyFactory>& entry, const Options& options, bool& unfit) {
  unfit = false;
  auto opened =
      entry.factory({.system = options.system, .signal_number = options.interrupt_signal});
  if (!opened) {
    Failure failure = opened.error();
    failure.reason = "interrupt=" + entry.name + ": " + failure.reason;
    return unexpected{std::move(failure)};
  }
  if (const std::error_code error = fit_interrupt(**opened)) {
    unfit = true;
    const bool by_signal = (*opened)->descriptor() == invalid_handle;
    const std::string why = by_signal ? " takes no signal mask, so that a signal could be lost"
                                      : " cannot watch its descriptor: " + error.message();
    return unexpected{
        Failure{error, "wait=" + std::string(info().name) + why, ReasonCode::unsuitable}};
  }
  interrupter_ = std::move(*opened);
  by_signal_ = interrupter_->descriptor() == invalid_handle;
  waits_specially_ = by_signal_ || fixed_set_;
  return {};
}

std::error_code Demultiplexer::fit_interrupt(InterruptStrategy& interrupter) noexcept {
  const NativeHandle fd = interrupter.descriptor();
  if (fd != invalid_handle) {
    edge_interrupt_ = interrupter.tells_anew() && !strategy_->add_edge(fd, interrupt_token);
    return edge_interrupt_ ? std::error_code{} : strategy_->add(fd, Interest::in, interrupt_token);
  }
  return info().takes_signal_mask ? std::error_code{} : make_error_code(errc::bad_configuration);
}

// -- the descriptors ------------------------------------------------------------------------------

std::error_code Demultiplexer::attach(std::uint32_t index, NativeHandle fd,
                                      Ownership ownership) noexcept {
  BATON_ASSERT(fd >= 0);
  if (index >= descriptors_.bound()) return errc::no_free_handles;
  const os::LockGuard lock(mutex_, system_, concurrent_);
  if (!descriptors_.ensure(index)) return std::make_error_code(std::errc::not_enough_memory);
  Descriptor& descriptor = descriptors_[index];
  BATON_ASSERT(descriptor.fd == invalid_handle);
  descriptor.fd = fd;
  const bool once = ownership == Ownership::borrowed && info().watches_once;
  descriptor.state.store(once ? once_bit : 0, std::memory_order_relaxed);
  return {};
}

void Demultiplexer::detach(std::uint32_t index) noexcept {
  Descriptor& descriptor = attached(index);
  {
    const os::LockGuard lock(mutex_, system_, concurrent_);
    // Comes first: from here on a report already taken counts as stale. A report that passed the
    // check just before is a hint to the next descriptor with this index.
    descriptor.generation.store(descriptor.generation.load(std::memory_order_relaxed) + 1,
                                std::memory_order_release);
    const bool registered =
        (descriptor.state.exchange(0, std::memory_order_relaxed) & registered_bit) != 0;
    const NativeHandle fd = std::exchange(descriptor.fd, invalid_handle);
    leave_number(index, fd);
    // ENOENT, EBADF: its owner has closed it already.
    if (!registered) return;
    static_cast<void>(strategy_->remove(fd));
  }
  // A running wait over a fixed set keeps the file open inside the kernel. The close that follows
  // takes effect only when that wait ends.
  set_changed();
}

Watch Demultiplexer::watch(std::uint32_t index, Interest interest,
                           std::error_code& error) noexcept {
  BATON_ASSERT(any(interest));
  Descriptor& descriptor = attached(index);
  if (edge_) return watch_edge(index, descriptor, interest, error);
  // relaxed: only calls for this direction set its bits, and the client serialises them. A one-shot
  // report may clear them after this load. The client then handles that report after this call,
  // under its lock, so nothing is lost.
  const std::uint8_t state = descriptor.state.load(std::memory_order_relaxed);
  if ((armed_of(state) & interest) == interest) return Watch::armed;
  error = arm(index, descriptor, interest);
  return error ? Watch::failed : Watch::armed;
}

// An edge is reported once, perhaps just before the watch. deliver() sets the ready bits and then
// reads the armed bits; this function sets the armed bits and then reads the ready bits. Both use
// the same word, so the second of the two steps sees the first. If both see each other, the client
// gets one hint too many. acq_rel: each step sees what the other did before it.
//
// A ready bit says "was ready since it was last found not to be". The client may have used that up,
// so ppoll asks the descriptor. A client may therefore watch at any time, as over a level-triggered
// strategy. The bit is cleared before ppoll: an edge in between sets it again.
Watch Demultiplexer::watch_edge(std::uint32_t index, Descriptor& descriptor, Interest interest,
                                std::error_code& error) noexcept {
  const std::uint8_t before = descriptor.state.fetch_or(armed(interest), std::memory_order_acq_rel);
  if ((before & registered_bit) == 0) {
    error = arm(index, descriptor, interest);
    if (error) return Watch::failed;
    // A descriptor that was ready before the registration may make no edge (real-time signals), so
    // ask.
  } else if ((before & ready(interest)) == 0) {
    return Watch::armed;
  }
  descriptor.state.fetch_and(without(ready(interest)), std::memory_order_acq_rel);
  const Interest now = ready_now(descriptor.fd, interest);
  if (!any(now)) return Watch::armed;
  descriptor.state.fetch_or(ready(now), std::memory_order_acq_rel);
  return Watch::try_now;
}

Interest Demultiplexer::ready_now(NativeHandle fd, Interest interest) noexcept {
  pollfd entry{};
  entry.fd = fd;
  if (any(interest & Interest::in)) entry.events |= POLLIN;
  if (any(interest & Interest::out)) entry.events |= POLLOUT;
  if (any(interest & Interest::urgent)) entry.events |= POLLPRI;
  const timespec at_once{};
  // EINTR, ENOMEM: unknown, so let the client try. EINVAL, EFAULT: only a bug.
  if (system_.ppoll(&entry, 1, &at_once, nullptr) < 0) return interest;
  Interest now = Interest::none;
  if ((entry.revents & POLLIN) != 0) now = now | Interest::in;
  if ((entry.revents & POLLOUT) != 0) now = now | Interest::out;
  if ((entry.revents & POLLPRI) != 0) now = now | Interest::urgent;
  if ((entry.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) now = now | Interest::both;
  return with_trouble(now, interest) & interest;
}

bool Demultiplexer::drop(std::uint32_t index, Interest interest) noexcept {
  Descriptor& descriptor = attached(index);
  if (edge_) {
    // The registration stays: an unwanted edge costs nothing, and the table remembers it.
    descriptor.state.fetch_and(without(armed(interest)), std::memory_order_acq_rel);
    return false;
  }
  // relaxed: as in watch.
  const std::uint8_t now = descriptor.state.load(std::memory_order_relaxed);
  if ((now & once_bit) != 0 && (now & armed(interest)) == 0) return false;  // silent
  {
    const os::LockGuard lock(mutex_, system_, concurrent_);
    const std::uint8_t state = descriptor.state.load(std::memory_order_relaxed);
    const Interest rest = armed_of(state) - interest;
    // A one-shot report disarms the descriptor and leaves it registered.
    const bool left_over = (state & registered_bit) != 0 && !any(rest);
    if ((state & armed(interest)) == 0 && !left_over) return false;
    const auto once = static_cast<std::uint8_t>(state & once_bit);
    descriptor.state.store(
        static_cast<std::uint8_t>(once | (any(rest) ? armed(rest) | registered_bit : 0)),
        std::memory_order_relaxed);
    const Token token{index, descriptor.generation.load(std::memory_order_relaxed)};
    // Both calls succeed for a descriptor that is open and registered. If its owner has closed it,
    // the registration is gone.
    static_cast<void>(any(rest) ? register_at(descriptor, rest, token, true)
                                : strategy_->remove(descriptor.fd));
  }
  // No set_changed(), unless the owner may close the descriptor now: an extra report is filtered
  // out.
  return true;
}

// A watch of the other direction adds its bit without the lock. Either the exchange sees that bit
// and the registration stands, or the watch finds nothing registered and arms again when the lock
// is free.
void Demultiplexer::let_go(std::uint32_t index, Interest interest) noexcept {
  if (!edge_) {
    // The owner may close the descriptor now: see detach.
    if (drop(index, interest)) set_changed();
    return;
  }
  Descriptor& descriptor = attached(index);
  const os::LockGuard lock(mutex_, system_, concurrent_);
  std::uint8_t before = descriptor.state.load(std::memory_order_relaxed);
  std::uint8_t after = 0;
  do {
    after = before & without(armed(interest));
    if ((after & armed_bits) == 0) after = 0;
  } while (!descriptor.state.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                                   std::memory_order_relaxed));
  const bool ended = (before & registered_bit) != 0 && (after & registered_bit) == 0;
  if (ended) static_cast<void>(strategy_->remove(descriptor.fd));  // as in drop
}

Demultiplexer::Descriptor& Demultiplexer::attached(std::uint32_t index) noexcept {
  Descriptor* descriptor = descriptors_.find(index);
  BATON_ASSERT(descriptor != nullptr && descriptor->fd != invalid_handle);
  return *descriptor;
}

// Registers the descriptor, or adds to its interest. An edge strategy is asked for everything at
// once; the table remembers what was not asked for.
std::error_code Demultiplexer::arm(std::uint32_t index, Descriptor& descriptor,
                                   Interest interest) noexcept {
  std::error_code error;
  bool tell = false;
  {
    const os::LockGuard lock(mutex_, system_, concurrent_);
    const std::uint8_t before = descriptor.state.load(std::memory_order_relaxed);
    const bool registered = (before & registered_bit) != 0;
    if (edge_ && registered) return {};  // a watch of the other direction came first
    const Token token{index, descriptor.generation.load(std::memory_order_relaxed)};
    const Interest all = edge_ ? Interest::all : armed_of(before) | interest;
    bool came_back = false;
    const std::errc refused = take_number(index, descriptor, came_back);
    if (refused != std::errc{}) return std::make_error_code(refused);
    // Comes before the registration: the waiting thread may get the report at once, and a one-shot
    // report that finds no armed bit would be lost. release, although the kernel orders the two
    // anyway.
    descriptor.state.fetch_or(armed(interest), std::memory_order_release);
    error = register_at(descriptor, all, token, registered);
    if (error && came_back && error == std::errc::file_exists) {
      error = register_at(descriptor, all, token, true);
    }
    if (error) {
      descriptor.state.fetch_and(without(armed(interest)), std::memory_order_relaxed);
      tell = is_worth_a_line(error);
    } else {
      // Comes after it: watch_edge reads the bit without the lock, and the registration could still
      // fail.
      descriptor.state.fetch_or(registered_bit, std::memory_order_release);
    }
  }
  if (!error) set_changed();
  if (tell) log_failure("watching a descriptor", error, "its operations end with that");
  return error;
}

std::error_code Demultiplexer::register_at(Descriptor& descriptor, Interest interest, Token token,
                                           bool again) noexcept {
  const NativeHandle fd = descriptor.fd;
  if ((descriptor.state.load(std::memory_order_relaxed) & once_bit) != 0) {
    return strategy_->watch_once(fd, interest, token, again);
  }
  return again ? strategy_->modify(fd, interest, token) : strategy_->add(fd, interest, token);
}

// The owner of a borrowed descriptor may close it, and adopt another one with the same number while
// the first is still attached and has a silent registration. That registration must not pass for
// the new descriptor's, and detaching the first must not remove the new one's. So holders_ says
// whose registration a number is, if it was ever watched once. `came_back`: the number had a holder
// before, so the kernel's set may still know it. (The owner has kept a duplicate over a close.)
std::errc Demultiplexer::take_number(std::uint32_t index, const Descriptor& descriptor,
                                     bool& came_back) noexcept {
  const auto number = static_cast<std::size_t>(descriptor.fd);
  if (number >= holders_.size()) {
    if ((descriptor.state.load(std::memory_order_relaxed) & once_bit) == 0) return {};
    try {
      holders_.resize(std::max(number + 1, 2 * holders_.size()), never_held);
    } catch (const std::bad_alloc&) {
      return std::errc::not_enough_memory;
    }
  }
  std::uint32_t& holder = holders_[number];
  came_back = holder != never_held;
  if (holder != index && holder < not_held) {
    Descriptor& other = descriptors_[holder];
    const std::uint8_t state = other.state.load(std::memory_order_relaxed);
    if (any(armed_of(state))) return std::errc::file_exists;
    other.state.fetch_and(without(registered_bit), std::memory_order_relaxed);
    if ((state & registered_bit) != 0) static_cast<void>(strategy_->remove(descriptor.fd));
  }
  holder = index;
  return {};
}

void Demultiplexer::leave_number(std::uint32_t index, NativeHandle fd) noexcept {
  const auto number = static_cast<std::size_t>(fd);
  if (number < holders_.size() && holders_[number] == index) holders_[number] = not_held;
}

void Demultiplexer::forget_readiness(std::uint32_t index, Interest interest) noexcept {
  // acquire: the edge that is forgotten here happened before the system call that follows.
  attached(index).state.fetch_and(without(ready(interest)), std::memory_order_acq_rel);
}

// Interrupts a running wait whose set is fixed and has just changed. The waiting thread sets
// waiting_ and then copies the set; the caller changes the set and then reads waiting_. If the copy
// lacks the change, it was made earlier under the strategy's own lock, which orders the store
// before this load. seq_cst for strategies without a lock.
void Demultiplexer::set_changed() noexcept {
  if (fixed_set_ && waiting_.load(std::memory_order_seq_cst)) interrupt();
}

// -- waiting --------------------------------------------------------------------------------------

inline Interest Demultiplexer::wanted(Descriptor& descriptor, const Report& report) noexcept {
  // relaxed: the bit is fixed while attached, and disarm checks the generation again.
  const bool once = (descriptor.state.load(std::memory_order_relaxed) & once_bit) != 0;
  if (one_shot_ || once) return disarm(descriptor, report);
  if (edge_) {
    const std::uint8_t before =
        descriptor.state.fetch_or(ready(report.ready), std::memory_order_acq_rel);
    return armed_of(before) & with_trouble(report.ready, armed_of(before));
  }
  const Interest watched = armed_of(descriptor.state.load(std::memory_order_acquire));
  return watched & with_trouble(report.ready, watched);
}

// Whether the client gets the report. Reduces its `ready` to what the client watches.
inline bool Demultiplexer::deliver(Report& report) noexcept {
  Descriptor* descriptor = descriptors_.find(report.token.index);
  BATON_ASSERT(descriptor != nullptr);
  // acquire: makes visible what detach and attach wrote before the generation.
  if (descriptor->generation.load(std::memory_order_acquire) != report.token.generation) {
    stale_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  report.ready = wanted(*descriptor, report);
  return any(report.ready);
}

// The next wait will probably fail, too: ENOMEM, or a fault of the program, which has lowered a
// limit of descriptors or closed a descriptor of the library. No descriptor can be watched
// meanwhile, so only an interrupt by a signal ends this pause early.
std::size_t Demultiplexer::rest_after_failure(std::error_code error, Deadline deadline) noexcept {
  constexpr std::int64_t ns_per_ms = 1'000'000;
  constexpr unsigned doublings_max = 7;  // 128 ms
  failed_waits_.fetch_add(1, std::memory_order_relaxed);
  // EBADF, EINVAL: the number of its descriptor is free, or another file has it.
  const bool of_descriptor =
      error == std::errc::bad_file_descriptor || error == std::errc::invalid_argument;
  if (of_descriptor && strategy_->descriptor() != invalid_handle) broken_ = error;
  const std::int64_t now_ns = system_.monotonic_ns();
  const bool again = failures_ > 0 && now_ns - failed_at_ns_ < (2 * ns_per_ms << doublings_max);
  const unsigned failures = again ? failures_ : 0;
  failures_ = std::min(failures + 1, doublings_max);
  if (now_ns >= log_again_ns_) {
    log_again_ns_ = now_ns + log_every_ns;
    log_failure("waiting", error, "it is tried again after a pause");
  }
  const std::int64_t left_ns =
      std::clamp(deadline.ns(), now_ns, now_ns + (ns_per_ms << failures)) - now_ns;
  const timespec pause{0, left_ns};  // less than a second
  const SignalMask* const mask = by_signal_ ? interrupter_->signal_mask() : nullptr;
  system_.ppoll(nullptr, 0, &pause, mask != nullptr ? &mask->set : nullptr);
  failed_at_ns_ = system_.monotonic_ns();
  return 0;
}

// EPERM is the ordinary answer for files without readiness.
bool Demultiplexer::is_worth_a_line(std::error_code error) noexcept {
  if (log_ == nullptr || error == std::errc::operation_not_permitted) return false;
  const std::int64_t now_ns = system_.monotonic_ns();
  if (now_ns < log_watches_again_ns_) return false;
  log_watches_again_ns_ = now_ns + log_every_ns;
  return true;
}

void Demultiplexer::log_failure(std::string_view what, std::error_code error,
                                std::string_view then) noexcept {
  if (log_ == nullptr) return;
  try {
    log_->write(LogLevel::error, iso_8601(system_.realtime_us()),
                std::string(what) + " by " + std::string(info().name) +
                    " fails: " + error.message() + "; " + std::string(then));
  } catch (const std::bad_alloc&) {
    // No memory for the line: the failure is counted all the same.
  }
}

std::size_t Demultiplexer::wait(std::span<Report> reports, Deadline deadline,
                                bool& interrupted) noexcept {
  const std::size_t count = wait_raw(reports, deadline);
  // A signal leaves no report. Without reports it may have come, even if the time is up as well.
  // With reports it has not been taken: it stays pending and ends the next wait.
  interrupted = by_signal_ && count == 0;
  std::size_t kept = 0;
  for (Report& report : reports.first(count)) {
    if (sort_out(report, interrupted)) reports[kept++] = report;
  }
  return kept;
}

// Whether the report is for the client; consumes an interrupt.
bool Demultiplexer::sort_out(Report& report, bool& interrupted) noexcept {
  if (report.token != interrupt_token) return deliver(report);
  consume_interrupt();
  interrupted = true;
  return false;
}

void Demultiplexer::consume_interrupt() noexcept {
  if (edge_interrupt_) return interrupter_->acknowledge();
  interrupter_->reset();
  if (!one_shot_) return;
  std::error_code error;
  {
    const os::LockGuard lock(mutex_, system_, concurrent_);
    error = strategy_->modify(interrupter_->descriptor(), Interest::in, interrupt_token);
  }
  if (error) log_failure("watching the interrupter", error, "no wait is cut short any more");
}

// A one-shot report disarms the descriptor as a whole, so this arms again what was not reported.
// Should that fail, no report would come any more: the client gets the rest as well, tries in vain,
// and the watch that follows tells it why.
Interest Demultiplexer::disarm(Descriptor& descriptor, const Report& report) noexcept {
  const os::LockGuard lock(mutex_, system_, concurrent_);
  if (descriptor.generation.load(std::memory_order_relaxed) != report.token.generation) {
    return Interest::none;
  }
  const Interest before = armed_of(descriptor.state.load(std::memory_order_relaxed));
  const Interest told = before & with_trouble(report.ready, before);
  const Interest rest = before - told;
  descriptor.state.fetch_and(without(armed(told)), std::memory_order_relaxed);
  if (!any(rest) || !register_at(descriptor, rest, report.token, true)) return told;
  descriptor.state.fetch_and(without(armed(rest)), std::memory_order_relaxed);
  return before;
}

// -- the rest -------------------------------------------------------------------------------------

NativeHandle Demultiplexer::descriptor() const noexcept {
  const bool by_descriptor =
      interrupter_ != nullptr && interrupter_->descriptor() != invalid_handle;
  return by_descriptor ? strategy_->descriptor() : invalid_handle;
}

void Demultiplexer::after_fork_in_child() noexcept {
  strategy_->after_fork_in_child();
  // Closes the child's copies of the descriptors, which does not affect the parent.
  interrupter_.reset();
}

}  // namespace baton::demux
