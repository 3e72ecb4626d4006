// The engine policy: how require, prefer and forbid change the `engine` of each processor.
// Works on data only: nothing here opens or probes an engine.
//
//   require  Each must be the engine of some processor. A processor that names one, or is given
//            one because it says "auto", gets that engine or nothing.
//   prefer   What is tried first where there is a choice, in this order; then the registry's.
//   forbid   Never tried. It wins over prefer, and excludes require and a processor that names it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "baton/config.hpp"
#include "baton/registry.hpp"

namespace baton::config {

/// The wish for one processor.
struct EngineWish {
  std::string engine = "auto";
  bool required = false;  ///< this one or none
};

/// One for each processor, in order.
std::vector<EngineWish> engine_wishes(const Config& config);

/// The engines to try for a wish, in order. They include forbidden ones, which the caller reports
/// and does not open: see forbids(). A required engine is the only candidate. The first `builtin`
/// entries of the registry are the library's own. An engine that a program has added is tried only
/// if the configuration names it, never as a replacement.
std::vector<RegistryEntry<EngineFactory>> candidates(const Config& config, const EngineWish& wish,
                                                     std::size_t builtin);

[[nodiscard]] bool contains(const std::vector<std::string>& list, std::string_view name) noexcept;
[[nodiscard]] inline bool forbids(const Config& config, std::string_view engine) noexcept {
  return contains(config.forbid, engine);
}

/// Policies that exclude each other.
Result<void, Failure> check_policy(const Config& config, std::string_view place);
/// Every required engine has a processor.
Result<void, Failure> check_required(const Config& config, std::string_view place);

}  // namespace baton::config
