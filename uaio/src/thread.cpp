// The C library places the program's static thread-local data in the stack of each thread. With a
// megabyte of it, a thread with a smaller stack is refused (EINVAL), and one with a slightly larger
// stack overruns it. Only a private function of the C library returns the size. Runtimes of other
// languages look it up by this name, too.
#include "thread.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>

#include "futex.hpp"

namespace uaio {
namespace {

std::size_t taken_stack = 0;
std::atomic<pid_t> process{0};
// Signal handlers use it, too, so its memory exists from the beginning.
[[gnu::tls_model("initial-exec")]] thread_local bool no_handlers = false;
[[gnu::tls_model("initial-exec")]] thread_local bool own_table = false;
[[gnu::tls_model("initial-exec")]] thread_local bool timer = false;

}  // namespace

void note_process() noexcept { process.store(::getpid(), std::memory_order_relaxed); }
pid_t own_process() noexcept { return process.load(std::memory_order_relaxed); }
bool is_own_process() noexcept { return ::getpid() == own_process(); }

bool runs_no_handlers() noexcept { return no_handlers; }
void note_no_handlers() noexcept { no_handlers = true; }
bool has_own_table() noexcept { return own_table; }
void note_own_table() noexcept { own_table = true; }

// No second one interrupts the handler: it blocks all signals.
bool in_timer() noexcept { return timer; }
InTimer::InTimer() noexcept { timer = true; }
InTimer::~InTimer() { timer = false; }

void measure_stacks() noexcept {
  using MinimumOf = std::size_t (*)(const pthread_attr_t*);
  const auto minimum_of =
      reinterpret_cast<MinimumOf>(::dlsym(RTLD_DEFAULT, "__pthread_get_minstack"));
  if (minimum_of == nullptr) return;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  taken_stack = minimum_of(&attributes);
  pthread_attr_destroy(&attributes);
}

bool start_thread(void* (*function)(void*), void* argument, std::size_t stack) noexcept {
  if (!is_own_process()) return false;
  const SignalsBlocked blocked;  // inherited
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, taken_stack + stack);
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, function, argument);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UAIO_TSAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__) || defined(UAIO_TSAN)
// ThreadSanitizer ends a program at a bare clone of a thread.
bool thread_fits() noexcept { return true; }
#else
// A process would be the first one in a namespace that the program has created for its children.
bool thread_fits() noexcept {
  alignas(16) char stack[2'048];
  constexpr int flags =
      CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD;
  return ::clone([](void*) { return 0; }, stack + sizeof(stack), flags, nullptr) >= 0 ||
         errno != EAGAIN;
}
#endif

}  // namespace uaio
