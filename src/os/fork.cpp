// The fork counter.
#include "os/fork.hpp"

#include <pthread.h>

#include "os/thread_locals.hpp"

namespace baton::os {

constinit std::atomic<std::uint32_t> forks_counted{0};

namespace {

// When the program is loaded, before its other constructors. A child does not run a handler that
// was registered after its fork began, and it runs the others in the order of their registration.
[[gnu::constructor(1000)]] void count_forks() {
  ::pthread_atfork(nullptr, nullptr, [] {
    forks_counted.fetch_add(1, std::memory_order_relaxed);
    thread_locals.lane = &nowhere;
    if (const auto call = in_forked_child.load(std::memory_order_relaxed)) call();
  });
}

}  // namespace
}  // namespace baton::os
