// The registry that programs see: one interface to the two lists of siblings. src/demux keeps all
// strategies, including those that programs add, because it opens them by name. The proactor opens
// engines and looks them up here, so the engines that programs add are kept here.
#include "baton/registry.hpp"

#include <mutex>
#include <utility>

#include "demux/registry.hpp"
#include "engines/registry.hpp"

namespace baton {
namespace {

bool well_formed(std::string_view name) noexcept {
  return !name.empty() && name != "auto" &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

// A plain std::mutex: names are looked up when something is opened, never while it runs.
struct AddedEngines {
  std::mutex mutex;
  std::vector<RegistryEntry<EngineFactory>> entries;
};

/// Never destroyed: a program may open a proactor while its static objects are destroyed.
AddedEngines& added_engines() {
  static auto& added = *new AddedEngines;
  return added;
}

std::vector<RegistryEntry<EngineFactory>> all_engines(const AddedEngines& added) {
  std::vector<RegistryEntry<EngineFactory>> all = engines::builtin();
  all.insert(all.end(), added.entries.begin(), added.entries.end());
  return all;
}

}  // namespace

std::error_code Registry::add(std::string name, EngineFactory factory, std::string reason) {
  if (!well_formed(name) || !factory) return errc::bad_configuration;
  AddedEngines& added = added_engines();
  const std::scoped_lock lock(added.mutex);
  for (const auto& present : all_engines(added)) {
    if (present.name == name) return errc::bad_configuration;
  }
  added.entries.push_back({std::move(name), std::move(factory), std::move(reason)});
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
  AddedEngines& added = added_engines();
  const std::scoped_lock lock(added.mutex);
  return all_engines(added);
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
