// The descriptors that handles hold.
#include "core/adopted_numbers.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <new>

#include "baton/error.hpp"
#include "os/no_allocation.hpp"

namespace baton {

std::error_code AdoptedNumbers::claim(const Handle& handle) noexcept {
  const auto number = static_cast<std::size_t>(handle.native());
  const std::uint32_t file = handle.owned() ? 0 : file_of(handle.native());
  const os::LockGuard lock{mutex_, system_};
  if (!grow(number)) return std::make_error_code(std::errc::not_enough_memory);
  if (number > highest_.load(std::memory_order_relaxed)) {
    highest_.store(number, std::memory_order_relaxed);
  }
  Entry& entry = entries_[number];
  const bool reused = entry.file != 0 && entry.file != file_of(handle.native());
  if (entry.holder != 0 && !reused) return errc::already_adopted;
  entry = {.holder = handle.index() + 1, .file = file};
  return {};
}

bool AdoptedNumbers::grow_ahead() noexcept {
  if (os::NoAllocation::now()) return true;  // the claim, which comes later, may still get it
  const os::LockGuard lock{mutex_, system_};
  return grow(highest_.load(std::memory_order_relaxed) + limits::handles_for_accepted);
}

bool AdoptedNumbers::grow(std::size_t number) noexcept {
  if (number < entries_.size()) return true;
  try {
    entries_.resize(std::max(number + 1, 2 * entries_.size()));
  } catch (const std::bad_alloc&) {
    return false;
  }
  known_.store(entries_.size(), std::memory_order_relaxed);
  return true;
}

void AdoptedNumbers::forget(const Handle& handle) noexcept {
  const auto number = static_cast<std::size_t>(handle.native());
  const os::LockGuard lock{mutex_, system_};
  if (number < entries_.size() && entries_[number].holder == handle.index() + 1) {
    entries_[number] = {};
  }
}

// Never 0. If two files have the same value, a number that was closed and reused is refused.
// Neighbouring inodes, as of sockets that are made one after the other, have different values.
std::uint32_t AdoptedNumbers::file_of(NativeHandle native) const noexcept {
  struct stat status{};
  if (system_.fstat(native, &status) != 0) return 1;
  constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15U;
  const std::uint64_t both = status.st_ino ^ (status.st_dev << 32U);
  const auto value = static_cast<std::uint32_t>((both * golden_ratio) >> 32U);
  return value != 0 ? value : 1;
}

}  // namespace baton
