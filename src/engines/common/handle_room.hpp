// HandleRoom: whether the proactor's table has room for one more handle. An accept backs off while
// the table is full, as it does without descriptors: an error would end the program's accept loop.
#pragma once

#include <atomic>
#include <cstdint>

#include "baton/engine.hpp"
#include "baton/limits.hpp"

namespace baton::engines {

class HandleRoom {
 public:
  explicit HandleRoom(const EngineOptions& options) noexcept
      : count_(options.handles),
        most_(options.handles_full),
        memory_(options.handle_memory),
        context_(options.handle_memory_context) {}

  /// Any thread. relaxed: a close that happens meanwhile is seen after the back-off.
  [[nodiscard]] bool none() const noexcept { return full(most_) || no_memory(); }
  /// As none(), for a connection that was accepted just before the table became full.
  [[nodiscard]] bool none_for_accepted() const noexcept {
    return full(most_ + limits::handles_for_accepted);
  }

 private:
  [[nodiscard]] bool full(std::uint32_t most) const noexcept {
    return count_ != nullptr && count_->load(std::memory_order_relaxed) >= most;
  }
  [[nodiscard]] bool no_memory() const noexcept { return memory_ != nullptr && !memory_(context_); }
  const std::atomic<std::uint32_t>* count_;
  std::uint32_t most_;
  bool (*memory_)(void*) noexcept;
  void* context_;
};

}  // namespace baton::engines
