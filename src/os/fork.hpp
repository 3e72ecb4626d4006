// Tells a child process that it is one: a number that is incremented in the child of a fork.
#pragma once

#include <atomic>
#include <cstdint>

namespace baton::os {

/// Makes fork count; any number of times, any thread.
void count_forks() noexcept;

/// Called in each forked child, by its only thread, before fork returns; null: none.
inline std::atomic<void (*)()> in_forked_child{nullptr};

inline std::atomic<std::uint32_t> forks_counted{0};

/// Any thread; costs a load.
inline std::uint32_t fork_generation() noexcept {
  return forks_counted.load(std::memory_order_relaxed);
}

/// This process is a forked child in which a proactor of the parent was destroyed or opened anew.
/// Operations that a thread of the parent was handling at the fork look pending here for ever.
inline std::atomic<bool> left_behind{false};

}  // namespace baton::os
