// A descriptor kept for the moment when there are none: given up so that one connection can be
// taken from the backlog and closed, and its peer be told instead of waiting. Not thread-safe: the
// engine's lock.
#pragma once

#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::engines::uring {

class SpareDescriptor {
 public:
  explicit SpareDescriptor(const os::System& system) noexcept : system_(system) {}
  ~SpareDescriptor();
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  /// Before the first accept, while there are descriptors.
  void prepare() noexcept;
  /// Accepts one connection that waits, if one does, and closes it. Never blocks.
  void turn_one_away(const Handle& listener) noexcept;

 private:
  const os::System& system_;
  int spare_ = -1;
};

}  // namespace baton::engines::uring
