// Faults: the rates and times of one seed's faults. Each is drawn once, at the beginning, from its
// own distribution. Many seeds are mild in most respects and terrible in one: a program makes no
// progress in a world that is terrible in all of them.
#pragma once

#include <cstdint>

#include "sim/random.hpp"

namespace baton::sim {

/// A chance is a number of cases in 65,536.
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
  std::uint32_t slow_close = 0;  ///< of closes: takes time, while other threads go on
  // Disks
  std::int64_t disk_least_ns = 0;
  std::int64_t disk_most_ns = 0;
  std::uint32_t disk_error = 0;  ///< EIO
  std::uint32_t sync_error = 0;
  std::uint64_t disk_size = 1U << 20;  ///< the largest size of a file; beyond it ENOSPC
  // The engine
  std::int64_t engine_least_ns = 0;  ///< from the moment an operation is possible until it is done
  std::int64_t engine_most_ns = 0;
  std::uint32_t at_once = 0;      ///< of submits that are possible at once: complete inside submit
  std::uint32_t late_cancel = 0;  ///< of cancels: too late, or answered later
  std::uint32_t busy = 0;         ///< of submits
  std::uint32_t empty_wait = 0;   ///< of waits: returns early without a completion
  std::uint32_t part_of_batch = 0;
  // System calls and readiness (level two)
  std::uint32_t interrupted = 0;      ///< EINTR
  std::uint32_t again = 0;            ///< EAGAIN after readiness
  std::uint32_t spurious_ready = 0;   ///< readiness is reported that is not there
  std::uint32_t late_ready = 0;       ///< readiness is reported 10 us to 1 ms late
  std::uint32_t no_wait_refused = 0;  ///< of RWF_NOWAIT on files: EAGAIN, so a worker does it
  std::uint32_t no_thread = 0;        ///< a worker cannot be started

  static Faults draw(Random& random) noexcept;
  /// A world without faults and without delays.
  static Faults none() noexcept { return {}; }
};

}  // namespace baton::sim
