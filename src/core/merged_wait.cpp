// One wait over several engines.
#include "core/merged_wait.hpp"

#include <errno.h>
#include <poll.h>

#include <algorithm>
#include <array>

namespace baton {
namespace {

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

std::size_t sleep_by_descriptors(std::span<Engine* const> engines, Deadline until,
                                 const os::System& system) noexcept {
  std::array<pollfd, limits::lanes_max> list;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const NativeHandle descriptor = engines[i]->descriptor();
    if (descriptor == invalid_handle) return i;
    list[i] = {descriptor, POLLIN, 0};
    until = std::min(until, engines[i]->due());
  }
  timespec timeout{};
  if (!until.is_never()) timeout = rounded_up(until, Deadline::at_ns(system.monotonic_ns()));
  const int ready = system.ppoll(list.data(), static_cast<nfds_t>(engines.size()),
                                 until.is_never() ? nullptr : &timeout, nullptr);
  return ready >= 0 || errno == EINTR ? engines.size() : 0;
}

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

  // A poll may have restarted the rest of a short transfer, which is not submitted to the kernel
  // yet. An engine's own wait would submit it; the sleep below would not.
  for (Processor* processor : processors) processor->engine->flush();

  std::array<Engine*, limits::processors_max> engines;
  for (std::size_t i = 0; i < processors.size(); ++i) engines[i] = processors[i]->engine.get();
  const std::size_t sliced =
      sleep_by_descriptors(std::span{engines}.first(processors.size()), until, system);
  if (sliced < processors.size()) {
    const Deadline now = Deadline::at_ns(system.monotonic_ns());
    engines[sliced]->wait(batches[sliced], std::min(until, Deadline::after(wait_slice, now)));
  }
  look_at_all(processors, batches);
}

}  // namespace baton
