// The state that the C interface keeps for a thread. Every thread of the process pays for it, so it
// is defined in one place, where it takes the fewest bytes.
#pragma once

namespace baton::capi {

struct Attached;
struct Collector;

// initial-exec: reached without a call into the dynamic linker, which would allocate at the first
// use of a thread, possibly inside a signal handler.
#define BATON_OF_THREAD [[gnu::tls_model("initial-exec")]] extern constinit thread_local

/// The destination of completions; null outside of a wait.
BATON_OF_THREAD Collector* collecting;
/// The list of attachments.
BATON_OF_THREAD Attached* attached;
/// Changed by this thread only; read by its own signal handlers, hence volatile.
BATON_OF_THREAD volatile int inside_depth;
#undef BATON_OF_THREAD

/// The calling thread is inside a function that may hold a lock: baton_poll, in a signal handler
/// that interrupted it, gives up.
class Inside {
 public:
  Inside() noexcept { inside_depth = inside_depth + 1; }
  ~Inside() { inside_depth = inside_depth - 1; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  [[nodiscard]] static bool now() noexcept { return inside_depth != 0; }
};

/// From now on the end of the thread calls detach_all(). Functions of atexit() may run after that.
/// False: there is no memory.
[[nodiscard]] bool detach_at_thread_end() noexcept;
/// In attach.cpp. The list is empty then.
void detach_all() noexcept;

}  // namespace baton::capi
