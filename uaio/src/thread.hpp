// The library's own threads.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstddef>

namespace uaio {

/// How long a thread of the library is idle before it ends. A process lives as long as its threads,
/// and with several it may not enter a user namespace. The system's library keeps its threads for
/// the same time.
inline constexpr timespec idle_time{1, 0};

/// Before the first thread, outside signal handlers: finds out how much of each stack is already
/// used.
void measure_stacks() noexcept;

/// Notes the process that threads belong to: when the library is loaded, and in a forked child.
void note_process() noexcept;

/// False in a child of vfork: its threads end with it, and its parent, which shares this memory,
/// would wait for them.
bool is_own_process() noexcept;

/// The process that it was noted in.
pid_t own_process() noexcept;

/// A detached thread, in which no signal is delivered. `stack`: bytes for the function itself.
/// False: no thread.
bool start_thread(void* (*function)(void*), void* argument, std::size_t stack) noexcept;

/// Whether the user may have one more thread now. Tries it with a thread that ends at once and
/// needs no memory, so that signal handlers may call this. REQUIRES: signals are blocked.
bool thread_fits() noexcept;

/// The calling thread is the library's, and runs no handler of a signal.
bool runs_no_handlers() noexcept;
void note_no_handlers() noexcept;

/// The calling thread has a table of descriptors of its own, and so would a thread that it makes.
bool has_own_table() noexcept;
void note_own_table() noexcept;
/// The calling thread is in the timer's handler (mode=single), which may have interrupted malloc or
/// pthread_create. Starting a thread would need their locks.
bool in_timer() noexcept;
class InTimer {
 public:
  InTimer() noexcept;
  ~InTimer();
  InTimer(const InTimer&) = delete;
  InTimer& operator=(const InTimer&) = delete;
};

}  // namespace uaio
