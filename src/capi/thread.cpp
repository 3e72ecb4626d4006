// The one definition, and the end of the thread.
#include "capi/thread.hpp"

#include "os/thread_end.hpp"

namespace baton::capi {

constinit thread_local Collector* collecting = nullptr;
constinit thread_local Attached* attached = nullptr;
constinit thread_local volatile int inside_depth = 0;

bool detach_at_thread_end() noexcept {
  static os::ThreadEnd end{[](void*) { detach_all(); }};
  return end.watch(&attached);
}

}  // namespace baton::capi
