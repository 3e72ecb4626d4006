// Coroutine frames come from a cache of freed frames. Each thread has one, in size classes and
// bounded. So a server that starts a coroutine for each connection does not go to the heap for
// each. A frame may be freed on another thread than the one that took it; it then serves that one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/export.hpp"

namespace baton {

/// Counters of the calling thread's cache.
struct FrameCacheStatistics {
  std::uint64_t reused = 0;        ///< frames that came from the cache
  std::uint64_t allocated = 0;     ///< frames that came from the heap
  std::size_t bytes = 0;           ///< kept now
  std::size_t bytes_max = 0;       ///< the bound of `bytes`
  std::size_t frame_size_max = 0;  ///< larger frames are never kept
};
/// Counters of the calling thread's cache.
BATON_EXPORT FrameCacheStatistics frame_cache_statistics() noexcept;
/// Frees the memory in the calling thread's cache.
BATON_EXPORT void clear_frame_cache() noexcept;

namespace detail {

/// The alignment of every frame, which locals and results may need (gcc 12 asks only for the
/// alignment of `operator new`, whatever a frame holds).
inline constexpr std::size_t frame_alignment = 64;

/// Throws std::bad_alloc.
BATON_EXPORT void* allocate_frame(std::size_t size);
BATON_EXPORT void free_frame(void* frame, std::size_t size) noexcept;
/// Ends the program, saying why, unless `frame` is where allocate_frame has just put one.
BATON_EXPORT void check_frame(const void* frame) noexcept;

}  // namespace detail
}  // namespace baton
