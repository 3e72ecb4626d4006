// The first frame that a thread frees, while there is no memory. Sanitizers have an allocator of
// their own, which no limit reaches.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "baton/coro/frame_cache.hpp"
#include "support/child.hpp"

namespace baton {
namespace {

void use_up_memory() {
  rlimit none{};
  ::getrlimit(RLIMIT_AS, &none);
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_AS, &none);
  for (std::size_t size = std::size_t{1} << 20; size >= 16;) {
    void* volatile taken = ::malloc(size);
    if (taken == nullptr) size /= 2;
  }
}

TEST(FrameCacheMemory, the_first_frame_that_a_thread_frees_needs_none) {
  EXPECT_EQ(test::status_of_child([] {
              std::thread([] {
                void* const frame = detail::allocate_frame(100);
                use_up_memory();
                detail::free_frame(frame, 100);  // glibc ended the process here
                ::_exit(0);
              }).join();
              return 1;
            }),
            0);
}

}  // namespace
}  // namespace baton
