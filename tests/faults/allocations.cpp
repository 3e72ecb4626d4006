// In a file of its own: a compiler that sees both new and free reports the pair as a mismatch.
#include "allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> living{0};
std::atomic<bool> armed{false};
std::atomic<std::size_t> counted{0};
std::atomic<std::size_t> failing{0};
std::atomic<std::size_t> last{0};
std::atomic<bool> failed{false};
thread_local int exempt = 0;

bool refused() noexcept {
  if (!armed.load(std::memory_order_acquire) || exempt > 0) return false;
  const std::size_t number = counted.fetch_add(1) + 1;
  const std::size_t nth = failing.load();
  if (nth == 0 || number < nth || number > last.load()) return false;
  failed.store(true);
  return true;
}

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (refused()) return nullptr;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded != 0 ? rounded : alignment);
  if (memory != nullptr) living.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  living.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

constexpr std::size_t usual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

namespace baton::faults {

long alive() noexcept { return living.load(); }

FailingAllocations::FailingAllocations(std::size_t nth, std::size_t times) noexcept {
  counted = 0;
  failing = nth;
  last = nth + times - 1;
  failed = false;
  armed.store(true, std::memory_order_release);
}
void FailingAllocations::end() noexcept { armed.store(false, std::memory_order_release); }
std::size_t FailingAllocations::count() const noexcept { return counted; }
bool FailingAllocations::hit() const noexcept { return failed; }

Exempt::Exempt() noexcept { ++exempt; }
Exempt::~Exempt() { --exempt; }

}  // namespace baton::faults

void* operator new(std::size_t size) {
  if (void* memory = allocate(size, usual)) return memory;
  throw std::bad_alloc{};
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  if (void* memory = allocate(size, static_cast<std::size_t>(alignment))) return memory;
  throw std::bad_alloc{};
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, usual);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}

// Arrays as well: a sanitizer's own operator new[] would not call these.
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, usual);
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}
