// ThreadEnd: a function that is called at the end of each thread that has asked for it. The
// destructor of a thread_local object does the same, but glibc ends the process when it has no
// memory to register one.
#pragma once

#include <pthread.h>

#include <atomic>

namespace baton::os {

/// An object with static storage. Its own end makes the last call, for the thread that ends the
/// process or unloads the code.
class ThreadEnd {
 public:
  /// `at_end` gets the argument of watch(). It is called after the destructors of the thread's own
  /// objects.
  explicit ThreadEnd(void (*at_end)(void*)) noexcept
      : at_end_(at_end), ended_(::pthread_key_create(&key_, at_end) != 0) {}
  ~ThreadEnd() {
    if (ended_.exchange(true)) return;
    void* const argument = ::pthread_getspecific(key_);
    ::pthread_key_delete(key_);
    if (argument != nullptr) at_end_(argument);
  }
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;

  /// Of the calling thread; `argument` is not null. False: there is no memory, or no key.
  [[nodiscard]] bool watch(const void* argument) noexcept {
    return !ended_ && ::pthread_setspecific(key_, argument) == 0;
  }

 private:
  void (*const at_end_)(void*);
  pthread_key_t key_ = 0;
  std::atomic<bool> ended_;
};

}  // namespace baton::os
