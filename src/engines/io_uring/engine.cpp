// Opens the engine: profile, probe, ring, interrupt descriptor. Explains what it replaced.
#include "engines/io_uring/engine.hpp"

#include <errno.h>
#include <fcntl.h>

#include <new>
#include <string>

#include "engines/io_uring/io_uring_engine.hpp"
#include "engines/io_uring/probe.hpp"

namespace baton::engines {
namespace {

using uring::IoUringEngine;
using uring::ProbeReport;
using uring::Ring;
using uring::RingOptions;

constexpr std::uint32_t entries_default = 256;
constexpr std::uint32_t completions_per_entry = 4;
// EFD_CLOEXEC without EFD_NONBLOCK: a ring may honour the mode and end a read at once.
constexpr int event_flags = O_CLOEXEC;

void explain(const EngineOptions& options, ReasonCode code, std::string_view line) {
  if (options.explain) options.explain(with_code(line, code));
}

void explain_replaced(const EngineOptions& options, const ProcessorConfig& config) {
  if (config.wait != "auto" && config.wait != "ring") {
    explain(options, ReasonCode::waits_by_itself,
            "wait: " + config.wait + " -> ring: io_uring waits by nothing else");
  }
  if (config.interrupt != "auto" && config.interrupt != "eventfd" && config.interrupt != "ring") {
    explain(
        options, ReasonCode::waits_by_itself,
        "interrupt: " + config.interrupt + " -> eventfd: a read of it in the ring ends the wait");
  }
}

// Whether to try the pinned form.
Result<bool, Failure> wants_pinned(const EngineOptions& options, const ProcessorConfig& config) {
  if (config.profile == "any") return false;
  if (config.profile == "auto") return options.pinned_ok;
  if (config.profile != "pinned") {
    return unexpected{Failure{
        make_error_code(errc::unknown_name),
        "io_uring: profile \"" + config.profile + "\" is unknown; valid are auto, any and pinned"}};
  }
  if (!options.pinned_ok) {
    explain(options, ReasonCode::needs_one_thread,
            "profile: pinned -> any: in this mode the thread that waits may change");
  }
  return options.pinned_ok;
}

RingOptions ring_options(const EngineOptions& options, const ProcessorConfig& config, bool pinned) {
  const std::uint32_t entries = config.ring_entries != 0 ? config.ring_entries : entries_default;
  return {.entries = entries,
          .completions = config.completion_entries != 0 ? config.completion_entries
                                                        : entries * completions_per_entry,
          .pinned = pinned,
          .cooperative = !options.concurrent};
}

Result<std::unique_ptr<Engine>, Failure> out_of(ReasonCode code, const char* what) {
  return unexpected{Failure{make_error_code(errc::engine_unavailable),
                            std::string{"io_uring: no "} + what + " left", code}};
}

}  // namespace

Result<std::unique_ptr<Engine>, Failure> open_io_uring(const EngineOptions& options) {
  const os::System& system = os::or_real(options.system);
  const ProcessorConfig defaults;
  const ProcessorConfig& config = options.config != nullptr ? *options.config : defaults;
  explain_replaced(options, config);
  const Result<bool, Failure> pinned_wanted = wants_pinned(options, config);
  if (!pinned_wanted) return unexpected{pinned_wanted.error()};
  const bool message_wanted = config.interrupt == "ring";
  const Result<ProbeReport, Failure> probed =
      uring::probe(system, {.pinned = *pinned_wanted, .message = message_wanted});
  if (!probed) return unexpected{probed.error()};
  if (*pinned_wanted && !probed->pinned) {
    explain(options, ReasonCode::kernel_too_old,
            "profile: pinned -> any: the kernel has no DEFER_TASKRUN (Linux 6.1)");
  }
  if (message_wanted && !probed->facts.message) {
    explain(options, ReasonCode::kernel_too_old,
            "interrupt: ring -> eventfd: the kernel sends no message to a ring without another "
            "(Linux 6.13)");
  }
  const RingOptions wanted = ring_options(options, config, probed->pinned);
  auto ring = Ring::open(system, wanted);
  if (!ring) return unexpected{uring::setup_failure(system, ring.error())};
  if ((*ring)->entries() < wanted.entries) {
    explain(options, ReasonCode::limit_kernel,
            "ring_entries: " + std::to_string(wanted.entries) + " -> " +
                std::to_string((*ring)->entries()) + ": the kernel's bound");
  }
  const int event = system.eventfd(0, event_flags);
  if (event < 0)
    return out_of(ReasonCode::limit_descriptors, "descriptor for interrupts (`ulimit -n`)");
  try {
    return std::unique_ptr<Engine>{std::make_unique<IoUringEngine>(
        options,
        IoUringEngine::Parts{
            .ring = std::move(*ring), .event = event, .facts = probed->facts, .options = wanted})};
  } catch (const std::bad_alloc&) {
    system.close(event);
    return out_of(ReasonCode::limit_memory, "memory");
  }
}

}  // namespace baton::engines
