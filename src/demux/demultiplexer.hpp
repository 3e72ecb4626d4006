// Demultiplexer: one wait strategy, one interrupt strategy and the descriptor table, with one
// semantics for its two clients, the emulated engine and the Reactor. It knows neither operations
// nor handlers.
//
// The clients' view
//
//   attach(index, fd)     makes the client's own dense index known; registers nothing yet
//   watch(index, in)      asks for a report when `in` may be ready. Costs nothing while the
//                         registration of an earlier watch stands
//   wait(reports)         returns reports; each is a hint
//   drop(index, in)       ends the reports. Lazy use: a client whose operation is done keeps the
//                         registration, and drops it at the first report that it does not need. A
//                         connection that reads again and again is registered once
//   detach(index)         forgets the descriptor; a stale report is recognised by its generation,
//                         counted and ignored
//
// The owner of a borrowed descriptor may close it while nothing is watched, and open another one
// with the same number. No report may come for it then. Either the strategy watches it for one
// report at a time (watches_once), and the registration stays without reporting; or the client
// calls let_go instead of drop, which removes the registration.
//
// Level, edge and one-shot strategies declare how they differ (WaitStrategyInfo). The Demultiplexer
// hides the difference: to the client all of them are level-triggered. For an edge strategy the
// table remembers what was ready; if the descriptor still is, watch returns `try_now`. After a
// one-shot report watch arms again. If the set of a running wait is fixed (select, poll) and
// another thread changes it, the Demultiplexer interrupts the wait itself. Its clients need not
// look at `start_interrupts_leader`.
//
// Threads. With `concurrent`, watch, drop, attach, detach and interrupt may be called while another
// thread is inside wait. The client serialises the calls for one direction of one descriptor with
// its own handling of that direction's reports; it has a lock there anyway. attach and detach count
// as both directions. One thread at a time calls wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/assert.hpp"
#include "base/chunked_table.hpp"
#include "baton/deadline.hpp"
#include "baton/handle.hpp"
#include "baton/interest.hpp"
#include "baton/interrupt_strategy.hpp"
#include "baton/registry.hpp"
#include "baton/result.hpp"
#include "baton/wait_strategy.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::demux {

struct Options {
  const os::System* system = nullptr;
  Log* log = nullptr;                   ///< gets a line about waits that fail
  std::string_view wait = "auto";       ///< a registered name, or auto
  std::string_view interrupt = "auto";  ///< the same; replaced, with a note, if it does not fit
  std::uint32_t descriptors_max = 0;    ///< every index is below this; 0: limits::handles_max
  int wait_signal = 0;
  int interrupt_signal = 0;
  bool concurrent = true;
  bool one_thread_waits = false;  ///< the same thread always waits, as some strategies require
  std::function<void(std::string_view)> explain{};  ///< gets a line about each replacement
};

enum class Watch : std::uint8_t {
  armed,    ///< a report will come
  try_now,  ///< it may be ready already, and no report will come: try the system call first
  failed    ///< the strategy cannot watch it; `error` says why
};

