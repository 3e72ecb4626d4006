// Opens the emulated engine.
#include "engines/emulated/engine.hpp"

#include <new>
#include <utility>

#include "demux/demultiplexer.hpp"
#include "engines/emulated/emulated_engine.hpp"

namespace baton::engines {

Result<std::unique_ptr<Engine>, Failure> open_emulated(const EngineOptions& options) {
  const ProcessorConfig defaults;
  const ProcessorConfig& config = options.config != nullptr ? *options.config : defaults;
  auto demultiplexer = demux::Demultiplexer::open({
      .system = options.system,
      .log = options.log,
      .wait = config.wait,
      .interrupt = config.interrupt,
      .descriptors_max = options.handles_max,
      .wait_signal = config.wait_signal,
      .interrupt_signal = config.interrupt_signal,
      .concurrent = options.concurrent,
      .one_thread_waits = options.pinned_ok || options.one_thread_waits,
      .explain = options.explain,
  });
  if (!demultiplexer) return unexpected{demultiplexer.error()};
  try {
    return std::unique_ptr<Engine>(
        std::make_unique<emulated::EmulatedEngine>(options, std::move(*demultiplexer)));
  } catch (const std::bad_alloc&) {
    return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory),
                              "no memory for the table of handles"}};
  }
}

}  // namespace baton::engines
