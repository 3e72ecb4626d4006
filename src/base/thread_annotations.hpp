// Clang's thread-safety annotations under our names; nothing under other compilers.
#pragma once

#ifdef __clang__
#define BATON_ATTRIBUTE(x) __attribute__((x))
#else
#define BATON_ATTRIBUTE(x)
#endif

#define BATON_CAPABILITY(name) BATON_ATTRIBUTE(capability(name))
#define BATON_SCOPED_CAPABILITY BATON_ATTRIBUTE(scoped_lockable)
#define BATON_GUARDED_BY(mutex) BATON_ATTRIBUTE(guarded_by(mutex))
#define BATON_REQUIRES(...) BATON_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define BATON_ACQUIRE(...) BATON_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define BATON_RELEASE(...) BATON_ATTRIBUTE(release_capability(__VA_ARGS__))
#define BATON_TRY_ACQUIRE(...) BATON_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define BATON_ASSERT_CAPABILITY(...) BATON_ATTRIBUTE(assert_capability(__VA_ARGS__))
#define BATON_RETURN_CAPABILITY(mutex) BATON_ATTRIBUTE(lock_returned(mutex))
#define BATON_EXCLUDES(...) BATON_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// For lock classes. Elsewhere only with a reason why no annotation fits.
#define BATON_NO_THREAD_SAFETY_ANALYSIS BATON_ATTRIBUTE(no_thread_safety_analysis)
