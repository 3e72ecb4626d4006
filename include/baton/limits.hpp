// Every bound of the library, with its default, its unit and its reason.
//
// "A limit on everything": a queue, table, batch or loop without a bound is a fault. If a bound is
// configurable, the constant here is the default, and Config carries the value in force.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::limits {

/// Bytes of private state that an engine may keep inside an operation: as much as Baton's own
/// engines need, because every idle connection pays for it. Larger state (message headers, vectors
/// of a partly written list) lives in the engine's own slab.
inline constexpr std::size_t engine_state_size = 40;

/// Bytes of a completion handler that are stored inside a caller-owned operation: two pointers.
inline constexpr std::size_t inline_handler_size = 2 * sizeof(void*);

/// Bytes of a completion handler that are stored inside an operation taken from the cache.
inline constexpr std::size_t cached_handler_size = 64;

/// Handles (descriptors) one proactor can know; the table grows in chunks up to the smaller of this
/// and RLIMIT_NOFILE.
inline constexpr std::uint32_t handles_max = 65'536;
inline constexpr std::uint32_t handles_chunk = 256;  ///< handles by which the table grows
/// Places beyond Config::handles_max, for connections that were accepted together when there was
/// room for one more: accepts pause at a full table, but several may see its last place.
inline constexpr std::uint32_t handles_for_accepted = 64;

/// Operations by which a cache grows. It keeps them to the end of the proactor.
inline constexpr std::size_t operation_cache_chunk = 64;

/// Started and deferred operations of one processor together, unless configured. Beyond it, start
/// fails with errc::limit_reached and nothing is lost. 0 in a configuration means this default.
inline constexpr std::uint32_t operations_max = 1'048'576;

/// Readiness reports taken from a wait strategy in one wait, and completions reaped in one batch.
inline constexpr std::size_t reports_max = 256;

/// Handlers that a thread runs before it polls its engine again, so that posted work that posts
/// itself cannot starve I/O, and I/O cannot starve timers.
inline constexpr std::size_t handlers_per_look = 128;

/// Buffers of a scatter/gather list (IOV_MAX on Linux). A longer list is an invalid argument.
inline constexpr std::size_t buffers_max = 1'024;

/// Bytes moved by one system call; what Linux itself clamps to (0x7ffff000).
inline constexpr std::size_t transfer_max = 0x7fff'f000;

/// Largest transfer that a start itself copies from or to the page cache (some 100 us). Workers do
/// larger ones.
inline constexpr std::size_t copied_in_start_max = std::size_t{1} << 20;

/// Bytes of a delimiter of read_until.
inline constexpr std::size_t delimiter_max = 64;

/// Threads that do the blocking file work of a readiness engine.
inline constexpr std::uint32_t workers_max = 4;

/// Processors of one proactor (a team), and lanes of a per_thread processor.
inline constexpr std::uint32_t processors_max = 16;
inline constexpr std::uint32_t lanes_max = 256;  ///< lanes of a per_thread processor

/// Operations in one report of what is pending; names of tags, and bytes of one.
inline constexpr std::size_t pending_shown_max = 1'024;
inline constexpr std::size_t tag_names_max = 1'024;   ///< names of tags in a proactor
inline constexpr std::size_t tag_name_size_max = 64;  ///< bytes of such a name

}  // namespace baton::limits
