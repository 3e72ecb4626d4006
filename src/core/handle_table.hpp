// HandleTable: the proactor's records of its descriptors, at stable addresses, grown in chunks up
// to a bound.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/chunked_table.hpp"
#include "baton/handle.hpp"
#include "baton/limits.hpp"
#include "baton/result.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton {

/// What a descriptor is, and how it was opened.
struct OpenFacts {
  bool readable = true;
  bool writable = true;
  bool is_terminal = false;
  bool appends = false;
  bool direct = false;
  bool syncs = false;
  bool is_file = false;
};

class HandleTable {
 public:
  HandleTable(std::uint32_t handles_max, const os::System& system)
      : system_(system), most_(handles_max), table_(handles_max + limits::handles_for_accepted) {}

  /// The number of handles that are open or closing.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_relaxed);
  }

  /// The largest number of handles, without the places for accepted ones.
  [[nodiscard]] std::uint32_t most() const noexcept { return most_; }

  /// The number of handles that are open or closing, for engines (EngineOptions::handles).
  [[nodiscard]] const std::atomic<std::uint32_t>& counter() const noexcept { return count_; }

  /// Gets memory for more accepted connections. False: there is none but for those that are
  /// accepted already (limits::handles_for_accepted). Any thread.
  [[nodiscard]] bool make_room() noexcept {
    return count() + limits::handles_for_accepted < room_.load(std::memory_order_relaxed) || grow();
  }

  /// The number of indices handed out so far.
  [[nodiscard]] std::uint32_t used() const noexcept {
    return used_.load(std::memory_order_acquire);
  }

  /// A new record, which for_each does not visit before open(); null when the table is full, or
  /// after end(). `accepted`: it may use one of the places kept for accepted connections
  /// (limits::handles_for_accepted). Any thread.
  Handle* allocate(NativeHandle native, HandleKind kind, Ownership ownership, bool nonblocking,
                   std::uint16_t lane, std::uint16_t processor = Handle::any_processor,
                   OpenFacts facts = {}, bool accepted = false) noexcept {
    Handle* const handle = reserve(accepted);
    if (handle != nullptr) {
      fill(*handle, native, kind, ownership, nonblocking, lane, processor, facts);
    }
    return handle;
  }
  /// The same in two steps, for a descriptor that is made only when there is a place for it.
  Handle* reserve(bool accepted = false) noexcept;
  static void fill(Handle& handle, NativeHandle native, HandleKind kind, Ownership ownership,
                   bool nonblocking, std::uint16_t lane, std::uint16_t processor,
                   OpenFacts facts) noexcept;
  static void open(Handle& handle) noexcept {
    handle.phase_.store(Handle::Phase::open, std::memory_order_release);
  }
  /// From now on there are no new handles. count() has those that are to be opened yet.
  void end() noexcept {
    const os::LockGuard lock{mutex_, system_};
    ended_ = true;
  }
  /// Makes the index free for another handle; the generation tells them apart. A record in a lane's
  /// request list stays there, and the lane releases it after unlinking it. Any thread.
  void release(Handle& handle) noexcept;

  /// Before the first handle of a team with dedicated processors beside lanes: gives each handle a
  /// list of its operations with these. Throws std::bad_alloc.
  void add_dedicated_lists() {
    if (dedicated_ == nullptr) {
      dedicated_ = std::make_unique<ChunkedTable<Operation*>>(table_.bound());
    }
  }
  [[nodiscard]] bool has_dedicated_lists() const noexcept { return dedicated_ != nullptr; }
  /// The first of that list. The lane's thread changes it with the proactor's mutex held, so it
  /// reads it without, and others read it with the mutex.
  [[nodiscard]] Operation*& dedicated(const Handle& handle) noexcept {
    return (*dedicated_)[handle.index()];
  }

  /// Calls visit(Handle&) for each handle that is open or closing. REQUIRES: their lanes are quiet,
  /// or the visitor touches only what any thread may touch.
  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    for_each_in(0, used(), visit);
  }
  /// The same for the indices [first, last). REQUIRES: last <= used().
  template <class Visit>
  void for_each_in(std::uint32_t first, std::uint32_t last, Visit&& visit) noexcept {
    for (std::uint32_t i = first; i < last; ++i) {
      Handle* handle = table_.find(i);
      if (handle == nullptr) continue;
      const Handle::Phase phase = handle->phase_.load(std::memory_order_acquire);
      if (phase == Handle::Phase::open || phase == Handle::Phase::closing) visit(*handle);
    }
  }

 private:
  bool grow() noexcept;
  bool ensure(std::uint32_t index) noexcept BATON_REQUIRES(mutex_);

  const os::System& system_;
  const std::uint32_t most_;
  os::Mutex mutex_;
  ChunkedTable<Handle> table_;
  std::unique_ptr<ChunkedTable<Operation*>> dedicated_;
  Handle* free_ BATON_GUARDED_BY(mutex_) = nullptr;
  bool ended_ BATON_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint32_t> used_{0};  // indices handed out so far
  std::atomic<std::uint32_t> room_{0};  // indices below this have their memory
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace baton
