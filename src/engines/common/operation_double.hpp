// OperationDouble: stands for a user's operation inside an engine. A wrapping engine submits
// doubles, so the inner engine never sees the user's operation or keeps a pointer to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/operation.hpp"

namespace baton {

class OperationDouble : public Operation {
 public:
  /// Copies the whole request: kind, handle, memory, and the bytes moved so far.
  void stand_for(const Operation& original) noexcept;
  /// Sets the mark that a processor sets before it calls Engine::cancel.
  void ask_cancel() noexcept { cancel_asked_.store(true, std::memory_order_relaxed); }
  /// Copies the results to the user's operation: bytes, error, the block of a pooled read.
  void report_to(Operation& original) const noexcept;

  /// The memory field of `operation`: one buffer, or a list.
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

  /// Whether extra_of() is an endpoint.
  [[nodiscard]] static bool has_endpoint(const Operation& operation) noexcept;
};

}  // namespace baton
