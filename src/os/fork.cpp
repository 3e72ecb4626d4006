// The fork counter.
#include "os/fork.hpp"

#include <pthread.h>

#include "os/thread_locals.hpp"

namespace baton::os {

constinit std::atomic<std::uint32_t> forks_counted{0};

namespace {

// When the library is loaded. A handler that is registered while another thread is inside fork()
// is not called in that child.
const int registered = ::pthread_atfork(nullptr, nullptr, [] {
  forks_counted.fetch_add(1, std::memory_order_relaxed);
  thread_locals.lane = &nowhere;
  if (const auto call = in_forked_child.load(std::memory_order_relaxed)) call();
});

}  // namespace
}  // namespace baton::os
