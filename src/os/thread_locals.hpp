// The state that core and reactor keep for a thread between two of its calls, in one place. A
// simulator, whose threads are fibers of one real thread, exchanges it at each switch.
#pragma once

namespace baton::os {

/// The address that means "no lane"; it differs from the address of every lane, and from null.
inline constinit char nowhere = 0;

struct ThreadLocals {
  const void* dispatchers = nullptr;  ///< the chain of core/dispatcher.hpp
  const void* lane_loops = nullptr;   ///< the chain of core/lane_loop.hpp
  void* reactors = nullptr;           ///< the chain of reactor/impl.hpp
  const void* lane = &nowhere;        ///< of the innermost of that chain; none in a forked child
};

/// What is true of a real thread, whichever fiber it runs.
struct ThreadFacts {
  volatile int no_allocation = 0;  ///< see NoAllocation; read by this thread's signal handlers
};

// initial-exec: read for every start, so not worth a call into the dynamic linker, which would
// also allocate at the first use of a thread.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadLocals thread_locals;
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadFacts thread_facts;

}  // namespace baton::os
