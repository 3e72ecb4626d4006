// Draws faults.
#include "engines/chaos/draws.hpp"

#include <errno.h>

namespace baton::engines::chaos {

Draws::Draws(const ProcessorConfig& config) noexcept
    : short_(config.chaos_short),
      delay_(config.chaos_delay),
      delay_us_(config.chaos_delay_us),
      error_(config.chaos_error),
      late_cancel_(config.chaos_late_cancel),
      random_(config.chaos_seed) {}

std::uint64_t Draws::below(std::uint64_t end) noexcept { return random_() % end; }

bool Draws::of_hundred(std::uint32_t count) noexcept { return below(100) < count; }

Duration Draws::delay() noexcept {
  return delay_us_ == 0 ? Duration{0} : std::chrono::microseconds{1 + below(delay_us_)};
}

// Errors after which the connection or the file is still usable. ECONNRESET is the exception: the
// engine ends the connection after it.
int Draws::error_of(const Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_stream:
    case OperationKind::write_stream:
      if (operation.handle()->kind() != HandleKind::stream_socket) return ENOMEM;
      return below(2) == 0 ? ECONNRESET : ENOBUFS;
    case OperationKind::read_file:
    case OperationKind::sync_file:
      return EIO;
    case OperationKind::write_file:
      return below(2) == 0 ? EIO : ENOSPC;
    case OperationKind::read_datagram:
      return ENOMEM;
    case OperationKind::write_datagram:
      return below(2) == 0 ? ENOBUFS : ECONNREFUSED;
    case OperationKind::connect: {
      constexpr int errors[] = {ECONNREFUSED, ETIMEDOUT, ENETUNREACH};
      return errors[below(3)];
    }
    default:
      return 0;  // an accept stays pending through everything (contract.md, rule 11)
  }
}

// The number of draws is always the same, so switching one fault off leaves the others as they
// were.
Fate Draws::fate(const Operation& operation) noexcept {
  Fate fate;
  fate.in_parts = of_hundred(short_);
  const int error = error_of(operation);
  if (of_hundred(error_)) fate.error = error;
  const Duration before = delay();
  if (of_hundred(delay_)) fate.before = before;
  const Duration afterwards = delay();
  if (of_hundred(delay_)) fate.afterwards = afterwards;
  return fate;
}

std::size_t Draws::part(std::size_t left, bool aligned) noexcept {
  constexpr std::size_t block = 512;
  if (!aligned || left % block != 0) return 1 + below(left);
  return block * (1 + below(left / block));
}

Duration Draws::late_cancel() noexcept {
  const Duration late = delay();
  return of_hundred(late_cancel_) ? late : Duration{0};
}

}  // namespace baton::engines::chaos
