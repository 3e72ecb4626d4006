// Annotations for ThreadSanitizer, which does not see that the kernel writes through a ring or
// hands an operation over by a signal. Release before the operation goes to the kernel, acquire
// when it comes back.
//
// It does not know the threads that the C library starts for itself (AIO's notifications) either.
// Code that runs on one of them has BATON_TSAN_FOREIGN_THREAD, which leaves it uninstrumented, and
// calls only such code.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define BATON_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BATON_TSAN 1
#endif
#endif

#ifdef BATON_TSAN
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#define BATON_TSAN_RELEASE(address) __tsan_release(address)
#define BATON_TSAN_ACQUIRE(address) __tsan_acquire(address)
#ifdef __clang__
#define BATON_TSAN_FOREIGN_THREAD [[clang::disable_sanitizer_instrumentation]]
#else
#define BATON_TSAN_FOREIGN_THREAD [[gnu::no_sanitize_thread]]
#endif
#else
#define BATON_TSAN_RELEASE(address) static_cast<void>(address)
#define BATON_TSAN_ACQUIRE(address) static_cast<void>(address)
#define BATON_TSAN_FOREIGN_THREAD
#endif
