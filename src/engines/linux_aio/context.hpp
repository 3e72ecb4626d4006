// Context: one aio context of the kernel - its slots, its ring of completions and its system calls.
// Knows requests and their results; the engine knows what they mean for an operation.
//
// Three points are not obvious:
//
//   - The ring can be read without the kernel: the context's name is its address, in the layout
//     that libaio, fio and QEMU rely on. A magic number confirms the layout; without it the engine
//     calls io_getevents.
//   - An interrupt is a request that is complete at once: a poll for output of an eventfd, which
//     can always be written. Its completion stays in the ring until it is taken, so interrupts are
//     sticky, and there is nothing to arm, to drain and to arm again. The cost of one interrupt:
//         this request                                        2 system calls, 1.3 us
//         an armed IOCB_CMD_POLL of an eventfd for input      4 (write, return, drain, arm), 1.9 us
//         waiting for an eventfd instead of io_getevents      3, and 2 in place of 1 for each batch
//                                                             of completions
//   - The same eventfd counts completions (IOCB_FLAG_RESFD), interrupts included, for a thread that
//     waits for several engines. That costs no system call and no measurable time. Only
//     descriptor() reads it, so a wait in io_getevents costs nothing more. Each completion raises
//     it by exactly one, so the difference between completions taken and signals read is known.
//     Below zero, the signal of some completion was read that has not been taken.
//
// Threads. take() and descriptor() are for the waiting thread. Any thread may call submit() and
// wake() at any time; a slot belongs to the thread that prepares it until its completion is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "baton/deadline.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "baton/result.hpp"
#include "os/system.hpp"

namespace baton::engines::linux_aio {

struct Completion {
  std::uint32_t slot = 0;
  std::int64_t result = 0;  ///< bytes, or -errno
};

class Context {
 public:
  /// Requests handed over by one system call. A disk starts on the requests of one call one by one
  /// if there are at most two; of more it sees none before all are prepared (the kernel plugs its
  /// queue). A large lot completes as one and returns as one, and the disk is idle while the next
  /// lot is prepared. With 64 random reads in flight, lots of 2 are some 10 % faster than lots of
  /// 16.
  static constexpr std::size_t lot_max = 2;
  /// Completions taken at once.
  static constexpr std::size_t batch_max = 16;

  /// Opens and probes a context for `slots` operations at once and an interrupt. Returns the errno
  /// of a failure; EINVAL: the kernel is too old. Throws std::bad_alloc.
  static Result<std::unique_ptr<Context>, int> open(const os::System& system, std::uint32_t slots);
  /// REQUIRES: nothing in flight but interrupts.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
  /// The slot of an interrupt's completion.
  [[nodiscard]] std::uint32_t wake_slot() const noexcept { return slots_; }

  /// Fills in the request of a slot: a whole positional read or write that has not begun, or a
  /// sync. A transfer that would wait for memory, locks or the allocation of blocks will end with
  /// EAGAIN.
  void prepare(std::uint32_t slot, const Operation& operation) noexcept;
  /// Hands requests over, in order. Returns the number taken, or -errno of the first if none was:
  /// EAGAIN (no room now), or an error of that request.
  int submit(std::span<const std::uint32_t> slots) noexcept;
  /// Asks the kernel to cancel a request. The kernel can do that for few kinds, and not for files;
  /// the completion comes in any case.
  void cancel(std::uint32_t slot) noexcept;

  /// Makes the present wait, or the next one, return. Any thread, signal handlers included.
  void wake() noexcept;

  /// Takes the completions; if there are none, waits for one until the deadline. 0: none came, or a
  /// signal interrupted the wait.
  std::size_t take(std::span<Completion> into, Deadline deadline) noexcept;

  /// Readable when there is something to take; invalid_handle if that cannot be guaranteed now.
  [[nodiscard]] NativeHandle descriptor() noexcept;

  /// In the child after fork, where the context does not exist: drops the inherited parts.
  void abandon() noexcept;

 private:
  struct Ring;

  Context(const os::System& system, std::uint32_t slots);
  int setup() noexcept;
  int probe() noexcept;
  std::size_t take_from_ring(std::span<Completion> into) noexcept;
  std::size_t take_from_kernel(std::span<Completion> into, Deadline deadline) noexcept;
  Completion taken(const io_event& event) noexcept;

  const os::System& system_;
  const std::uint32_t slots_;
  unsigned long context_ = 0;
  int no_signal_ = 0;  // for writes: the number may name a pipe without readers by now
  int event_ = invalid_handle;
  Ring* ring_ = nullptr;     // null: unknown layout
  std::int64_t unread_ = 0;  // completions taken minus signals read; for the waiting thread
  const std::unique_ptr<iocb[]> requests_;  // slots_, and the interrupt's
  const std::unique_ptr<io_event[]> events_;
};

}  // namespace baton::engines::linux_aio
