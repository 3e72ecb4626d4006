// NoAllocation: while one exists, its thread must not allocate. It is in baton_poll, and so perhaps
// in a signal handler that has interrupted malloc. Starting a thread allocates, too.
#pragma once

namespace baton {

class NoAllocation {
 public:
  NoAllocation() noexcept { depth = depth + 1; }
  ~NoAllocation() { depth = depth - 1; }
  NoAllocation(const NoAllocation&) = delete;
  NoAllocation& operator=(const NoAllocation&) = delete;
  /// The calling thread must not allocate.
  [[nodiscard]] static bool now() noexcept { return depth != 0; }

 private:
  // initial-exec: reached without a call into the dynamic linker, which would allocate at the first
  // use of a thread. volatile: read by this thread's own signal handlers.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local volatile int depth;
};

}  // namespace baton
