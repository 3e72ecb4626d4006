// AdoptedNumbers: which handle holds which descriptor number. A descriptor with two handles would
// be closed twice, and the second close might hit another file. A readiness engine can watch a
// descriptor only once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

#include "baton/handle.hpp"
#include "baton/limits.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton {

class AdoptedNumbers {
 public:
  explicit AdoptedNumbers(const os::System& system) : system_(system) {}

  /// Assigns the number to this handle until forget(). Fails with errc::already_adopted if another
  /// handle holds it, or with ENOMEM. Any thread.
  [[nodiscard]] std::error_code claim(const Handle& handle) noexcept;
  /// Gets the memory for claims of numbers that are a little higher than all so far: the system
  /// gives a new file the lowest free one. False: there is none. Any thread.
  [[nodiscard]] bool make_room() noexcept {
    return highest_.load(std::memory_order_relaxed) + limits::handles_for_accepted <
               known_.load(std::memory_order_relaxed) ||
           grow_ahead();
  }
  /// Does nothing if another handle, or none, holds the number. Any thread.
  void forget(const Handle& handle) noexcept;

 private:
  /// `file` detects that the number of a borrowed descriptor now names another file: the lender may
  /// close it between operations (contract.md, rule 12).
  struct Entry {
    std::uint32_t holder = 0;  // a handle's index + 1; 0: none
    std::uint32_t file = 0;    // 0: owned, so only the handle may close it
  };
  bool grow_ahead() noexcept;
  bool grow(std::size_t number) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t file_of(NativeHandle native) const noexcept;

  const os::System& system_;
  os::Mutex mutex_;
  // Indexed by number, like the process's descriptor table, and smaller than that.
  std::vector<Entry> entries_ BATON_GUARDED_BY(mutex_);
  std::atomic<std::size_t> known_{0};    // the size of that, which never shrinks
  std::atomic<std::size_t> highest_{0};  // of the numbers that were claimed
};

}  // namespace baton
