// The wait and interrupt strategies that a configuration can name: the built-in ones in order of
// preference, then those that the program has added. One list for the process.
//
// baton::Registry (src/config/registry.cpp) keeps no list of strategies of its own:
//
//   Registry::add(name, WaitStrategyFactory f, reason)  ->  add_wait_strategy({name, f, reason})
//   Registry::wait_strategies()                         ->  wait_strategies()
//
// and the same for interrupts. add_wait_strategy checks the name. The Demultiplexer looks
// strategies up here and does not know baton::Registry, so it finds added ones too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baton/registry.hpp"

namespace baton::demux {

/// The strategies that "auto" tries, in this order. A strategy that a program has added is chosen
/// only by its name.
std::vector<RegistryEntry<WaitStrategyFactory>> builtin_wait_strategies();
std::vector<RegistryEntry<InterruptStrategyFactory>> builtin_interrupt_strategies();

/// The built-in ones, then the added ones in their order. A copy; any thread.
std::vector<RegistryEntry<WaitStrategyFactory>> wait_strategies();
std::vector<RegistryEntry<InterruptStrategyFactory>> interrupt_strategies();

/// The one with this name, if there is one. Any thread.
std::optional<RegistryEntry<WaitStrategyFactory>> find_wait_strategy(std::string_view name);
std::optional<RegistryEntry<InterruptStrategyFactory>> find_interrupt_strategy(
    std::string_view name);

/// Appends one, which cannot be removed again. errc::bad_configuration if the name is taken, is
/// "auto", is not made of a-z, 0-9 and '_', or if there is no factory. Any thread.
std::error_code add_wait_strategy(RegistryEntry<WaitStrategyFactory> entry);
std::error_code add_interrupt_strategy(RegistryEntry<InterruptStrategyFactory> entry);

}  // namespace baton::demux
