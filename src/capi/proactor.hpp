// A baton_proactor: a Proactor, its slots, its names for handles, and the count of threads inside.
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
#include "os/system.hpp"

struct baton_proactor {
  baton_proactor(baton::Config config, std::uint32_t slot_count, std::size_t completion_size);
  baton_proactor(const baton_proactor&) = delete;
  baton_proactor& operator=(const baton_proactor&) = delete;

  /// In a child of the process that opened it, before baton_fork_child.
  [[nodiscard]] bool is_inherited() const noexcept { return system.getpid() != process; }

  // In this order, because the proactor is destroyed first and runs the remaining completions,
  // which use the slots.
  const std::size_t completion_size;
  const bool per_thread;
  const baton::os::System& system;
  baton::capi::SlotTable slots;
  baton::Operation wake;
  std::atomic<bool> wake_asked{false};
  /// Threads in baton_wait, or one in baton_poll.
  std::atomic<std::uint32_t> drivers{0};
  pid_t process;
  baton::Proactor proactor;
  /// Driving may allocate or free, so a signal handler must not drive.
  const bool driving_allocates;
  baton::capi::HandleNames handles;
};

namespace baton::capi {

/// As baton_adopt of an owned descriptor, which is closed if that fails. Changes `out` only when it
/// succeeds.
int adopt_or_close(baton_proactor& self, int descriptor, HandleKind kind, Home home,
                   baton_handle& out) noexcept;

/// The destination of completions of the wait that this thread is in.
struct Collector {
  std::byte* out;
  std::size_t stride;
  int max;
  bool may_allocate;  // not in baton_poll
  int count = 0;
  bool woken = false;
};

/// The calling thread is inside a function that may hold a lock: baton_poll, in a signal handler
/// that interrupted it, gives up.
class Inside {
 public:
  Inside() noexcept;
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  [[nodiscard]] static bool now() noexcept;
};

/// This thread is not attached any more, if it was.
void detach(const baton_proactor& proactor) noexcept;

/// The completion function of every slot's operation: its context is the baton_proactor.
void deliver(Operation& operation);
/// The completion function of baton_wake's.
void woken(Operation& operation);

/// Drives the proactor until the collector is full, nothing is left, or a wake came.
void drive(baton_proactor& proactor, Collector& collector, Deadline deadline);

}  // namespace baton::capi
