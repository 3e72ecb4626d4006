// Reports as text: the engines of the library, and the state of a proactor.
#include <errno.h>

#include <algorithm>
#include <exception>
#include <string>

#include "baton/registry.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"

using baton::capi::copy_out_of;
using baton::capi::find;
using baton::capi::Inside;
using baton::capi::Instance;

namespace {

using EngineEntry = baton::RegistryEntry<baton::EngineFactory>;

/// Opens a proactor that must have this engine, and closes it again.
baton::Result<void, baton::Failure> try_engine(std::string_view name) {
  const auto engines = baton::registry().engines();
  const auto entry = std::find_if(engines.begin(), engines.end(),
                                  [name](const EngineEntry& each) { return each.name == name; });
  baton::Config config;
  config.processors.emplace_back().engine = name;
  if (auto valid = config.validate(); !valid) return valid;
  config.require = {std::string{name}};
  if (entry != engines.end() && entry->files_only) {
    config.processors.front().operations = baton::file_operations;
  }
  const auto opened = baton::Proactor::open(std::move(config));
  if (opened) return {};
  return baton::unexpected{opened.error()};
}

}  // namespace

std::size_t baton_engines(char* text, std::size_t size) {
  const Inside inside;
  return copy_out_of(
      [] {
        std::string names;
        for (const EngineEntry& each : baton::registry().engines()) names += each.name + "\n";
        return names;
      },
      text, size);
}

int baton_engine_reason(const char* engine, char* reason, std::size_t reason_size) {
  const Inside inside;
  baton::capi::copy_out("", reason, reason_size);
  if (engine == nullptr) return EINVAL;
  try {
    const auto tried = try_engine(engine);
    if (tried) return 0;
    const baton::Failure& failure = tried.error();
    baton::capi::copy_out(with_code(failure.reason, failure.reason_code), reason, reason_size);
    return baton::capi::code_of(failure.code);
  } catch (const std::exception& exception) {
    baton::capi::copy_out(exception.what(), reason, reason_size);
    return baton::capi::code_of_exception();
  }
}

std::size_t baton_explain(baton_proactor* proactor, char* text, std::size_t size) {
  Instance* const self = find(proactor);
  if (self == nullptr) return baton::capi::copy_out("", text, size);
  const Inside inside;
  return copy_out_of([self] { return self->proactor.explain(); }, text, size);
}

std::size_t baton_statistics(baton_proactor* proactor, char* text, std::size_t size) {
  Instance* const self = find(proactor);
  if (self == nullptr) return baton::capi::copy_out("", text, size);
  const Inside inside;
  return copy_out_of([self] { return self->proactor.statistics().to_string(); }, text, size);
}

std::size_t baton_pending(baton_proactor* proactor, std::int64_t age_ns, char* text,
                          std::size_t size) {
  Instance* const self = find(proactor);
  if (self == nullptr) return baton::capi::copy_out("", text, size);
  const Inside inside;
  const baton::Duration age{age_ns};
  return copy_out_of([&] { return self->proactor.pending(age).to_string(); }, text, size);
}
