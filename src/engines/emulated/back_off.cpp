// The list of directions that back off.
#include "engines/emulated/back_off.hpp"

#include <algorithm>
#include <limits>
#include <utility>

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

void BackOffs::link(std::uint32_t name, std::uint32_t& first) noexcept {
  direction_of(name).next_sleeper = first;
  first = name;
}

void BackOffs::count(std::int32_t more) noexcept {
  count_.store(count_.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(more),
               std::memory_order_relaxed);
}

bool BackOffs::add(const Record& record, Direction& direction, std::uint32_t span_ms) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  const Listed before = std::exchange(direction.listed, Listed::yes);
  const bool alone = count_.load(std::memory_order_relaxed) == 0;
  direction.wake_ms = static_cast<std::uint32_t>(end_of_pause_ms(now_ms(), span_ms));
  if (alone || until(direction.wake_ms, look_ms_) < 0) look_ms_ = direction.wake_ms;
  if (before == Listed::yes) return false;
  if (before == Listed::no) link(name_of(record, direction), first_);
  count(1);
  return true;
}

void BackOffs::remove(Direction& direction) noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (direction.listed != Listed::yes) return;
  direction.listed = Listed::removed;
  count(-1);
}

Deadline BackOffs::next() noexcept {
  // relaxed: a thread that adds one interrupts the wait afterwards.
  if (count_.load(std::memory_order_relaxed) == 0) return Deadline::never();
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (due_ != 0) return Deadline::immediately();
  const std::int32_t left = until(look_ms_, now_ms());
  return Deadline::at_ns(system_.monotonic_ns() + std::max(left, 0) * ns_per_ms);
}

bool BackOffs::take_due(Record*& record, Direction*& direction) noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return false;
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (due_ == 0) find_due();
  while (due_ != 0) {
    const std::uint32_t name = due_;
    direction = &direction_of(name);
    due_ = direction->next_sleeper;
    const bool later = direction->listed == Listed::yes && until(direction->wake_ms, now_ms()) > 0;
    if (later) {  // removed and added again since it was found
      link(name, first_);
      continue;
    }
    if (std::exchange(direction->listed, Listed::no) == Listed::removed) continue;
    record = &records_[(name - 1) / 2];
    count(-1);
    return true;
  }
  return false;
}

// All in one pass: a search for each would pass those again that are not due. The first that began
// comes first.
void BackOffs::find_due() noexcept {
  const std::uint32_t now = now_ms();
  if (until(look_ms_, now) > 0) return;
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  std::uint32_t* at = &first_;
  while (*at != 0) {
    const std::uint32_t name = *at;
    Direction& direction = direction_of(name);
    const std::int32_t left = until(direction.wake_ms, now);
    if (direction.listed == Listed::yes && left > 0) {
      least = std::min(least, left);
      at = &direction.next_sleeper;
      continue;
    }
    *at = direction.next_sleeper;
    if (direction.listed == Listed::yes) {
      link(name, due_);
    } else {
      direction.listed = Listed::no;
    }
  }
  look_ms_ = now + static_cast<std::uint32_t>(least);
}

}  // namespace baton::engines::emulated
