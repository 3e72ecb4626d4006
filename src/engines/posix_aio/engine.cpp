// Opens the engine: strategy, probe. Explains what it replaced.
#include "engines/posix_aio/engine.hpp"

#include <new>
#include <string>
#include <utility>

#include "engines/posix_aio/notify.hpp"
#include "engines/posix_aio/posix_aio_engine.hpp"
#include "engines/posix_aio/probe.hpp"

namespace baton::engines {
namespace {

using posix_aio::NotifyStrategy;

void explain_replaced(const EngineOptions& options, const ProcessorConfig& config,
                      const NotifyStrategy& notify) {
  const std::string own{notify.info().interrupt_name};
  if (!options.explain || config.interrupt == "auto" || config.interrupt == own) return;
  options.explain(with_code("interrupt: " + config.interrupt + " -> " + own + ": what notify=" +
                                std::string{notify.info().name} + " is interrupted by",
                            ReasonCode::waits_by_itself));
}

posix_aio::Opened open_notify(const os::System& system, const ProcessorConfig& config) {
  // suspend needs no thread per request and takes no signal from the program.
  if (config.notify == "auto" || config.notify == "suspend") return posix_aio::open_suspend(system);
  if (config.notify == "sigwait") return posix_aio::open_sigwait(system, config.wait_signal);
  if (config.notify == "callback") return posix_aio::open_callback(system);
  return unexpected{Failure{make_error_code(errc::unknown_name),
                            "posix_aio: notify \"" + config.notify +
                                "\" is unknown; valid are auto, suspend, sigwait and callback"}};
}

}  // namespace

Result<std::unique_ptr<Engine>, Failure> open_posix_aio(const EngineOptions& options) try {
  const os::System& system = os::or_real(options.system);
  const ProcessorConfig defaults;
  const ProcessorConfig& config = options.config != nullptr ? *options.config : defaults;
  if (auto good = posix_aio::check_not_forked(); !good) return unexpected{good.error()};
  posix_aio::know_all_threads();
  auto notify = open_notify(system, config);
  if (!notify) return unexpected{notify.error()};
  if (auto good = posix_aio::probe(system, **notify); !good) return unexpected{good.error()};
  explain_replaced(options, config, **notify);
  return std::unique_ptr<Engine>{
      std::make_unique<posix_aio::PosixAioEngine>(options, std::move(*notify))};
} catch (const std::bad_alloc&) {
  return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory),
                            "posix_aio: no memory for the table of handles"}};
}

}  // namespace baton::engines
