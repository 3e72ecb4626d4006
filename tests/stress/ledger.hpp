// The accounts of a soak. Every operation is an Entry with its account: starts, completions,
// cancellations, bytes. A completion without a start, a second one, one of an earlier activation,
// or a cancellation that was not requested is a violation at once. A missing completion is found at
// the end.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "load/pattern.hpp"

namespace baton::soak {

/// splitmix64: a run is made of many streams of its numbers, each used by one handler at a time.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e37'79b9'7f4a'7c15U);
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9U;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebU;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t end) { return next() % end; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  /// Of a transfer: mostly small, up to `most`.
  std::size_t size(std::size_t most) {
    const std::size_t limit = one_in(8) ? most : std::min<std::size_t>(most, 512);
    return 1 + static_cast<std::size_t>(below(limit));
  }

 private:
  std::uint64_t state_;
};

struct Totals {
  std::uint64_t started = 0;
  std::uint64_t completed = 0;
  std::uint64_t cancels = 0;    ///< asked for, in time or not
  std::uint64_t cancelled = 0;  ///< completed so
  std::uint64_t bytes = 0;

  Totals& operator+=(const Totals& other) {
    started += other.started;
    completed += other.completed;
    cancels += other.cancels;
    cancelled += other.cancelled;
    bytes += other.bytes;
    return *this;
  }
  Totals& operator-=(const Totals& other) {
    started -= other.started;
    completed -= other.completed;
    cancels -= other.cancels;
    cancelled -= other.cancelled;
    bytes -= other.bytes;
    return *this;
  }
};

class Entry;

/// The state that all actors share: the proactor, the budget, the number of living actors, the
/// violations.
class Ledger {
 public:
  /// One operation in so many is cancelled right after its start.
  static constexpr std::uint64_t cancel_one_in = 20;

  Ledger(Proactor& driven, std::uint64_t seed) : proactor(driven), seeds_(seed) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // -- before a round ----------------------------------------------------------------------------

  void set_budget(std::uint64_t operations) { budget_.store(operations); }

  // -- any thread --------------------------------------------------------------------------------

  /// Whether to go on with work of about `cost` operations. `allowance` is the caller's own, taken
  /// from the budget in portions.
  bool more(std::uint64_t& allowance, std::uint64_t cost);
  /// No actor starts another operation.
  void end_soon() { budget_.store(0); }
  void part_begins() { living_.fetch_add(1, std::memory_order_relaxed); }
  /// The last one stops the proactor.
  void part_ended();
  /// Printed on standard error, the first few of them; the round ends soon.
  void violation(std::string_view what);
  [[nodiscard]] std::uint64_t violations() const { return violations_.load(); }

  std::uint64_t new_seed();
  /// The sums over all entries, destroyed ones included.
  [[nodiscard]] Totals totals() const;

  Proactor& proactor;
  const tools::Pattern pattern;

 private:
  friend class Entry;
  void add(Entry& entry);
  void remove(Entry& entry);

  std::atomic<std::uint64_t> budget_{0};
  std::atomic<std::int64_t> living_{0};
  std::atomic<std::uint64_t> violations_{0};
  mutable std::mutex mutex_;
  Random seeds_;                       // guarded by mutex_
  std::vector<const Entry*> entries_;  // guarded by mutex_
  Totals gone_;                        // guarded by mutex_
};

class Entry final : public Operation {
 public:
  explicit Entry(Ledger& ledger) : ledger_(ledger) { ledger.add(*this); }
  ~Entry() { ledger_.remove(*this); }

  /// `Done`, a member of the actor, is the handler.
  template <auto Done, class Actor>
  void on_done(Actor& actor) {
    set_handler([this, &actor](Operation&) {
      close_account();
      (actor.*Done)();
    });
  }
  /// Another actor may cancel it by its handle.
  void may_be_cancelled() { cancelled_by_others_ = true; }

  /// Starts the prepared operation; cancels it at once if `random` says so. After this the caller
  /// touches nothing that the handler uses.
  void start(Random& random);
  /// The same for an operation that must not be cancelled: the end of a connection.
  void start();

  [[nodiscard]] bool was_cancelled() const { return error() == std::errc::operation_canceled; }
  /// Done, or cancelled in time. Everything else is a violation.
  bool expect_no_error(std::string_view what);

  [[nodiscard]] Totals totals() const;

 private:
  void start(bool cancel);
  void close_account();

  using Count = std::atomic<std::uint64_t>;
  // There is one writer, the owner of the operation.
  static void add(Count& count, std::uint64_t more) {
    count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  Ledger& ledger_;
  std::atomic<bool> open_{false};
  std::uint32_t expected_ = 0;
  bool cancel_asked_ = false;
  bool cancelled_by_others_ = false;
  Count started_{0};
  Count completed_{0};
  Count cancels_{0};
  Count cancelled_{0};
  Count bytes_{0};
};

}  // namespace baton::soak
