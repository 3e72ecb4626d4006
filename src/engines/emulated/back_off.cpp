// The list of directions that back off.
#include "engines/emulated/back_off.hpp"

#include <algorithm>
#include <limits>

#include "base/assert.hpp"
#include "engines/common/pauses.hpp"

namespace baton::engines::emulated {
namespace {
constexpr std::int64_t ns_per_ms = 1'000'000;

// Milliseconds since the epoch wrap after 49 days. Pauses are far shorter, so the difference is
// right.
std::int32_t until(std::uint32_t wake_ms, std::uint32_t now_ms) noexcept {
  return static_cast<std::int32_t>(wake_ms - now_ms);
}
}  // namespace

BackOffs::BackOffs(const os::System& system, const ChunkedTable<Record>& records,
                   bool concurrent) noexcept
    : system_(system),
      records_(records),
      concurrent_(concurrent),
      epoch_ns_(system.monotonic_ns()) {}

std::uint32_t BackOffs::now_ms() const noexcept {
  return static_cast<std::uint32_t>((system_.monotonic_ns() - epoch_ns_) / ns_per_ms);
}

Direction& BackOffs::direction_of(std::uint32_t name) const noexcept {
  BATON_ASSERT(name != 0);
  Record& record = records_[(name - 1) / 2];
  return (name - 1) % 2 == 1 ? record.out : record.in;
}

bool BackOffs::add(const Record& record, Direction& direction, std::uint32_t span_ms) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  direction.wake_ms = static_cast<std::uint32_t>(end_of_pause_ms(now_ms(), span_ms));
  if (first_ == 0 || until(direction.wake_ms, look_ms_) < 0) look_ms_ = direction.wake_ms;
  if (direction.listed) return false;
  direction.listed = true;
  direction.next_sleeper = first_;
  first_ = name_of(record, direction);
  count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

bool BackOffs::unlink(std::uint32_t name, Direction& direction) noexcept {
  for (std::uint32_t* link : {&due_, &first_}) {
    while (*link != 0 && *link != name) link = &direction_of(*link).next_sleeper;
    if (*link == 0) continue;
    *link = direction.next_sleeper;
    direction.listed = false;
    count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

void BackOffs::remove(const Record& record, Direction& direction) noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (direction.listed) unlink(name_of(record, direction), direction);
}

Deadline BackOffs::next() noexcept {
  // relaxed: a thread that adds one interrupts the wait afterwards.
  if (count_.load(std::memory_order_relaxed) == 0) return Deadline::never();
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (due_ != 0) return Deadline::immediately();
  if (first_ == 0) return Deadline::never();
  const std::int32_t left = until(look_ms_, now_ms());
  return Deadline::at_ns(system_.monotonic_ns() + std::max(left, 0) * ns_per_ms);
}

bool BackOffs::take_due(Record*& record, Direction*& direction) noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return false;
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (due_ == 0) find_due();
  if (due_ == 0) return false;
  direction = &direction_of(due_);
  record = &records_[(due_ - 1) / 2];
  return unlink(due_, *direction);
}

// All in one pass: a search for each would pass those again that are not due. The first that began
// comes first.
void BackOffs::find_due() noexcept {
  const std::uint32_t now = now_ms();
  if (until(look_ms_, now) > 0) return;
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  std::uint32_t* link = &first_;
  while (*link != 0) {
    Direction& direction = direction_of(*link);
    const std::int32_t left = until(direction.wake_ms, now);
    if (left > 0) {
      least = std::min(least, left);
      link = &direction.next_sleeper;
      continue;
    }
    const std::uint32_t name = *link;
    *link = direction.next_sleeper;
    direction.next_sleeper = due_;
    due_ = name;
  }
  look_ms_ = now + static_cast<std::uint32_t>(least);
}

}  // namespace baton::engines::emulated
