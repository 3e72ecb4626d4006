// Allocation of handle records.
#include "core/handle_table.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "core/asked_word.hpp"
#include "os/no_allocation.hpp"

namespace baton {

Handle* HandleTable::reserve(bool accepted) noexcept {
  const os::LockGuard lock{mutex_, system_};
  if (ended_ || (count() >= most_ && !accepted)) return nullptr;
  Handle* handle = free_;
  if (handle != nullptr) {
    free_ = handle->next_;
  } else {
    const std::uint32_t index = used_.load(std::memory_order_relaxed);
    if (!ensure(index)) return nullptr;
    handle = &table_[index];
    handle->index_ = index;
    used_.store(index + 1, std::memory_order_release);
  }
  handle->generation_.fetch_add(1, std::memory_order_relaxed);
  BATON_ASSERT(handle->asked_.load(std::memory_order_relaxed) ==
               AskedWord::of(handle->generation()));
  count_.fetch_add(1, std::memory_order_relaxed);
  return handle;
}

void HandleTable::fill(Handle& handle, NativeHandle native, HandleKind kind, Ownership ownership,
                       bool nonblocking, std::uint16_t lane, std::uint16_t processor,
                       OpenFacts facts) noexcept {
  handle.native_ = native;
  handle.kind_.store(kind, std::memory_order_relaxed);
  handle.ownership_ = ownership;
  handle.nonblocking_ = nonblocking;
  handle.readable_ = facts.readable;
  handle.writable_ = facts.writable;
  handle.is_terminal_ = facts.is_terminal;
  handle.appends_ = facts.appends;
  handle.direct_ = facts.direct;
  handle.syncs_ = facts.syncs;
  handle.is_file_ = kind == HandleKind::file || facts.is_file;
  handle.set_records(Handle::Records::unknown);
  // A regular file's close may wait for its server or its disk.
  handle.marks_.store(handle.is_file_ ? Handle::close_blocks : 0, std::memory_order_relaxed);
  handle.lane_.store(lane, std::memory_order_relaxed);
  handle.processor_.store(processor, std::memory_order_relaxed);
  handle.attached_ = 0;
  handle.pending_ = 0;
  handle.closing_ = nullptr;
  handle.operations_ = nullptr;
  handle.next_ = nullptr;
  handle.route_.store(nullptr, std::memory_order_relaxed);
}

bool HandleTable::ensure(std::uint32_t index) noexcept {
  if (!table_.ensure(index)) return false;
  if (has_dedicated_lists() && !dedicated_->ensure(index)) return false;
  const std::uint32_t chunk_end = (index / limits::handles_chunk + 1) * limits::handles_chunk;
  const std::uint32_t room = std::min(chunk_end, table_.bound());
  if (room > room_.load(std::memory_order_relaxed)) room_.store(room, std::memory_order_relaxed);
  return true;
}

bool HandleTable::grow() noexcept {
  if (os::NoAllocation::now()) return true;  // allocate(), which comes later, may still get it
  const os::LockGuard lock{mutex_, system_};
  for (;;) {
    const std::uint32_t room = room_.load(std::memory_order_relaxed);
    if (room == table_.bound() || count() + limits::handles_for_accepted < room) return true;
    if (!ensure(room)) return false;
  }
}

void HandleTable::release(Handle& handle) noexcept {
  std::uint64_t asked = handle.asked_.load(std::memory_order_relaxed);
  std::uint64_t then = 0;
  do {
    then = (asked & AskedWord::linked) != 0 ? asked | AskedWord::let_go
                                            : AskedWord::of(AskedWord::generation(asked) + 1);
    // release: the thread that unlinks the record sees what was written to it before.
  } while (!handle.asked_.compare_exchange_weak(asked, then, std::memory_order_release,
                                                std::memory_order_relaxed));
  if ((then & AskedWord::let_go) != 0) return;
  const os::LockGuard lock{mutex_, system_};
  BATON_ASSERT(handle.pending_ == 0 && handle.operations_ == nullptr);
  handle.phase_.store(Handle::Phase::free, std::memory_order_release);
  handle.native_ = invalid_handle;
  handle.next_ = free_;
  free_ = &handle;
  count_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace baton
