#include "ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace baton::soak {
namespace {

constexpr std::uint64_t portion = 64;
constexpr std::uint64_t violations_shown = 10;

}  // namespace

bool Ledger::more(std::uint64_t& allowance, std::uint64_t cost) {
  while (allowance < cost) {
    std::uint64_t left = budget_.load(std::memory_order_relaxed);
    std::uint64_t taken = 0;
    do {
      if (left == 0) return false;
      taken = std::min(left, portion);
    } while (!budget_.compare_exchange_weak(left, left - taken, std::memory_order_relaxed));
    allowance += taken;
  }
  allowance -= cost;
  return true;
}

void Ledger::part_ended() {
  if (living_.fetch_sub(1, std::memory_order_acq_rel) == 1) proactor.stop();
}

void Ledger::violation(std::string_view what) {
  if (violations_.fetch_add(1) < violations_shown) fmt::print(stderr, "soak: {}\n", what);
  end_soon();
}

std::uint64_t Ledger::new_seed() {
  const std::lock_guard lock(mutex_);
  return seeds_.next();
}

void Ledger::add(Entry& entry) {
  const std::lock_guard lock(mutex_);
  entries_.push_back(&entry);
}

void Ledger::remove(Entry& entry) {
  const Totals last = entry.totals();
  if (last.started != last.completed) violation("an operation has not completed");
  const std::lock_guard lock(mutex_);
  gone_ += last;
  const auto found = std::find(entries_.begin(), entries_.end(), &entry);
  *found = entries_.back();
  entries_.pop_back();
}

Totals Ledger::totals() const {
  const std::lock_guard lock(mutex_);
  Totals all = gone_;
  for (const Entry* entry : entries_) all += entry->totals();
  return all;
}

void Entry::start(Random& random) { start(random.one_in(Ledger::cancel_one_in)); }
void Entry::start() { start(false); }

void Entry::start(bool cancel) {
  if (open_.exchange(true, std::memory_order_relaxed)) ledger_.violation("started while pending");
  // Only the starter may say so: once started, the handler may be starting it again.
  const std::uint32_t activation = this->activation() + 1;
  expected_ = activation;
  cancel_asked_ = cancel;
  add(started_, 1);
  if (cancel) add(cancels_, 1);
  Proactor& proactor = ledger_.proactor;
  const std::error_code error =
      kind() == OperationKind::user ? proactor.post(*this) : proactor.start(*this);
  if (error) {
    // A violation, or its consequence. The round would not end, because the ledger counts an
    // operation that never started.
    fmt::print(stderr, "soak: {} was refused: {}\n", to_string(kind()), error.message());
    std::_Exit(1);
  }
  if (cancel) static_cast<void>(proactor.cancel(*this, activation));
}

void Entry::close_account() {
  if (!open_.exchange(false, std::memory_order_relaxed)) ledger_.violation("completed twice");
  if (activation() != expected_) ledger_.violation("completed for another activation");
  add(completed_, 1);
  // The value of an accept is the descriptor.
  if (kind() != OperationKind::accept) add(bytes_, bytes());
  if (!was_cancelled()) return;
  add(cancelled_, 1);
  if (!cancel_asked_ && !cancelled_by_others_) ledger_.violation("cancelled without a request");
}

bool Entry::expect_no_error(std::string_view what) {
  if (!failed() || was_cancelled()) return true;
  ledger_.violation(fmt::format("{}: {}", what, error().message()));
  return false;
}

Totals Entry::totals() const {
  return {started_.load(std::memory_order_relaxed), completed_.load(std::memory_order_relaxed),
          cancels_.load(std::memory_order_relaxed), cancelled_.load(std::memory_order_relaxed),
          bytes_.load(std::memory_order_relaxed)};
}

}  // namespace baton::soak
