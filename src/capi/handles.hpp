// HandleNames: numbers for handles that other languages can keep, and that are never mistaken for
// another handle later. Handle objects are reused after a close; a number is not.
//
// Each record has a word: generation, a closing bit, and how many calls are using the handle right
// now. A call pins the handle by raising that count, which succeeds only with the right generation
// and without the closing bit. A close sets the bit, waits until no thread is inside a call (calls
// do not block), and only then tells the proactor. So the proactor cannot reuse the Handle while a
// call still means its predecessor.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/chunked_table.hpp"
#include "baton.h"
#include "baton/handle.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::capi {

class HandleNames {
 public:
  explicit HandleNames(const os::System& system) : system_(system), records_(index_end) {}

  /// A new name, or 0 when there is no memory for the table.
  [[nodiscard]] baton_handle add(Handle& handle) noexcept;
  /// Refuses further pins and waits for those there are; null when the name is not in use.
  [[nodiscard]] Handle* begin_close(baton_handle name) noexcept;
  /// All names are gone: after fork. A thread of the parent may have been in add().
  void reset() noexcept;

 private:
  friend class PinnedHandle;

  static constexpr std::uint32_t index_end = 1U << 20;
  static constexpr std::uint64_t pinned = 1;
  static constexpr std::uint64_t closing = 1U << 31;
  static constexpr std::uint64_t users = closing - 1;

  struct Record {
    std::atomic<std::uint64_t> word{closing};
    Handle* handle = nullptr;  // written before the word that makes it visible

    /// Adds to the word; false when the name is not in use. REQUIRES: find() found it by the name.
    [[nodiscard]] bool add(std::uint64_t what, baton_handle name) noexcept {
      std::uint64_t seen = word.load(std::memory_order_relaxed);
      do {
        // The same generation, and no closing bit, which no index has.
        if ((seen ^ name) >= closing) return false;
        // acquire: pairs with the release in HandleNames::add().
      } while (!word.compare_exchange_weak(seen, seen + what, std::memory_order_acquire,
                                           std::memory_order_relaxed));
      return true;
    }
    // release: begin_close sees what was done under the pin.
    void unpin() noexcept { word.fetch_sub(pinned, std::memory_order_release); }
  };

  [[nodiscard]] Record* find(baton_handle name) const noexcept {
    return records_.find(static_cast<std::uint32_t>(name) - 1);
  }

  const os::System& system_;
  ChunkedTable<Record> records_;
  os::Mutex growing_;
};

/// A pin for a scope.
class PinnedHandle {
 public:
  PinnedHandle(const HandleNames& names, baton_handle name) noexcept : record_(names.find(name)) {
    if (record_ != nullptr && !record_->add(HandleNames::pinned, name)) record_ = nullptr;
  }
  ~PinnedHandle() {
    if (record_ != nullptr) record_->unpin();
  }
  PinnedHandle(const PinnedHandle&) = delete;
  PinnedHandle& operator=(const PinnedHandle&) = delete;
  /// Null when the name is not in use.
  [[nodiscard]] Handle* get() const noexcept {
    return record_ != nullptr ? record_->handle : nullptr;
  }

 private:
  HandleNames::Record* record_;
};

}  // namespace baton::capi
