#include "size_limit.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "futex.hpp"
#include "thread.hpp"

namespace uaio {
namespace {

std::atomic<bool> is_told{false};  // all changes by the program
std::atomic<std::uint32_t> changes_under_way{0};
std::atomic<std::uint32_t> writers{0};
std::atomic<std::uint64_t> changes{1};
std::atomic<std::uint64_t> unlimited_at{0};  // a moment at which there was no limit

/// The time, in steps of 10 ms, and the number of changes. The number takes 24 bits, and more
/// changes do not fit into a step. The clock is read without a system call.
std::uint64_t this_moment() noexcept {
  constexpr std::uint64_t steps_in_a_second = 100;
  constexpr std::uint64_t step_ns = 10'000'000;
  constexpr unsigned bits = 24;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const std::uint64_t step = static_cast<std::uint64_t>(now.tv_sec) * steps_in_a_second +
                             static_cast<std::uint64_t>(now.tv_nsec) / step_ns;
  return step << bits | (changes.load(std::memory_order_acquire) & ((1U << bits) - 1));
}

// libc uses prlimit, which also handles other processes and costs twice as much.
rlim_t size_limit() noexcept {
  rlimit limit{};
#if defined(SYS_getrlimit) && __SIZEOF_LONG__ == 8
  const bool known = ::syscall(SYS_getrlimit, RLIMIT_FSIZE, &limit) == 0;
#else
  const bool known = ::getrlimit(RLIMIT_FSIZE, &limit) == 0;
#endif
  return known ? limit.rlim_cur : RLIM_INFINITY;
}

// What the calling thread has of these counts. A handler may have interrupted a write, or a change.
[[gnu::tls_model("initial-exec")]] thread_local std::uint32_t own_changes = 0;
[[gnu::tls_model("initial-exec")]] thread_local std::uint32_t own_writes = 0;

}  // namespace

SizeLimit look_up_size_limit(const Transfer& transfer) noexcept {
  // A thread that blocks SIGXFSZ makes the write. seq_cst: see LimitChange. And acquire: the change
  // that is over has its number.
  if (changes_under_way.load(std::memory_order_seq_cst) != 0) return SizeLimit::uncertain;
  const bool remembered = is_told.load(std::memory_order_relaxed);
  // Before the call: a change meanwhile leaves a moment behind that is over.
  const std::uint64_t now = remembered ? this_moment() : 0;
  if (remembered && unlimited_at.load(std::memory_order_relaxed) == now) return SizeLimit::none;
  const rlim_t limit = size_limit();
  if (limit == RLIM_INFINITY) {
    if (remembered) unlimited_at.store(now, std::memory_order_relaxed);
    return SizeLimit::none;
  }
  // Not the flags of the transfer: the program may have set O_APPEND since they were looked up.
  const int flags = ::fcntl(transfer.fildes, F_GETFL);
  struct stat status{};
  if (transfer.bytes == 0 || flags < 0 || ::fstat(transfer.fildes, &status) != 0) {
    return SizeLimit::kept;
  }
  if (!S_ISREG(status.st_mode)) return SizeLimit::kept;
  const bool appends = (flags & O_APPEND) != 0;
  const auto begin = static_cast<rlim_t>(appends ? status.st_size : transfer.offset);
  if (begin >= limit) return SizeLimit::exceeded;
  return appends ? SizeLimit::uncertain : SizeLimit::kept;
}

void remember_size_limit() noexcept { is_told.store(true, std::memory_order_relaxed); }

MayWrite::MayWrite(bool writes) noexcept : writes_(writes) {
  if (!writes_) return;
  ++own_writes;
  writers.fetch_add(1, std::memory_order_seq_cst);
}

MayWrite::~MayWrite() {
  if (!writes_) return;
  writers.fetch_sub(1, std::memory_order_release);
  --own_writes;
}

// A child of vfork has a limit of its own in its parent's memory, so both ask from then on. 0: not
// loaded yet.
LimitChange::LimitChange() noexcept : is_own_(own_process() == 0 || is_own_process()) {
  if (!is_own_) {
    is_told.store(false, std::memory_order_relaxed);
    return;
  }
  // seq_cst, as in look_up_size_limit and MayWrite: either this sees the writer, or the writer sees
  // the change.
  ++own_changes;
  changes_under_way.fetch_add(1, std::memory_order_seq_cst);
  const timespec end = after(monotonic_now(), {1, 0});
  while (writers.load(std::memory_order_seq_cst) > own_writes && is_before(monotonic_now(), end)) {
    ::sched_yield();
  }
}

LimitChange::~LimitChange() {
  if (!is_own_) return;
  changes.fetch_add(1, std::memory_order_release);
  changes_under_way.fetch_sub(1, std::memory_order_release);
  --own_changes;
}

void forget_limits_of_other_threads() noexcept {
  changes_under_way.store(own_changes, std::memory_order_relaxed);
  writers.store(own_writes, std::memory_order_relaxed);
}

}  // namespace uaio
