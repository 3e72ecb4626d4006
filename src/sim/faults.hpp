// Faults: how bad the world of one seed is. Every number is drawn once, at its beginning, from a
// distribution of its own: many seeds are mild in most respects and terrible in one, for a world
// that is terrible in all of them never gets anywhere.
#pragma once

#include <cstdint>

#include "sim/random.hpp"

namespace baton::sim {

/// Chances are of 65,536.
struct Faults {
  // The network
  std::int64_t latency_least_ns = 0;
  std::int64_t latency_most_ns = 0;
  std::uint32_t bytes_per_us = 0;  ///< bandwidth; 0: no bound
  std::uint32_t buffer_least = 4096;
  std::uint32_t buffer_most = 4096;
  std::uint32_t short_transfer = 0;
  std::uint32_t reset = 0;     ///< of transfers
  std::uint32_t refuse = 0;    ///< of connects
  std::uint32_t slow = 0;      ///< of connects: 1 to 100 ms, and some are never answered
  std::uint32_t abort = 0;     ///< of accepts: ECONNABORTED
  std::uint32_t lose = 0;      ///< of datagrams
  std::uint32_t backlog = 64;  ///< of every listener, at most
  // Memory and descriptors
  std::uint32_t descriptors_max = 4096;
  std::uint32_t no_buffers = 0;  ///< of transfers and accepts: ENOBUFS, ENOMEM
  std::uint32_t slow_close = 0;  ///< takes a while, and others go on meanwhile
  // Disks
  std::int64_t disk_least_ns = 0;
  std::int64_t disk_most_ns = 0;
  std::uint32_t disk_error = 0;  ///< EIO
  std::uint32_t sync_error = 0;
  std::uint64_t disk_size = 1U << 20;  ///< of each file: beyond it ENOSPC
  // The engine
  std::int64_t engine_least_ns = 0;  ///< from possible to done
  std::int64_t engine_most_ns = 0;
  std::uint32_t at_once = 0;      ///< of submits that can be done: done inside
  std::uint32_t late_cancel = 0;  ///< comes too late to stop it, or is answered later
  std::uint32_t busy = 0;         ///< of submits
  std::uint32_t empty_wait = 0;   ///< returns early with nothing
  std::uint32_t part_of_batch = 0;
  // System calls and readiness (level two)
  std::uint32_t interrupted = 0;      ///< EINTR
  std::uint32_t again = 0;            ///< EAGAIN after readiness
  std::uint32_t spurious_ready = 0;   ///< reported, and is not
  std::uint32_t late_ready = 0;       ///< reported 10 us to 1 ms later
  std::uint32_t no_wait_refused = 0;  ///< of tries on files: EAGAIN, work for a worker
  std::uint32_t no_thread = 0;        ///< a worker cannot be started

  static Faults draw(Random& random) noexcept;
  /// A world without any, as quick as light.
  static Faults none() noexcept { return {}; }
};

}  // namespace baton::sim
