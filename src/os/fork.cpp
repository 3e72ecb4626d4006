// The fork counter.
#include "os/fork.hpp"

#include <pthread.h>

#include "os/thread_locals.hpp"

namespace baton::os {

void count_forks() noexcept {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    forks_counted.fetch_add(1, std::memory_order_relaxed);
    thread_locals.lane = &nowhere;
    if (const auto call = in_forked_child.load(std::memory_order_relaxed)) call();
  });
  static_cast<void>(registered);
}

}  // namespace baton::os
