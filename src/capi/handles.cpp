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
  const std::uint64_t next = generation(record.word.load(std::memory_order_relaxed)) + 1;
  record.handle = &handle;
  // release: a thread that sees the generation sees the handle.
  record.word.store(next << 32, std::memory_order_release);
  return next << 32 | (std::uint64_t{handle.index()} + 1);
}

Handle* HandleNames::pin(baton_handle name) const noexcept {
  Record* record = find(name);
  if (record == nullptr) return nullptr;
  std::uint64_t word = record->word.load(std::memory_order_relaxed);
  do {
    if (generation(word) != generation(name) || (word & closing) != 0) return nullptr;
    // acquire: pairs with the release in add().
  } while (!record->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                               std::memory_order_relaxed));
  return record->handle;
}

void HandleNames::unpin(baton_handle name) const noexcept {
  // release: begin_close sees what was done under the pin.
  find(name)->word.fetch_sub(1, std::memory_order_release);
}

Handle* HandleNames::begin_close(baton_handle name) noexcept {
  Record* record = find(name);
  if (record == nullptr) return nullptr;
  std::uint64_t word = record->word.load(std::memory_order_relaxed);
  do {
    if (generation(word) != generation(name) || (word & closing) != 0) return nullptr;
  } while (!record->word.compare_exchange_weak(word, word | closing, std::memory_order_acquire,
                                               std::memory_order_relaxed));
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
