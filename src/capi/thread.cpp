// The one definition, and the end of the thread.
#include "capi/thread.hpp"

namespace baton::capi {
namespace {

struct AtThreadEnd {
  ~AtThreadEnd() { detach_all(); }
};
thread_local const AtThreadEnd at_thread_end;

}  // namespace

constinit thread_local Collector* collecting = nullptr;
constinit thread_local Attached* attached = nullptr;
constinit thread_local volatile int inside_depth = 0;

// The first use of it in a thread registers its destructor.
void detach_at_thread_end() noexcept { static_cast<void>(&at_thread_end); }

}  // namespace baton::capi
