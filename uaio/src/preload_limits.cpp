// libc's functions by which a program changes its limits. Each makes the call, and the library
// learns when the limit of file sizes changes.
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <ulimit.h>

#include <algorithm>
#include <iterator>

#include "size_limit.hpp"

#define UAIO_EXPORT __attribute__((visibility("default"), used))

namespace {

/// libc's own function. It is looked up when the library is loaded: dlsym takes a lock, which the
/// child of a fork might find held.
template <class Function>
class Next {
 public:
  explicit constexpr Next(const char* name) noexcept : name_(name) {}
  /// Another library's start may come before this one's.
  Function* find() noexcept {
    if (function_ == nullptr) {
      function_ = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name_));
    }
    return function_;
  }
  /// Makes the call, which may change the limit of file sizes.
  template <class... Arguments>
  auto change(Arguments... arguments) noexcept {
    const uaio::LimitChange change;
    return find()(arguments...);
  }

 private:
  const char* name_;
  Function* function_ = nullptr;
};

template <class Limit>
using SetLimit = int(__rlimit_resource_t, const Limit*);
template <class Limit>
using ProcessLimit = int(pid_t, __rlimit_resource, const Limit*, Limit*);

constinit Next<SetLimit<rlimit>> next_setrlimit{"setrlimit"};
constinit Next<SetLimit<rlimit64>> next_setrlimit64{"setrlimit64"};
constinit Next<ProcessLimit<rlimit>> next_prlimit{"prlimit"};
constinit Next<ProcessLimit<rlimit64>> next_prlimit64{"prlimit64"};
constinit Next<long(int, ...)> next_ulimit{"ulimit"};
constinit Next<int(int, int)> next_vlimit{"vlimit"};

/// A program that loads this library by dlopen calls libc's functions, and with another library
/// before this one it may call that one's. This library does not learn of it.
bool is_called_by_the_program() noexcept {
  constexpr const char* names[] = {"setrlimit", "setrlimit64", "prlimit",
                                   "prlimit64", "ulimit",      "vlimit"};
  Dl_info own{};
  if (::dladdr(&next_setrlimit, &own) == 0) return false;
  return std::all_of(std::begin(names), std::end(names), [&](const char* name) {
    Dl_info found{};
    return ::dladdr(::dlsym(RTLD_DEFAULT, name), &found) != 0 && found.dli_fbase == own.dli_fbase;
  });
}

[[gnu::constructor]] void load() {
  next_setrlimit.find();
  next_setrlimit64.find();
  next_prlimit.find();
  next_prlimit64.find();
  next_ulimit.find();
  next_vlimit.find();
  if (is_called_by_the_program()) uaio::remember_size_limit();
}

}  // namespace

// The runtimes of sanitizers call setrlimit before their own start is over, which none of their
// code survives. In their builds the program calls libc's functions.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
extern "C" {

UAIO_EXPORT int setrlimit(__rlimit_resource_t resource, const rlimit* limit) noexcept {
  if (resource != RLIMIT_FSIZE) return next_setrlimit.find()(resource, limit);
  return next_setrlimit.change(resource, limit);
}
UAIO_EXPORT int setrlimit64(__rlimit_resource_t resource, const rlimit64* limit) noexcept {
  if (resource != RLIMIT_FSIZE) return next_setrlimit64.find()(resource, limit);
  return next_setrlimit64.change(resource, limit);
}
UAIO_EXPORT int prlimit(pid_t process, __rlimit_resource resource, const rlimit* limit,
                        rlimit* before) noexcept {
  if (resource != RLIMIT_FSIZE) return next_prlimit.find()(process, resource, limit, before);
  return next_prlimit.change(process, resource, limit, before);
}
UAIO_EXPORT int prlimit64(pid_t process, __rlimit_resource resource, const rlimit64* limit,
                          rlimit64* before) noexcept {
  if (resource != RLIMIT_FSIZE) return next_prlimit64.find()(process, resource, limit, before);
  return next_prlimit64.change(process, resource, limit, before);
}
UAIO_EXPORT long ulimit(int command, ...) noexcept {
  if (command != UL_SETFSIZE) return next_ulimit.find()(command);
  va_list rest;
  va_start(rest, command);
  const long blocks = va_arg(rest, long);
  va_end(rest);
  return next_ulimit.change(command, blocks);
}
/// 4.2BSD's. No header declares it any more, and not every libc has it.
UAIO_EXPORT int vlimit(int resource, int value) noexcept {
  if (next_vlimit.find() != nullptr) return next_vlimit.change(resource, value);
  errno = ENOSYS;
  return -1;
}
}
#endif
