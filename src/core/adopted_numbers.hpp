// AdoptedNumbers: which handle has which descriptor. A descriptor of two handles would be closed
// twice, the second time perhaps as another file's; and a readiness strategy can watch it only
// once.
#pragma once

#include <cstdint>
#include <system_error>
#include <vector>

#include "baton/handle.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton {

class AdoptedNumbers {
 public:
  explicit AdoptedNumbers(const os::System& system) : system_(system) {}

  /// The number is this handle's until it is forgotten. errc::already_adopted when another handle
  /// has it; ENOMEM. Any thread.
  [[nodiscard]] std::error_code claim(const Handle& handle) noexcept;
  /// Does nothing when the number is not, or no longer, this handle's. Any thread.
  void forget(const Handle& handle) noexcept;

 private:
  /// `file` tells a borrowed descriptor from one that has got its number since: the lender may
  /// close it between operations (contract.md, rule 12).
  struct Entry {
    std::uint32_t holder = 0;  // a handle's index + 1; 0: none
    std::uint32_t file = 0;    // 0: owned, so only the handle may close it
  };
  [[nodiscard]] std::uint32_t file_of(NativeHandle native) const noexcept;

  const os::System& system_;
  os::Mutex mutex_;
  // By number, as the kernel's own table of the process, and smaller than that.
  std::vector<Entry> entries_ BATON_GUARDED_BY(mutex_);
};

}  // namespace baton
