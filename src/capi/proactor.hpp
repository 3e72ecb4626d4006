// The two parts of a baton_proactor: the object that callers hold, which outlives its close for a
// while, and the Instance behind it: a Proactor, its slots, its names for handles, and the count of
// threads inside.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "baton.h"
#include "baton/config.hpp"
#include "baton/proactor.hpp"
#include "capi/handles.hpp"
#include "capi/slots.hpp"
#include "capi/thread.hpp"
#include "os/system.hpp"

namespace baton::capi {

struct Instance {
  Instance(Config config, std::uint32_t slot_count, std::size_t completion_size);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// In a child of the process that opened it, before baton_fork_child.
  [[nodiscard]] bool is_inherited() const noexcept { return system.getpid() != process; }

  // In this order, because the proactor is destroyed first and runs the remaining completions,
  // which use the slots.
  const std::size_t completion_size;
  const bool per_thread;
  const os::System& system;
  SlotTable slots;
  Operation wake;
  std::atomic<bool> wake_asked{false};
  /// Threads in baton_wait, or one in baton_poll.
  std::atomic<std::uint32_t> drivers{0};
  pid_t process;
  Proactor proactor;
  /// Driving may allocate or free, so a signal handler must not drive.
  const bool driving_allocates;
  HandleNames handles;
};

}  // namespace baton::capi

struct baton_proactor {
  std::atomic<baton::capi::Instance*> instance;  // null: it was closed
};

namespace baton::capi {

/// Null: there is none, or it was closed.
inline Instance* find(const baton_proactor* proactor) noexcept {
  if (BATON_UNLIKELY(proactor == nullptr)) return nullptr;
  // relaxed: the caller got the pointer after baton_open, and no call may overlap with baton_close.
  return proactor->instance.load(std::memory_order_relaxed);
}

/// As baton_adopt, for a socket that was just opened (SOCK_NONBLOCK, SOCK_CLOEXEC), which is closed
/// if that fails. Changes `out` only when it succeeds.
int adopt_or_close(Instance& self, int descriptor, HandleKind kind, Home home,
                   baton_handle& out) noexcept;

/// The destination of completions of the wait that this thread is in.
struct Collector {
  baton_completion* out;  // of the version of the program
  int max;
  bool may_allocate;  // not in baton_poll
  int count = 0;
  bool woken = false;
};

/// This thread is not attached any more, if it was.
void detach(const Instance& instance) noexcept;

/// The completion function of every slot's operation: its context is the Instance.
void deliver(Operation& operation);
/// The completion function of baton_wake's.
void woken(Operation& operation);

}  // namespace baton::capi
