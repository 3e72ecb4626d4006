// Visit: a thread that is not inside a proactor calls it to start something. What it starts may be
// all that the proactor is kept for: a task that a thread of another proactor brings back may end
// at once, and then the program ends this proactor. The end waits until its visitors have left.
#pragma once

#include <atomic>

#include "core/ledger.hpp"

namespace baton {

/// For a scope. Nothing of the proactor may be touched after it.
class Visit {
 public:
  /// `counts`: false if the thread is inside the proactor, which then cannot end.
  explicit Visit(Ledger& ledger, bool counts = true) noexcept : ledger_(ledger), counts_(counts) {
    // relaxed: what it starts is visible only after it, by a lock or a release.
    if (counts_) ledger_.visitors.fetch_add(1, std::memory_order_relaxed);
  }
  // release: pairs with the acquire in Core::wait_for_visitors.
  ~Visit() {
    if (counts_) ledger_.visitors.fetch_sub(1, std::memory_order_release);
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Ledger& ledger_;
  const bool counts_;
};

}  // namespace baton
