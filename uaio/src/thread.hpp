// Threads of the library's own.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstddef>

namespace uaio {

/// So long a thread of the library's own has nothing to do before it ends. A process goes on while
/// it has threads, and may not enter a user namespace; the system's library keeps its as long.
inline constexpr timespec idle_time{1, 0};

/// Before the first thread, outside signal handlers: asks how much of each stack is taken already.
void measure_stacks() noexcept;

/// Threads are this process's from now on: when the library is loaded, and in a forked child.
void note_process() noexcept;

/// Not a child of vfork: what it starts ends with it, and its parent, whose memory this is, would
/// wait for that.
bool is_own_process() noexcept;

/// The process that it was noted in.
pid_t own_process() noexcept;

/// A detached thread, in which no signal is delivered. `stack`: bytes for the function itself.
/// False: no thread.
bool start_thread(void* (*function)(void*), void* argument, std::size_t stack) noexcept;

/// Whether the user may have one more thread now. It is tried out by one that ends at once, without
/// memory, so that signal handlers may ask. REQUIRES: signals are blocked.
bool thread_fits() noexcept;

/// The calling thread has a table of descriptors of its own, and so would a thread that it makes.
bool has_own_table() noexcept;
void note_own_table() noexcept;

}  // namespace uaio
