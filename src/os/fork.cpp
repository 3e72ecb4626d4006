// The fork counter.
#include "os/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace baton::os {
namespace {

std::atomic<std::uint32_t> generation{0};

void in_child() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint32_t fork_generation() noexcept {
  static const int registered = ::pthread_atfork(nullptr, nullptr, in_child);
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace baton::os
