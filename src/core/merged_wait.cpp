// One wait over several engines.
#include "core/merged_wait.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace baton {
namespace {

using namespace std::chrono_literals;

// The longest that an engine without a descriptor keeps the others waiting.
constexpr Duration slice = 2ms;

bool look_at_all(std::span<Processor* const> processors, std::span<OperationQueue> batches) {
  bool found = false;
  for (std::size_t i = 0; i < processors.size(); ++i) {
    processors[i]->engine->wait(batches[i], Deadline::immediately());
    found |= !batches[i].empty();
  }
  return found;
}

timespec rounded_up(Deadline until, Deadline now) {
  const std::int64_t left = until.remaining(now).count();
  return {left / 1'000'000'000, left % 1'000'000'000};
}

}  // namespace

void merged_wait(std::span<Processor* const> processors, std::span<OperationQueue> batches,
                 Deadline until, const std::function<bool()>& asked,
                 const os::System& system) noexcept {
  if (processors.size() == 1) {
    processors[0]->engine->wait(batches[0], until);
    return;
  }
  if (look_at_all(processors, batches)) return;
  // That look may have consumed an interrupt, which cannot be seen from outside the engine. Either
  // its mark is seen here, or the interrupt comes after the look and ends the sleep below.
  if (asked()) return;

  // A look may have begun something anew, the rest of a short transfer, which nobody has handed to
  // the kernel yet: an engine's own wait would, the sleep below would not.
  for (Processor* processor : processors) processor->engine->flush();

  pollfd list[limits::processors_max];
  Processor* sliced = nullptr;
  std::size_t sliced_at = 0;
  nfds_t count = 0;
  for (std::size_t i = 0; i < processors.size(); ++i) {
    const NativeHandle descriptor = processors[i]->engine->descriptor();
    if (descriptor == invalid_handle) {
      sliced = processors[i];
      sliced_at = i;
    } else {
      list[count++] = {descriptor, POLLIN, 0};
      until = std::min(until, processors[i]->engine->due());
    }
  }
  const Deadline now = Deadline::at_ns(system.monotonic_ns());
  if (sliced != nullptr) {
    // At least one has no descriptor: sleep a slice in it; the others are looked at between slices.
    sliced->engine->wait(batches[sliced_at], std::min(until, Deadline::after(slice, now)));
  } else if (until.is_never()) {
    system.ppoll(list, count, nullptr, nullptr);
  } else {
    const timespec timeout = rounded_up(until, now);
    system.ppoll(list, count, &timeout, nullptr);
  }
  look_at_all(processors, batches);
}

}  // namespace baton
