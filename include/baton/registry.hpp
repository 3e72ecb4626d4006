// The parts that a configuration can name, and how to add your own (P-04):
//
//   baton::registry().add("my_wait", my_factory, "why one would choose it");
//
// Built-in parts stand in order of preference; "auto" takes the first that opens. Added parts come
// after them and are chosen only by name. The registry is process-wide and thread-safe; parts are
// never removed, and a name is registered once.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "baton/engine.hpp"
#include "baton/export.hpp"
#include "baton/interrupt_strategy.hpp"
#include "baton/wait_strategy.hpp"

namespace baton {

/// A part that a configuration can name.
template <class Factory>
struct RegistryEntry {
  std::string name;                ///< as in a configuration
  Factory factory;                 ///< opens it
  std::string reason;              ///< the reason for its place in the order of preference
  bool waits_by_strategy = false;  ///< engines only: takes a wait strategy (the emulated one)
  bool files_only = false;         ///< engines only: takes files, so that it is one of a team
  bool only_by_name = false;       ///< engines only: never chosen unless a configuration names it
  /// Engines only: settings of their own that are worth comparing, as in a configuration, separated
  /// by blanks ("notify=suspend notify=sigwait"; a literal). `baton doctor` and the benchmarks try
  /// them beside each other.
  std::string_view variants = "";
};

/// The parts that a configuration can name. Any thread.
class BATON_EXPORT Registry {
 public:
  /// errc::bad_configuration if the name is taken or is not made of a-z, 0-9, '_' .
  std::error_code add(std::string name, EngineFactory factory, std::string reason);
  std::error_code add(std::string name, WaitStrategyFactory factory, std::string reason);
  std::error_code add(std::string name, InterruptStrategyFactory factory, std::string reason);

  /// Copies, in order of preference.
  [[nodiscard]] std::vector<RegistryEntry<EngineFactory>> engines() const;
  /// As engines().
  [[nodiscard]] std::vector<RegistryEntry<WaitStrategyFactory>> wait_strategies() const;
  /// As engines().
  [[nodiscard]] std::vector<RegistryEntry<InterruptStrategyFactory>> interrupt_strategies() const;
};

/// The process's registry.
BATON_EXPORT Registry& registry() noexcept;

}  // namespace baton
