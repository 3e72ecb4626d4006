// Allocation of handle records.
#include "core/handle_table.hpp"

#include "base/assert.hpp"

namespace baton {

Handle* HandleTable::allocate(NativeHandle native, HandleKind kind, Ownership ownership,
                              bool nonblocking, std::uint16_t lane, std::uint16_t processor,
                              bool readable, bool appends) noexcept {
  const os::LockGuard lock{mutex_, system_};
  Handle* handle = free_;
  if (handle != nullptr) {
    free_ = handle->next_;
  } else {
    const std::uint32_t index = used_.load(std::memory_order_relaxed);
    if (!table_.ensure(index)) return nullptr;
    handle = &table_[index];
    handle->index_ = index;
    used_.store(index + 1, std::memory_order_release);
  }
  handle->native_ = native;
  handle->generation_.fetch_add(1, std::memory_order_relaxed);
  handle->kind_.store(kind, std::memory_order_relaxed);
  handle->ownership_ = ownership;
  handle->nonblocking_ = nonblocking;
  handle->readable_ = readable;
  handle->appends_ = appends;
  // A regular file's close may wait for its server or its disk.
  handle->close_may_block_.store(kind == HandleKind::file, std::memory_order_relaxed);
  handle->lane_.store(lane, std::memory_order_relaxed);
  handle->processor_.store(processor, std::memory_order_relaxed);
  handle->attached_ = 0;
  handle->pending_ = 0;
  handle->closing_ = nullptr;
  handle->operations_ = nullptr;
  handle->next_ = nullptr;
  handle->straight_.store(nullptr, std::memory_order_relaxed);
  handle->phase_.store(Handle::Phase::open, std::memory_order_release);
  count_.fetch_add(1, std::memory_order_relaxed);
  return handle;
}

void HandleTable::release(Handle& handle) noexcept {
  const os::LockGuard lock{mutex_, system_};
  BATON_ASSERT(handle.pending_ == 0 && handle.operations_ == nullptr);
  handle.phase_.store(Handle::Phase::free, std::memory_order_release);
  handle.native_ = invalid_handle;
  handle.next_ = free_;
  free_ = &handle;
  count_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace baton
