// BackOffs: directions that pause, because trying again at once would only burn CPU. Examples are
// an accept without a free descriptor, a connect to a full backlog, and readiness that turns out
// empty again and again. Meanwhile they are not watched; the engine's wait ends when the first is
// due. Full UNIX stream sockets are in the list, too: they are watched, and tried again now and
// then.
//
// The list is linked through the directions, so that nothing is allocated. It is searched only when
// one of them is due. One that is removed is only marked, and leaves the list at the next search.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/chunked_table.hpp"
#include "baton/deadline.hpp"
#include "engines/emulated/record.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::engines::emulated {

class BackOffs {
 public:
  BackOffs(const os::System& system, const ChunkedTable<Record>& records, bool concurrent) noexcept;

  /// The direction is due in `span_ms`. False: it was in the list already. REQUIRES: its mutex is
  /// held (taken before ours).
  bool add(const Record& record, Direction& direction, std::uint32_t span_ms) noexcept;
  void remove(Direction& direction) noexcept;

  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  /// When the first is due, or earlier: the one that was due first may have been removed.
  [[nodiscard]] Deadline next() noexcept;

  /// Takes the next direction that is due now; false when there is none (left). Only the leader.
  bool take_due(Record*& record, Direction*& direction) noexcept;

 private:
  // A direction's name in the list: twice its record's index, plus 1 for `out`, plus 1; 0 is none.
  static std::uint32_t name_of(const Record& record, const Direction& direction) noexcept {
    return record.index * 2 + (&direction == &record.out ? 1U : 0U) + 1;
  }
  Direction& direction_of(std::uint32_t name) const noexcept;
  void link(std::uint32_t name, std::uint32_t& first) noexcept BATON_REQUIRES(mutex_);
  void count(std::int32_t more) noexcept BATON_REQUIRES(mutex_);
  void find_due() noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t now_ms() const noexcept;

  const os::System& system_;
  const ChunkedTable<Record>& records_;
  const bool concurrent_;
  const std::int64_t epoch_ns_;
  os::Mutex mutex_;
  std::uint32_t first_ BATON_GUARDED_BY(mutex_) = 0;
  std::uint32_t due_ BATON_GUARDED_BY(mutex_) = 0;      // those found due, and not taken yet
  std::uint32_t look_ms_ BATON_GUARDED_BY(mutex_) = 0;  // none is due before
  std::atomic<std::uint32_t> count_{
      0};  // changed under mutex_; read without, to do nothing quickly
};

}  // namespace baton::engines::emulated
