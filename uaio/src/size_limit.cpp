#include "size_limit.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "thread.hpp"

namespace uaio {
namespace {

std::atomic<std::uint32_t> reasons_to_ask{1};  // one until the changes are told, and each under way
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

}  // namespace

SizeLimit look_up_size_limit(const Transfer& transfer) noexcept {
  // acquire: the change that is over has its number.
  const bool remembered = reasons_to_ask.load(std::memory_order_acquire) == 0;
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

void remember_size_limit() noexcept { reasons_to_ask.fetch_sub(1, std::memory_order_relaxed); }

LimitChange::LimitChange() noexcept { reasons_to_ask.fetch_add(1, std::memory_order_seq_cst); }

LimitChange::~LimitChange() {
  // A child of vfork has a limit of its own in its parent's memory. 0: not loaded yet.
  if (own_process() != 0 && !is_own_process()) return;
  changes.fetch_add(1, std::memory_order_release);
  reasons_to_ask.fetch_sub(1, std::memory_order_release);
}

}  // namespace uaio
