// Pins, and the close that waits for them.
#include "capi/handles.hpp"

#include <memory>
#include <thread>

namespace baton::capi {

baton_handle HandleNames::add(Handle& handle) noexcept {
  {
    const os::LockGuard lock{growing_, system_};
    if (!records_.ensure(handle.index())) return 0;
  }
  Record& record = records_[handle.index()];
  const std::uint64_t next = (record.word.load(std::memory_order_relaxed) >> 32) + 1;
  record.handle = &handle;
  // release: a thread that sees the generation sees the handle.
  record.word.store(next << 32, std::memory_order_release);
  return next << 32 | (std::uint64_t{handle.index()} + 1);
}

Handle* HandleNames::begin_close(baton_handle name) noexcept {
  Record* record = find(name);
  if (record == nullptr || !record->add(closing, name)) return nullptr;
  while ((record->word.load(std::memory_order_acquire) & users) != 0) std::this_thread::yield();
  return record->handle;
}

void HandleNames::reset() noexcept {
  std::construct_at(&growing_);
  for (std::uint32_t i = 0; i < records_.bound(); ++i) {
    Record* record = records_.find(i);
    if (record == nullptr) continue;
    const std::uint64_t word = record->word.load(std::memory_order_relaxed);
    record->word.store((word & ~users) | closing, std::memory_order_relaxed);
  }
}

}  // namespace baton::capi
