// The Demultiplexer: lazy registration, and one semantics for level, edge and one-shot strategies.
// Chosen parts are found by name in demux/registry; how they differ is asked of WaitStrategyInfo,
// never of the name.
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

// Among the holders of numbers; no client's index reaches them.
constexpr std::uint32_t held_by_nobody = UINT32_MAX - 1;
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
// An error or a hang-up is reported as both. A client that watches for urgent data only has to hear
// of it as well, else a level-triggered strategy would report it for ever.
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
      plain_(!edge_ && !one_shot_),
      fixed_set_(concurrent_ && !strategy_->info().changes_during_wait),
      descriptors_(options.descriptors_max),
      log_(options.log) {
  BATON_ASSERT(options.descriptors_max < interrupt_token.index);
}

Demultiplexer::~Demultiplexer() = default;

// One that is named and fits is taken or fails; one that does not fit the wait is replaced,
// visibly, by the first that does. An interrupt added by a program is taken only by its name.
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
    // First, so that a report already taken counts as stale from here on. A report that passes the
    // check just before is a hint for whoever gets the index next.
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
  // A running wait over a fixed set keeps the file open inside the kernel: without an end of that
  // wait the close that follows would not take effect.
  set_changed();
}

Watch Demultiplexer::watch(std::uint32_t index, Interest interest,
                           std::error_code& error) noexcept {
  BATON_ASSERT(any(interest));
  error.clear();
  Descriptor& descriptor = attached(index);
  if (edge_) return watch_edge(index, descriptor, interest, error);
  // relaxed: of the bits asked for, only calls of this direction set any, and those the client
  // serialises. (A one-shot report clears them. If it does so after the look, the report is still
  // to be handled by the client, under its lock, after this call: it will tell.)
  const std::uint8_t state = descriptor.state.load(std::memory_order_relaxed);
  if ((armed_of(state) & interest) == interest) return Watch::armed;
  error = arm(index, descriptor, interest);
  return error ? Watch::failed : Watch::armed;
}

