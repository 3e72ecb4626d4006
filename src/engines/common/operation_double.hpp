// OperationDouble: stands for a user's operation inside an engine. An engine that wraps another one
// submits doubles, and the engine inside never sees - nor keeps a pointer to - what belongs to the
// user.
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/operation.hpp"

namespace baton {

class OperationDouble : public Operation {
 public:
  /// The whole request: what to do, on which handle, with which memory, how far it has come.
  void stand_for(const Operation& original) noexcept;
  /// As a processor asks, before it calls Engine::cancel.
  void ask_cancel() noexcept { cancel_asked_.store(true, std::memory_order_relaxed); }
  /// The results for the user's operation: bytes, error, the block of a pooled read.
  void report_to(Operation& original) const noexcept;

  /// The memory as it is: one buffer, or a list; of `operation`.
  [[nodiscard]] static void* memory_of(const Operation& operation) noexcept {
    return operation.data_;
  }
  [[nodiscard]] static std::size_t size_of(const Operation& operation) noexcept {
    return operation.size_;
  }
  /// Offset, endpoint or delimiter, by kind.
  [[nodiscard]] static std::uint64_t extra_of(const Operation& operation) noexcept {
    return operation.extra_;
  }
  void set_memory(void* data, std::size_t size) noexcept { data_ = data, size_ = size; }
  void set_extra(const void* extra) noexcept { extra_ = reinterpret_cast<std::uintptr_t>(extra); }

  /// The meaning of extra_.
  [[nodiscard]] static bool has_endpoint(const Operation& operation) noexcept;
};

}  // namespace baton
