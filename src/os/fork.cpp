// The fork counter, and the lock that a fork waits for.
#include "os/fork.hpp"

#include <pthread.h>

#include "os/process_mutex.hpp"
#include "os/system.hpp"
#include "os/thread_locals.hpp"

namespace baton::os {

constinit std::atomic<std::uint32_t> forks_counted{0};
constinit Mutex process_mutex;

namespace {

// They are called in pairs, which the analysis does not see.
void hold_process_mutex() noexcept BATON_NO_THREAD_SAFETY_ANALYSIS {
  process_mutex.lock(real_system());
}
void free_process_mutex() noexcept {
  process_mutex.assume_held();
  process_mutex.unlock(real_system());
}

// When the program is loaded, before its other constructors. A child does not run a handler that
// was registered after its fork began, and it runs the others in the order of their registration.
[[gnu::constructor(1000)]] void count_forks() {
  ::pthread_atfork(hold_process_mutex, free_process_mutex, [] {
    free_process_mutex();
    forks_counted.fetch_add(1, std::memory_order_relaxed);
    thread_locals.lane = &nowhere;
    if (const auto call = in_forked_child.load(std::memory_order_relaxed)) call();
  });
}

}  // namespace
}  // namespace baton::os
