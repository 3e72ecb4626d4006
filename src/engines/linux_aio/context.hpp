// Context: one aio context of the kernel - its slots, its ring of completions and the system calls
// behind them. Knows requests and their results; what they mean for an operation is the engine's.
//
// What surprises
//
//   - The ring can be read without the kernel: the context's name is its address, in the layout
//     that libaio, fio and QEMU rely on. A magic number tells; without it io_getevents does all.
//   - An interrupt is an operation that is complete the moment it is submitted: "tell me when this
//     eventfd can be written", which it always can. Its completion stays in the ring until it is
//     taken, so it is sticky by itself, and there is nothing to arm, to drain and to arm again.
//     Counted, for one interrupt of a wait:
//         such an operation                                   2 system calls, 1.3 us
//         an armed IOCB_CMD_POLL of an eventfd for input      4 (write, return, drain, arm), 1.9 us
//         waiting for an eventfd instead of io_getevents      3, and 2 in place of 1 for each batch
//                                                             of completions
//   - The same eventfd counts completions (IOCB_FLAG_RESFD), interrupts among them, for a thread
//     that waits for several engines. That costs no system call and no time that could be measured.
//     Only descriptor() reads it, so that a wait in io_getevents costs nothing more. As each
//     completion raises it by exactly one, the difference between completions taken and signals
//     read is known; below zero, some completion was not taken whose signal has been read.
//
// Threads. take() and descriptor() are for the thread that waits. submit() and wake() may be called
// by any thread at any time; a slot belongs to the thread that prepares it, until it is taken.
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
  /// Requests handed over by one system call. A disk gets what one call brings one by one, up to
  /// two, or when all of it is prepared (the kernel plugs its queue). As many as were complete at
  /// once would come back at once, and the disk would have nothing to do while the next lot is
  /// prepared: of 64 random reads on the way, lots of 2 bring some 10 % more than lots of 16.
  static constexpr std::size_t lot_max = 2;
  /// Completions taken by one.
  static constexpr std::size_t batch_max = 16;

  /// A context for so many operations at once and an interrupt, tried out; or the errno of what
  /// failed. EINVAL: too old a kernel. Throws std::bad_alloc.
  static Result<std::unique_ptr<Context>, int> open(const os::System& system, std::uint32_t slots);
  /// REQUIRES: nothing in flight but interrupts.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
  /// The slot of an interrupt's completion.
  [[nodiscard]] std::uint32_t wake_slot() const noexcept { return slots_; }

  /// Fills in the request of a slot: the whole of a positional read or write, not yet begun, or a
  /// sync. A transfer that would wait for memory, locks or blocks to be allocated is to end with
  /// EAGAIN.
  void prepare(std::uint32_t slot, const Operation& operation) noexcept;
  /// Hands requests over, in order. How many were taken; or -errno of the first, when none was:
  /// EAGAIN (no room now), everything else about that request.
  int submit(std::span<const std::uint32_t> slots) noexcept;
  /// Asks the kernel to give a request up. It knows how for few (files are not among them); its
  /// completion comes all the same.
  void cancel(std::uint32_t slot) noexcept;

  /// Makes a wait return, now or the next one. Any thread, signal handlers included.
  void wake() noexcept;

  /// Takes what is complete; if nothing is, waits for it until the deadline. 0: nothing came, or a
  /// signal did.
  std::size_t take(std::span<Completion> into, Deadline deadline) noexcept;

  /// Readable when there is something to take; invalid_handle when that cannot be promised now.
  [[nodiscard]] NativeHandle descriptor() noexcept;

  /// In the child after fork, where the context does not exist: drops what was inherited of it.
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
  int event_ = invalid_handle;
  Ring* ring_ = nullptr;                    // null: unknown layout
  std::int64_t unread_ = 0;                 // completions taken minus signals read; the waiter's
  const std::unique_ptr<iocb[]> requests_;  // slots_, and the interrupt's
  const std::unique_ptr<io_event[]> events_;
};

}  // namespace baton::engines::linux_aio
