// The registry that programs see: one interface to the two lists of siblings. src/demux keeps all
// strategies, including those that programs add, because it opens them by name. The proactor opens
// engines and looks them up here, so the engines that programs add are kept here.
#include "baton/registry.hpp"

#include <utility>

#include "demux/registry.hpp"
#include "engines/registry.hpp"
#include "os/process_mutex.hpp"
#include "os/system.hpp"

namespace baton {
namespace {

bool well_formed(std::string_view name) noexcept {
  return !name.empty() && name != "auto" &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

using Engines = std::vector<RegistryEntry<EngineFactory>>;

/// Never destroyed: a program may open a proactor while its static objects are destroyed. Guarded
/// by os::process_mutex, and so is its construction.
Engines& added_engines() {
  static auto& added = *new Engines;
  return added;
}

Engines all_engines(const Engines& added) {
  Engines all = engines::builtin();
  all.insert(all.end(), added.begin(), added.end());
  return all;
}

}  // namespace

std::error_code Registry::add(std::string name, EngineFactory factory, std::string reason) {
  if (!well_formed(name) || !factory) return errc::bad_configuration;
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  for (const auto& present : all_engines(added_engines())) {
    if (present.name == name) return errc::bad_configuration;
  }
  added_engines().push_back({std::move(name), std::move(factory), std::move(reason)});
  return {};
}

std::error_code Registry::add(std::string name, WaitStrategyFactory factory, std::string reason) {
  return demux::add_wait_strategy({std::move(name), std::move(factory), std::move(reason)});
}

std::error_code Registry::add(std::string name, InterruptStrategyFactory factory,
                              std::string reason) {
  return demux::add_interrupt_strategy({std::move(name), std::move(factory), std::move(reason)});
}

std::vector<RegistryEntry<EngineFactory>> Registry::engines() const {
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  return all_engines(added_engines());
}

std::vector<RegistryEntry<WaitStrategyFactory>> Registry::wait_strategies() const {
  return demux::wait_strategies();
}

std::vector<RegistryEntry<InterruptStrategyFactory>> Registry::interrupt_strategies() const {
  return demux::interrupt_strategies();
}

Registry& registry() noexcept {
  // It has no state of its own.
  static Registry the_registry;
  return the_registry;
}

}  // namespace baton
