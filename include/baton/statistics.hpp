// Counters for everything that affects speed, since the proactor was opened. Any thread may
// read them by Proactor::statistics(). Each counter is exact, but they are not read at one
// instant.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "baton/export.hpp"

namespace baton {

/// Counters of a proactor.
struct BATON_EXPORT Statistics {
  // Operations
  std::uint64_t started = 0;            ///< starts that succeeded
  std::uint64_t completed = 0;          ///< handlers entered, posted work included
  std::uint64_t completed_at_once = 0;  ///< finished inside submit
  std::uint64_t deferred = 0;           ///< starts that had to wait for room or for the leader
  std::uint64_t posted = 0;             ///< posted work
  std::uint64_t cancelled = 0;          ///< operations that ended as cancelled
  std::uint64_t timed_out = 0;          ///< operations whose deadline passed
  std::uint64_t refused_limit = 0;      ///< starts refused by operations_max
  std::uint64_t pending = 0;            ///< now: started and deferred
  std::uint64_t handles = 0;            ///< now: open handles

  // Waiting and waking
  std::uint64_t waits = 0;            ///< times an engine was waited on
  std::uint64_t batch_total = 0;      ///< operations those waits returned; / waits = mean batch
  std::uint64_t batch_max = 0;        ///< the most operations of one wait
  std::uint64_t interrupts_sent = 0;  ///< waits that were cut short
  std::uint64_t interrupts_suppressed = 0;  ///< not needed: the leader was awake or already asked
  std::uint64_t followers_woken = 0;        ///< sleeping threads that were woken
  std::uint64_t wakes_suppressed = 0;       ///< not needed: a woken thread was still on its way
  std::uint64_t leader_changes = 0;         ///< how often another thread led
  std::uint64_t seats_taken = 0;            ///< by the standby, from a leader stuck in a handler

  // Handlers
  std::uint64_t handler_ns_max = 0;  ///< the longest (per_thread: of a few that are timed together)
  /// Handlers that outlasted the standby's look (per_thread: that took longer than 1 ms).
  std::uint64_t slow_handlers = 0;
  std::uint64_t exceptions = 0;  ///< that left a handler, or a detached task

  // Problems handled
  std::uint64_t accept_backoffs = 0;  ///< EMFILE, ENFILE, ENOBUFS, ENOMEM on accept
  std::uint64_t worker_jobs = 0;      ///< blocking file operations given to worker threads
  std::uint64_t stale_events = 0;     ///< for descriptors that were closed meanwhile

  [[nodiscard]] std::string to_string() const;  ///< "name value" lines

  /// A label of every sample: {"service", "mail"}. A name is made of letters, digits and '_'
  /// (others become '_'), a value is any UTF-8 text, which is escaped.
  struct Label {
    std::string_view name;   ///< letters, digits and '_'
    std::string_view value;  ///< any UTF-8 text
  };
  /// The text exposition format of Prometheus, version 0.0.4: what a scrape of /metrics returns.
  /// Counters are named baton_*_total, the others are gauges, in the format's base units.
  [[nodiscard]] std::string to_prometheus(std::span<const Label> labels = {}) const;
};

}  // namespace baton
