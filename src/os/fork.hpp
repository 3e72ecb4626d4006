// Tells a child process that it is one: a number that is incremented in the child of a fork.
#pragma once

#include <atomic>
#include <cstdint>

namespace baton::os {

/// Called in each forked child, by its only thread, before fork returns; null: none.
inline std::atomic<void (*)()> in_forked_child{nullptr};

/// Defined beside the function that counts, so that a program with a static library has that, too.
extern std::atomic<std::uint32_t> forks_counted;

/// Any thread; costs a load.
inline std::uint32_t fork_generation() noexcept {
  return forks_counted.load(std::memory_order_relaxed);
}

/// This process is a forked child in which a proactor of the parent was destroyed or opened anew.
/// Operations that a thread of the parent was handling at the fork look pending here for ever.
inline std::atomic<bool> left_behind{false};

}  // namespace baton::os