class Demultiplexer {
 public:
  static Result<std::unique_ptr<Demultiplexer>, Failure> open(const Options& options);
  ~Demultiplexer();
  Demultiplexer(const Demultiplexer&) = delete;
  Demultiplexer& operator=(const Demultiplexer&) = delete;

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept { return strategy_->info(); }
  [[nodiscard]] std::string_view interrupt_name() const noexcept { return interrupter_->name(); }
  [[nodiscard]] std::uint64_t stale_reports() const noexcept {
    return stale_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t failed_waits() const noexcept {
    return failed_waits_.load(std::memory_order_relaxed);
  }
  /// Set when no later wait can succeed: the strategy's own descriptor was closed. For the thread
  /// whose wait has failed.
  [[nodiscard]] std::error_code broken() const noexcept { return broken_; }

  std::error_code attach(std::uint32_t index, NativeHandle fd,
                         Ownership ownership = Ownership::owned) noexcept;
  void detach(std::uint32_t index) noexcept;

  /// REQUIRES: attached. The error is set exactly when the answer is `failed`.
  Watch watch(std::uint32_t index, Interest interest, std::error_code& error) noexcept;
  /// A watch lasts until it is dropped: the strategy is level-triggered.
  [[nodiscard]] bool keeps_watching() const noexcept { return keeps_watching_; }
  [[nodiscard]] bool is_watched(std::uint32_t index) const noexcept {
    return (descriptors_[index].state.load(std::memory_order_relaxed) & armed_bits) != 0;
  }
  /// True: the strategy was told.
  bool drop(std::uint32_t index, Interest interest) noexcept;
  /// Like drop, and removes the registration when nothing is watched any more. The owner of a
  /// borrowed descriptor may then close it and reuse its number. This differs from drop over an
  /// edge strategy, and over a fixed set, of which a running wait ends.
  void let_go(std::uint32_t index, Interest interest) noexcept;

  /// Optional, before a system call that is repeated until EAGAIN (or before the first of them).
  /// Forgets what an edge strategy has reported so far, so that the next watch need not ask the
  /// descriptor again. Costs nothing with other strategies. REQUIRES: attached.
  void trying(std::uint32_t index, Interest interest) noexcept {
    if (edge_) forget_readiness(index, interest);
  }

  /// Token::index in the reports is the client's index. Sets `interrupted` when an interrupt was
  /// consumed, or with interrupts by signal when one may have been. A wait that fails returns no
  /// reports. It is counted and logged, and pauses longer after each recent failure, so that a
  /// lasting failure costs no CPU.
  std::size_t wait(std::span<Report> reports, Deadline deadline, bool& interrupted) noexcept;
  /// The same, but calls visit(index, ready) for each report in turn. A visit may end the watch or
  /// the attachment of the next one. `reports` is scratch space.
  template <class Visit>
  void wait_for_each(std::span<Report> reports, Deadline deadline, Visit&& visit) noexcept {
    static_cast<void>(for_each(reports.first(wait_raw(reports, deadline)), visit));
  }
  /// wait_for_each in two steps, for a client that takes its own lock between them. The first asks
  /// the system and returns how many of `reports` it has filled. Only for_each understands them.
  std::size_t wait_raw(std::span<Report> reports, Deadline deadline) noexcept {
    BATON_ASSERT(!reports.empty());
    if (BATON_UNLIKELY(waits_specially_)) return wait_specially(reports, deadline);
    const Result<std::size_t> waited = strategy_->wait(reports, deadline, nullptr);
    if (BATON_UNLIKELY(!waited)) return rest_after_failure(waited.error(), deadline);
    BATON_ASSERT(*waited <= reports.size());
    return *waited;
  }
  /// The second step visits the reports for the client. True when an interrupt was consumed, as in
  /// wait.
  template <class Visit>
  bool for_each(std::span<Report> raw, Visit&& visit) noexcept {
    bool interrupted = by_signal_ && raw.empty();
    for (Report *report = raw.data(), *end = report + raw.size(); report != end; ++report) {
      const Token token = report->token;
      if (BATON_LIKELY(keeps_watching_ && token.index < interrupt_index)) {
        const Descriptor& descriptor = descriptors_[token.index];
        // acquire: makes visible what detach and attach wrote before the generation.
        const std::uint32_t generation = descriptor.generation.load(std::memory_order_acquire);
        const unsigned state = descriptor.state.load(std::memory_order_acquire);
        const auto wanted = static_cast<Interest>(state & static_cast<unsigned>(report->ready));
        if (BATON_LIKELY(generation == token.generation && any(wanted) && state < once_bit)) {
          visit(token.index, wanted);
          continue;
        }
      }
      if (sort_out(*report, interrupted)) visit(report->token.index, report->ready);
    }
    return interrupted;
  }
  void interrupt() noexcept {
    if (BATON_LIKELY(interrupter_ != nullptr)) interrupter_->interrupt();
  }

  /// Readable when wait would not block, because of an interrupt too; invalid_handle if the
  /// strategy has none.
  [[nodiscard]] NativeHandle descriptor() const noexcept;
  /// In the child: abandons the parent's kernel objects; afterwards only destruction is allowed.
  void after_fork_in_child() noexcept;

 private:
  // The state of a descriptor is one word. All read-modify-writes of one word have a single order,
  // which settles the race of an edge report with a watch without a lock (see watch_edge).
  //   bits 0-2  armed: the Interest that the client has asked for
  //   bits 3-5  ready: the Interest that an edge strategy has reported since the client's last try
  //   bit 6     registered: known to the strategy; changed under mutex_
  //   bit 7     once: borrowed, and watched for one report at a time; fixed while attached
  struct Descriptor {
    std::atomic<std::uint8_t> state{0};
    std::atomic<std::uint32_t> generation{1};  // raised by detach, under mutex_
    NativeHandle fd = invalid_handle;          // changed by attach and detach, under mutex_
  };
  static_assert(sizeof(Descriptor) == 12, "one per possible handle");

  static constexpr std::uint8_t armed_bits = 7;
  static constexpr std::uint8_t once_bit = 128;
  /// A lasting failure gets a line in the log once in this time.
  static constexpr std::int64_t log_every_ns = 10'000'000'000;
  /// The interrupter's index among the tokens; clients' indices are smaller.
  static constexpr std::uint32_t interrupt_index = UINT32_MAX;

  Demultiplexer(const Options& options, std::unique_ptr<WaitStrategy> strategy);
  Result<void, Failure> choose_interrupt(const Options& options);
  Result<void, Failure> open_interrupt(const RegistryEntry<InterruptStrategyFactory>& entry,
                                       const Options& options, bool& unfit);
  std::error_code fit_interrupt(InterruptStrategy& interrupter) noexcept;

  Descriptor& attached(std::uint32_t index) noexcept;
  Watch watch_edge(std::uint32_t index, Descriptor& descriptor, Interest interest,
                   std::error_code& error) noexcept;
  Interest ready_now(NativeHandle fd, Interest interest) noexcept;
  std::error_code arm(std::uint32_t index, Descriptor& descriptor, Interest interest) noexcept;
  std::error_code register_at(Descriptor& descriptor, Interest interest, Token token,
                              bool again) noexcept;
  std::errc take_number(std::uint32_t index, const Descriptor& descriptor, bool& came_back) noexcept
      BATON_REQUIRES(mutex_);
  void leave_number(std::uint32_t index, NativeHandle fd) noexcept BATON_REQUIRES(mutex_);
  void forget_readiness(std::uint32_t index, Interest interest) noexcept;
  void set_changed() noexcept;

  std::size_t wait_specially(std::span<Report> reports, Deadline deadline) noexcept {
    const SignalMask* mask = by_signal_ ? interrupter_->signal_mask() : nullptr;
    if (fixed_set_) waiting_.store(true, std::memory_order_seq_cst);
    const Result<std::size_t> waited = strategy_->wait(reports, deadline, mask);
    if (fixed_set_) waiting_.store(false, std::memory_order_seq_cst);
    if (BATON_UNLIKELY(!waited)) return rest_after_failure(waited.error(), deadline);
    if (by_signal_ && *waited == 0) interrupter_->reset();
    return *waited;
  }
  std::size_t rest_after_failure(std::error_code error, Deadline deadline) noexcept;
  bool is_worth_a_line(std::error_code error) noexcept BATON_REQUIRES(mutex_);
  void log_failure(std::string_view what, std::error_code error, std::string_view then) noexcept;
  bool sort_out(Report& report, bool& interrupted) noexcept;
  bool deliver(Report& report) noexcept;
  Interest wanted(Descriptor& descriptor, const Report& report) noexcept;
  Interest disarm(Descriptor& descriptor, const Report& report) noexcept;
  void consume_interrupt() noexcept;

  const os::System& system_;
  const bool concurrent_;
  const std::unique_ptr<WaitStrategy> strategy_;
  const bool edge_;
  const bool one_shot_;
  const bool keeps_watching_;  // neither: a report needs no bookkeeping
  const bool fixed_set_;  // a running wait does not see changes, and other threads may make them
  std::unique_ptr<InterruptStrategy> interrupter_;
  bool edge_interrupt_ = false;        // each interrupt is an edge, so its descriptor is never read
  bool by_signal_ = false;             // the interrupter has no descriptor
  bool waits_specially_ = fixed_set_;  // fixed_set_ or by_signal_
  ChunkedTable<Descriptor> descriptors_;
  os::Mutex mutex_;  // serialises changes of registrations
  // For each descriptor number up to the highest that was watched once: the index that holds its
  // registration. See take_number.
  std::vector<std::uint32_t> holders_ BATON_GUARDED_BY(mutex_);
  std::int64_t log_watches_again_ns_ BATON_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> waiting_{false};
  std::atomic<std::uint64_t> stale_{0};
  std::atomic<std::uint64_t> failed_waits_{0};
  std::error_code broken_;
  Log* const log_;
  // Of the last wait that failed. Only the waiting thread uses them.
  std::int64_t failed_at_ns_ = 0;
  std::int64_t log_again_ns_ = 0;
  unsigned failures_ = 0;  // in quick succession
};

}  // namespace baton::demux
