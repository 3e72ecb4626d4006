// HandleRoom: whether the proactor can know one more handle. An accept that brought a connection
// beyond that would end its loop by an error, so it rests like one without descriptors.
#pragma once

#include <atomic>
#include <cstdint>

#include "baton/engine.hpp"
#include "baton/limits.hpp"

namespace baton::engines {

class HandleRoom {
 public:
  explicit HandleRoom(const EngineOptions& options) noexcept
      : count_(options.handles), most_(options.handles_full) {}

  /// Any thread. relaxed: one that is closed meanwhile is seen after the rest.
  [[nodiscard]] bool none() const noexcept { return full(most_); }
  /// Nor one that was accepted just before the table became full.
  [[nodiscard]] bool none_for_accepted() const noexcept {
    return full(most_ + limits::handles_for_accepted);
  }

 private:
  [[nodiscard]] bool full(std::uint32_t most) const noexcept {
    return count_ != nullptr && count_->load(std::memory_order_relaxed) >= most;
  }
  const std::atomic<std::uint32_t>* count_;
  std::uint32_t most_;
};

}  // namespace baton::engines
