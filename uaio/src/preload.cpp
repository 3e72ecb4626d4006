// The system's seventeen names, in the versions that programs of every age ask for. glibc moved
// them from librt to libc in 2.34; the lio_listio of before 2.4 sends no notification for each
// request. Programs with and without 64-bit offsets have the same struct here (block.hpp).
#include <aio.h>

#include "calls.hpp"

namespace {

using uaio::Action;
using uaio::Names;

}  // namespace

#define UAIO_EXPORT __attribute__((visibility("default"), used))

// One implementation under a name of glibc's and its 64-bit twin, in today's version and in that of
// librt. Other architectures began with other versions, so they get unversioned names, which
// satisfy every requested version.
#if defined(__x86_64__)
#define UAIO_VERSION(alias, name, version) __asm__(".symver " #alias "," #name version);
#define UAIO_NAME(type, arguments, function, twin)                      \
  extern "C" __attribute__((visibility("default"))) type twin arguments \
      __attribute__((alias(#function)));
#define UAIO_NAMES(type, arguments, function, name) \
  UAIO_NAME(type, arguments, function, name##_now)  \
  UAIO_NAME(type, arguments, function, name##_old)  \
  UAIO_VERSION(name##_now, name, "@@GLIBC_2.34")    \
  UAIO_VERSION(name##_old, name, "@GLIBC_2.2.5")
#else
#define UAIO_NAMES(type, arguments, function, name) \
  extern "C" UAIO_EXPORT type name arguments __attribute__((alias(#function)));
#endif
#define UAIO_BOTH(type, arguments, function, name) \
  UAIO_NAMES(type, arguments, function, name)      \
  UAIO_NAMES(type, arguments, function, name##64)

extern "C" {

UAIO_EXPORT int uaio_preload_read(aiocb* block) {
  return uaio::start(block, Action::read, Names::system);
}
UAIO_EXPORT int uaio_preload_write(aiocb* block) {
  return uaio::start(block, Action::write, Names::system);
}
UAIO_EXPORT int uaio_preload_fsync(int operation, aiocb* block) {
  return uaio::sync(operation, block, Names::system);
}
UAIO_EXPORT int uaio_preload_error(const aiocb* block) { return uaio::error(block, Names::system); }
UAIO_EXPORT ssize_t uaio_preload_return(aiocb* block) { return uaio::result(block, Names::system); }
UAIO_EXPORT int uaio_preload_suspend(const aiocb* const list[], int count, const timespec* time) {
  return uaio::suspend(list, count, time);
}
UAIO_EXPORT int uaio_preload_cancel(int descriptor, aiocb* block) {
  return uaio::cancel(descriptor, block, Names::system);
}
UAIO_EXPORT int uaio_preload_listio(int mode, aiocb* const list[], int count, sigevent* event) {
  return uaio::start_list(mode, list, count, event, Names::system);
}
UAIO_EXPORT int uaio_preload_listio_oldest(int mode, aiocb* const list[], int count,
                                           sigevent* event) {
  return uaio::start_list(mode, list, count, event, Names::system, false);
}
UAIO_EXPORT void uaio_preload_init(const aioinit* parameters) { uaio::initialise(parameters); }
}

UAIO_BOTH(int, (aiocb*), uaio_preload_read, aio_read)
UAIO_BOTH(int, (aiocb*), uaio_preload_write, aio_write)
UAIO_BOTH(int, (int, aiocb*), uaio_preload_fsync, aio_fsync)
UAIO_BOTH(int, (const aiocb*), uaio_preload_error, aio_error)
UAIO_BOTH(ssize_t, (aiocb*), uaio_preload_return, aio_return)
UAIO_BOTH(int, (const aiocb* const[], int, const timespec*), uaio_preload_suspend, aio_suspend)
UAIO_BOTH(int, (int, aiocb*), uaio_preload_cancel, aio_cancel)
UAIO_NAMES(void, (const aioinit*), uaio_preload_init, aio_init)

#if defined(__x86_64__)
#define UAIO_LIST(name)                                                                            \
  UAIO_NAME(int, (int, aiocb* const[], int, sigevent*), uaio_preload_listio, name##_now)           \
  UAIO_NAME(int, (int, aiocb* const[], int, sigevent*), uaio_preload_listio, name##_old)           \
  UAIO_NAME(int, (int, aiocb* const[], int, sigevent*), uaio_preload_listio_oldest, name##_oldest) \
  UAIO_VERSION(name##_now, name, "@@GLIBC_2.34")                                                   \
  UAIO_VERSION(name##_old, name, "@GLIBC_2.4")                                                     \
  UAIO_VERSION(name##_oldest, name, "@GLIBC_2.2.5")
UAIO_LIST(lio_listio)
UAIO_LIST(lio_listio64)
#else
UAIO_BOTH(int, (int, aiocb* const[], int, sigevent*), uaio_preload_listio, lio_listio)
#endif