// The report of an edge comes once, perhaps just before somebody watches. deliver() adds the ready
// bits and looks at the armed ones, here the armed bits are added before a look at the ready ones;
// all of it in one word, so one of the two steps comes second and sees the other. When both see
// each other the client is told twice, which is only a hint too much. acq_rel: what is seen was
// there before it.
//
// A ready bit says "was ready since it was last found not to be". Whether the client has used that
// up nobody knows, so the descriptor is asked; then a client may watch whenever it likes, as over a
// level-triggered strategy. The bit goes before the question: an edge in between sets it again.
Watch Demultiplexer::watch_edge(std::uint32_t index, Descriptor& descriptor, Interest interest,
                                std::error_code& error) noexcept {
  const std::uint8_t before = descriptor.state.fetch_or(armed(interest), std::memory_order_acq_rel);
  if ((before & registered_bit) == 0) {
    error = arm(index, descriptor, interest);
    if (error) return Watch::failed;
    // What was ready before it was registered need not make an edge (real-time signals): ask.
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
  // EINTR, ENOMEM: not known, so let the client try. EINVAL, EFAULT: only a bug.
  if (system_.ppoll(&entry, 1, &at_once, nullptr) < 0) return interest;
  Interest now = Interest::none;
  if ((entry.revents & POLLIN) != 0) now = now | Interest::in;
  if ((entry.revents & POLLOUT) != 0) now = now | Interest::out;
  if ((entry.revents & POLLPRI) != 0) now = now | Interest::urgent;
  if ((entry.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) now = now | Interest::both;
  return with_trouble(now, interest) & interest;
}

void Demultiplexer::drop(std::uint32_t index, Interest interest) noexcept {
  Descriptor& descriptor = attached(index);
  if (edge_) {
    // The registration stands: an edge that nobody wants costs nothing, and is remembered.
    descriptor.state.fetch_and(without(armed(interest)), std::memory_order_acq_rel);
    return;
  }
  // relaxed: as in watch.
  const std::uint8_t now = descriptor.state.load(std::memory_order_relaxed);
  if ((now & once_bit) != 0 && (now & armed(interest)) == 0) return;  // silent
  {
    const os::LockGuard lock(mutex_, system_, concurrent_);
    const std::uint8_t state = descriptor.state.load(std::memory_order_relaxed);
    const Interest rest = armed_of(state) - interest;
    // A one-shot report has disarmed it, and left it registered.
    const bool left_over = (state & registered_bit) != 0 && !any(rest);
    if ((state & armed(interest)) == 0 && !left_over) return;
    const auto once = static_cast<std::uint8_t>(state & once_bit);
    descriptor.state.store(
        static_cast<std::uint8_t>(once | (any(rest) ? armed(rest) | registered_bit : 0)),
        std::memory_order_relaxed);
    const Token token{index, descriptor.generation.load(std::memory_order_relaxed)};
    // Neither can fail for a descriptor that is open and registered; if its owner closed it, it is
    // gone.
    static_cast<void>(any(rest) ? register_at(descriptor, rest, token, true)
                                : strategy_->remove(descriptor.fd));
  }
  // No set_changed(): a report too many is filtered.
}

// Without the lock a watch of the other direction may add its bit meanwhile. Either the exchange
// sees that bit, and the registration stands, or the watch finds nothing registered, and arms anew
// once the lock is free.
void Demultiplexer::let_go(std::uint32_t index, Interest interest) noexcept {
  if (!edge_) return drop(index, interest);
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

// Registers, or asks for more. An edge strategy is asked for everything, once: what comes unwanted
// is remembered.
std::error_code Demultiplexer::arm(std::uint32_t index, Descriptor& descriptor,
                                   Interest interest) noexcept {
  std::error_code error;
  bool tell = false;
  {
    const os::LockGuard lock(mutex_, system_, concurrent_);
    const std::uint8_t before = descriptor.state.load(std::memory_order_relaxed);
    const bool registered = (before & registered_bit) != 0;
    if (edge_ && registered) return {};  // by the other direction, meanwhile
    const Token token{index, descriptor.generation.load(std::memory_order_relaxed)};
    const Interest all = edge_ ? Interest::all : armed_of(before) | interest;
    bool came_back = false;
    error = take_number(index, descriptor, came_back);
    if (error) return error;
    // Before the strategy is told: a thread that waits may have the report at once, and a one-shot
    // report that finds its bit missing would be lost. release, though the kernel orders the two
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
      // Afterwards: watch_edge looks at it without the lock, and must not believe in what may still
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

// A borrowed number may be closed, used again and attached anew while its first descriptor is still
// attached, with a registration that is silent, but stands. So that this one is not taken for the
// new one's, and the new one's is not removed when the first is detached, the table tells whose
// registration a number has, if it was ever watched once. `came_back`: the set may know the open
// file under this number though nobody does here. (Its owner has kept a duplicate over a close.)
std::error_code Demultiplexer::take_number(std::uint32_t index, const Descriptor& descriptor,
                                           bool& came_back) noexcept {
  const auto number = static_cast<std::size_t>(descriptor.fd);
  if (number >= holders_.size()) {
    if ((descriptor.state.load(std::memory_order_relaxed) & once_bit) == 0) return {};
    try {
      holders_.resize(std::max(number + 1, 2 * holders_.size()), never_held);
    } catch (const std::bad_alloc&) {
      return std::make_error_code(std::errc::not_enough_memory);
    }
  }
  std::uint32_t& holder = holders_[number];
  came_back = holder != never_held;
  if (holder != index && holder < held_by_nobody) {
    Descriptor& other = descriptors_[holder];
    const std::uint8_t state = other.state.load(std::memory_order_relaxed);
    if (any(armed_of(state))) return std::make_error_code(std::errc::file_exists);
    other.state.fetch_and(without(registered_bit), std::memory_order_relaxed);
    if ((state & registered_bit) != 0) static_cast<void>(strategy_->remove(descriptor.fd));
  }
  holder = index;
  return {};
}

void Demultiplexer::leave_number(std::uint32_t index, NativeHandle fd) noexcept {
  const auto number = static_cast<std::size_t>(fd);
  if (number < holders_.size() && holders_[number] == index) holders_[number] = held_by_nobody;
}

void Demultiplexer::forget_readiness(std::uint32_t index, Interest interest) noexcept {
  // acquire: the edge that is forgotten here came before the system call that follows.
  attached(index).state.fetch_and(without(ready(interest)), std::memory_order_acq_rel);
}

// The set of a running wait is fixed and has just changed. The waiting thread says that it waits,
// then takes its copy of the set; here the set was changed, then comes the look. If the copy lacks
// the change, it was taken earlier under the strategy's own lock, which orders the store before
// this load. seq_cst for strategies that do without a lock.
void Demultiplexer::set_changed() noexcept {
  if (fixed_set_ && waiting_.load(std::memory_order_seq_cst)) interrupt();
}

// -- waiting --------------------------------------------------------------------------------------

inline Interest Demultiplexer::wanted(Descriptor& descriptor, const Report& report) noexcept {
  // relaxed: fixed while attached, and disarm looks at the generation again.
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

// Whether the client is to see it; its `ready` is cut down to what the client watches.
inline bool Demultiplexer::deliver(Report& report) noexcept {
  Descriptor* descriptor = descriptors_.find(report.token.index);
  BATON_ASSERT(descriptor != nullptr);
  // acquire: with the generation comes what detach and attach did before.
  if (descriptor->generation.load(std::memory_order_acquire) != report.token.generation) {
    stale_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  report.ready = wanted(*descriptor, report);
  return any(report.ready);
}

// The next wait will probably fail, too: ENOMEM, or a fault of the program, such as a limit of
// descriptors that was lowered, or a descriptor of ours that it has closed. Nothing can be watched
// meanwhile, so this rests without a descriptor; only an interrupt by a signal ends it early.
std::size_t Demultiplexer::rest_after_failure(std::error_code error, Deadline deadline) noexcept {
  constexpr std::int64_t ns_per_ms = 1'000'000;
  constexpr unsigned doublings_max = 7;  // 128 ms
  failed_waits_.fetch_add(1, std::memory_order_relaxed);
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

// EPERM is the answer for files without readiness, and no failure.
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
    // No memory for a line of log: it is not worth more.
  }
}

std::size_t Demultiplexer::wait(std::span<Report> reports, Deadline deadline,
                                bool& interrupted) noexcept {
  const std::size_t count = wait_raw(reports, deadline);
  // A signal leaves no report. With zero reports it may have come, even when the time is up as
  // well; with some it has not been taken, stays pending, and ends the next wait.
  interrupted = by_signal_ && count == 0;
  std::size_t kept = 0;
  for (Report& report : reports.first(count)) {
    if (sort_out(report, interrupted)) reports[kept++] = report;
  }
  return kept;
}

// Whether it is for the client.
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
  const os::LockGuard lock(mutex_, system_, concurrent_);
  static_cast<void>(strategy_->modify(interrupter_->descriptor(), Interest::in, interrupt_token));
}

// A one-shot report disarms the descriptor as a whole: what was not reported is armed again here.
Interest Demultiplexer::disarm(Descriptor& descriptor, const Report& report) noexcept {
  const os::LockGuard lock(mutex_, system_, concurrent_);
  if (descriptor.generation.load(std::memory_order_relaxed) != report.token.generation) {
    return Interest::none;
  }
  const Interest before = armed_of(descriptor.state.load(std::memory_order_relaxed));
  const Interest told = before & with_trouble(report.ready, before);
  const Interest rest = before - told;
  descriptor.state.fetch_and(without(armed(told)), std::memory_order_relaxed);
  if (any(rest)) static_cast<void>(register_at(descriptor, rest, report.token, true));
  return told;
}

// -- the rest -------------------------------------------------------------------------------------

NativeHandle Demultiplexer::descriptor() const noexcept {
  const bool by_descriptor =
      interrupter_ != nullptr && interrupter_->descriptor() != invalid_handle;
  return by_descriptor ? strategy_->descriptor() : invalid_handle;
}

void Demultiplexer::after_fork_in_child() noexcept {
  strategy_->after_fork_in_child();
  // It closes its descriptors; to the parent's that means nothing.
  interrupter_.reset();
}

}  // namespace baton::demux
