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
  /// The handle, which cannot be closed until unpin(); null when the name is not in use.
  [[nodiscard]] Handle* pin(baton_handle name) const noexcept;
  void unpin(baton_handle name) const noexcept;
  /// Refuses further pins and waits for those there are; null when the name is not in use.
  [[nodiscard]] Handle* begin_close(baton_handle name) noexcept;
  /// All names are gone: after fork. A thread of the parent may have been in add().
  void reset() noexcept;

 private:
  struct Record {
    std::atomic<std::uint64_t> word{closing};
    Handle* handle = nullptr;  // written before the word that makes it visible
  };
  static constexpr std::uint32_t index_end = 1U << 20;
  static constexpr std::uint64_t closing = 1U << 31;
  static constexpr std::uint64_t users = closing - 1;

  [[nodiscard]] Record* find(baton_handle name) const noexcept {
    return records_.find(static_cast<std::uint32_t>(name) - 1);
  }
  static std::uint64_t generation(std::uint64_t word_or_name) noexcept {
    return word_or_name >> 32;
  }

  const os::System& system_;
  ChunkedTable<Record> records_;
  os::Mutex growing_;
};

/// A pin for a scope.
class PinnedHandle {
 public:
  PinnedHandle(const HandleNames& names, baton_handle name) noexcept
      : names_(names), name_(name), handle_(names.pin(name)) {}
  ~PinnedHandle() {
    if (handle_ != nullptr) names_.unpin(name_);
  }
  PinnedHandle(const PinnedHandle&) = delete;
  PinnedHandle& operator=(const PinnedHandle&) = delete;
  [[nodiscard]] Handle* get() const noexcept { return handle_; }

 private:
  const HandleNames& names_;
  const baton_handle name_;
  Handle* const handle_;
};

}  // namespace baton::capi
