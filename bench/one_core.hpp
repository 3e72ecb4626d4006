// OneCore: while it lives, the calling thread and those that it starts run on the processor that it
// is on. Two threads that wake each other are then always as far apart: across two processors the
// time is that of waking a sleeping one, and which of the two a run measures the system decides.
#pragma once

#include <sched.h>

namespace bench {

class OneCore {
 public:
  OneCore() {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &here);
    taken_ = sched_setaffinity(0, sizeof here, &here) == 0;
  }
  ~OneCore() {
    if (taken_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_{};
  bool taken_ = false;
};

}  // namespace bench
