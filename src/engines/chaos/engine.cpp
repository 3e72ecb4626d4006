// Opens the inner engine and wraps it.
#include "engines/chaos/engine.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "baton/registry.hpp"
#include "engines/chaos/chaos_engine.hpp"

namespace baton::engines {
namespace {

using Opened = Result<std::unique_ptr<Engine>, Failure>;

// By itself the factory knows no policy, and takes the first engine for `auto`. A proactor names
// the engine.
Opened open_inner(const EngineOptions& options) {
  const auto engines = registry().engines();
  const std::string& inner = options.config->inner;
  const std::string& wanted = inner == "auto" ? engines.front().name : inner;
  const auto found = std::find_if(engines.begin(), engines.end(), [&wanted](const auto& entry) {
    return entry.name == wanted && entry.name != "chaos";
  });
  if (found == engines.end()) {
    return unexpected{Failure{make_error_code(errc::engine_unavailable),
                              "inner=" + wanted + ": there is no such engine to wrap",
                              ReasonCode::unsuitable}};
  }
  ProcessorConfig config = *options.config;
  config.engine = wanted;
  EngineOptions within = options;
  within.config = &config;
  Opened opened = found->factory(within);
  if (opened) return opened;
  Failure why = opened.error();
  why.reason = "inner=" + wanted + ": " + why.reason;
  return unexpected{std::move(why)};
}

}  // namespace

Opened open_chaos(const EngineOptions& given) {
  const ProcessorConfig defaults;
  EngineOptions options = given;
  if (options.config == nullptr) options.config = &defaults;
  const ProcessorConfig& config = *options.config;
  auto inner = open_inner(options);
  if (!inner) return inner;
  if (options.explain) {
    const auto said = [](const char* key, std::uint32_t value) {
      return std::string(" ") + key + "=" + std::to_string(value);
    };
    options.explain(
        "chaos: around engine=" + std::string((*inner)->info().name) +
        said("chaos_seed", config.chaos_seed) + said("chaos_short", config.chaos_short) +
        said("chaos_delay", config.chaos_delay) + said("chaos_delay_us", config.chaos_delay_us) +
        said("chaos_error", config.chaos_error) +
        said("chaos_late_cancel", config.chaos_late_cancel));
  }
  try {
    return std::unique_ptr<Engine>(
        std::make_unique<chaos::ChaosEngine>(std::move(*inner), options));
  } catch (const std::bad_alloc&) {
    return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory),
                              "no memory for the chaos engine"}};
  }
}

}  // namespace baton::engines
