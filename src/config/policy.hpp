// The engine policy: what require, prefer and forbid make of the `engine` of each processor.
// Pure data: nothing here opens or probes anything.
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

/// The engines to try for a wish, in order. Forbidden ones are among them, to be told of and left
/// out: see forbids(). A required engine stands alone. The registry's first `builtin` are the
/// library's own; an engine that a program has added is tried only where it is named, never as a
/// replacement.
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
