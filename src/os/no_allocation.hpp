// NoAllocation: while one exists, its thread must not allocate. It is in baton_poll, and so perhaps
// in a signal handler that has interrupted malloc. Starting a thread allocates, too.
#pragma once

#include "os/thread_locals.hpp"

namespace baton::os {

class NoAllocation {
 public:
  NoAllocation() noexcept { thread_facts.no_allocation = thread_facts.no_allocation + 1; }
  ~NoAllocation() { thread_facts.no_allocation = thread_facts.no_allocation - 1; }
  NoAllocation(const NoAllocation&) = delete;
  NoAllocation& operator=(const NoAllocation&) = delete;
  /// The calling thread must not allocate.
  [[nodiscard]] static bool now() noexcept { return thread_facts.no_allocation != 0; }
};

}  // namespace baton::os
