// The distributions of the faults.
#include "sim/faults.hpp"

#include <algorithm>

namespace baton::sim {
namespace {

/// 0 in half of the seeds, otherwise one of the three.
std::uint32_t chance_of(Random& random, std::uint32_t mild, std::uint32_t bad,
                        std::uint32_t terrible) noexcept {
  switch (random.below(8)) {
    case 0:
    case 1:
      return mild;
    case 2:
      return bad;
    case 3:
      return random.below(4) == 0 ? terrible : bad;
    default:
      return 0;
  }
}

void span(Random& random, std::int64_t& least, std::int64_t& most,
          std::int64_t longest_ns) noexcept {
  if (random.below(3) == 0) return;                                  // at once
  const std::int64_t scale = std::int64_t{1000} << random.below(8);  // 1 to 128 us
  least = random.between(0, scale);
  most = std::min(longest_ns, least + random.between(0, 4 * scale));
  least = std::min(least, most);
}

}  // namespace

Faults Faults::draw(Random& random) noexcept {
  Faults f;
  span(random, f.latency_least_ns, f.latency_most_ns, 1'000'000);
  if (random.below(4) == 0) f.bytes_per_us = 1U << random.below(10);
  f.buffer_least = 64U << random.below(6);
  f.buffer_most = f.buffer_least << random.below(6);
  f.short_transfer = chance_of(random, 1000, 8000, 40000);
  f.reset = chance_of(random, 2, 20, 300);
  f.refuse = chance_of(random, 1000, 8000, 30000);
  f.slow = chance_of(random, 1000, 8000, 30000);
  f.abort = chance_of(random, 500, 4000, 20000);
  f.lose = chance_of(random, 500, 4000, 20000);
  f.backlog = random.below(4) == 0 ? 1 + random.below(4) : 64;
  f.descriptors_max = random.below(6) == 0 ? 24 + random.below(40) : 4096;
  f.no_buffers = chance_of(random, 20, 300, 2000);
  f.slow_close = chance_of(random, 4000, 20000, 60000);
  span(random, f.disk_least_ns, f.disk_most_ns, 5'000'000);
  f.disk_error = chance_of(random, 100, 1000, 8000);
  f.sync_error = chance_of(random, 500, 4000, 20000);
  f.disk_size = random.below(4) == 0 ? 4096U << random.below(4) : 1U << 20;
  span(random, f.engine_least_ns, f.engine_most_ns, 500'000);
  f.at_once = random.below(3) == 0 ? 0 : random.below(60000);
  f.late_cancel = chance_of(random, 4000, 20000, 60000);
  f.busy = chance_of(random, 500, 4000, 16000);
  f.empty_wait = chance_of(random, 1000, 8000, 20000);
  f.part_of_batch = chance_of(random, 4000, 20000, 40000);
  f.interrupted = chance_of(random, 300, 3000, 12000);
  f.again = chance_of(random, 500, 8000,
                      45000);  // may come several times in a row, until an engine gives up
  f.spurious_ready = chance_of(random, 500, 8000, 40000);
  f.late_ready = chance_of(random, 500, 4000, 16000);
  f.no_wait_refused = chance_of(random, 4000, 20000, 60000);
  f.no_thread = chance_of(random, 1000, 8000, 20000);
  return f;
}

}  // namespace baton::sim
