// Checks a configuration as a whole. Errors are settings that make no sense on any machine: an
// unknown name, a number out of range, parts that exclude each other. An unsuitable setting (a wait
// strategy for an engine that has none) is noted in Config::sources and otherwise ignored, because
// the same program must start on another engine that the administrator names (P-33).
#include <algorithm>
#include <string>

#include "baton/registry.hpp"
#include "config/apply.hpp"
#include "config/policy.hpp"

namespace baton::config {
namespace {

constexpr std::string_view note_prefix = "note: ";

using Checked = Result<void, Failure>;

unexpected<Failure> wrong(const std::string& place, errc code, const std::string& what,
                          ReasonCode reason_code = ReasonCode::contradiction) {
  return unexpected{Failure{make_error_code(code), place + ": " + what, reason_code}};
}

/// Each value, by the same functions that read it from text: printed and read back.
template <class Target>
Checked check_values(std::string_view place, std::span<const Key<Target>> keys,
                     const Target& target) {
  Target scratch;
  for (const Key<Target>& key : keys) {
    const std::string value = key.get(target);
    if (value.empty()) continue;
    if (const auto problem = key.set(scratch, value)) {
      return unexpected{failure(place, key.name, value, *problem)};
    }
  }
  return {};
}

Checked check_processor(const std::string& place, const ProcessorConfig& processor,
                        const Config& config) {
  if (Checked values = check_values(place, processor_keys(), processor); !values) return values;
  // An empty name would print as a default, but it is not one.
  for (const std::string* name : {&processor.engine, &processor.wait, &processor.interrupt,
                                  &processor.profile, &processor.notify, &processor.inner}) {
    if (name->empty()) {
      return wrong(place, errc::unknown_name, "a name is empty; say auto",
                   ReasonCode::unknown_name);
    }
  }
  if (contains(config.forbid, processor.engine)) {
    return wrong(place, errc::engine_forbidden,
                 "engine=" + quoted(processor.engine) +
                     " is forbidden here (forbid, BATON_FORBID); say auto or another one",
                 ReasonCode::forbidden);
  }
  if (contains(config.forbid, processor.inner)) {
    return wrong(place, errc::engine_forbidden,
                 "inner=" + quoted(processor.inner) +
                     " is forbidden here (forbid, BATON_FORBID); say auto or another one",
                 ReasonCode::forbidden);
  }
  if (processor.wait_signal != 0 && processor.wait_signal == processor.interrupt_signal) {
    return wrong(place, errc::bad_configuration,
                 "wait_signal and interrupt_signal are both " +
                     std::to_string(processor.wait_signal) + "; each needs its own");
  }
  if (processor.completion_entries != 0 && processor.completion_entries < processor.ring_entries) {
    return wrong(place, errc::bad_configuration,
                 "completion_entries=" + std::to_string(processor.completion_entries) +
                     " is less than ring_entries=" + std::to_string(processor.ring_entries) +
                     "; valid: as many or more");
  }
  return {};
}

Mode effective(Mode mode) noexcept { return mode == Mode::automatic ? Mode::shared : mode; }

/// A thread in run() either owns a lane or shares work with all others; it cannot do both.
Checked check_team(const Config& config, const std::vector<std::string>& places) {
  const auto& team = config.processors;
  for (std::size_t i = 0; i < team.size(); ++i) {
    if (team[i].mode != Mode::per_thread) continue;
    for (std::size_t k = 0; k < team.size(); ++k) {
      if (effective(team[k].mode) == Mode::shared) {
        return wrong(places[k], errc::bad_configuration,
                     "mode=shared does not go with mode=per_thread of " + processor_name(i) +
                         "; valid beside it: per_thread, dedicated");
      }
      if (team[k].mode == Mode::per_thread && team[k].threads != team[i].threads) {
        return wrong(places[k], errc::bad_configuration,
                     "threads=" + std::to_string(team[k].threads) + " differs from threads=" +
                         std::to_string(team[i].threads) + " of " + processor_name(i) +
                         "; per_thread processors of one team have the same number");
      }
    }
  }
  return {};
}

/// Settings that only engines other than the named one use. "auto" names no engine, so it is not
/// called for that. The engine inside `chaos` is not known here.
void note_foreign_settings(const ProcessorConfig& processor, const std::string& prefix,
                           std::vector<std::string>& notes) {
  struct Owner {
    std::string_view setting;
    std::string_view engine;
  };
  constexpr Owner owners[] = {
      {"ring_entries", "io_uring"},
      {"completion_entries", "io_uring"},
      {"profile", "io_uring"},
      {"notify", "posix_aio"},
      {"inner", "chaos"},
      {"chaos_seed", "chaos"},
      {"chaos_short", "chaos"},
      {"chaos_delay", "chaos"},
      {"chaos_delay_us", "chaos"},
      {"chaos_error", "chaos"},
      {"chaos_late_cancel", "chaos"},
  };
  for (const Owner& owner : owners) {
    const Key<ProcessorConfig>* key = find_key(processor_keys(), owner.setting);
    const std::string value = key->get(processor);
    const bool inside = processor.engine == "chaos" && owner.engine != "chaos";
    if (value.empty() || processor.engine == owner.engine || inside) continue;
    notes.push_back(prefix + std::string(owner.setting) + "=" + value +
                    " is not used: it is for engine=" + std::string(owner.engine));
  }
  const bool signals = processor.wait == "rt_signals" || processor.notify == "sigwait" ||
                       (processor.wait == "auto" && waits_by_strategy(processor.engine));
  if (processor.wait_signal != 0 && processor.engine != "chaos" && !signals) {
    notes.push_back(prefix + "wait_signal=" + std::to_string(processor.wait_signal) +
                    " is not used: it is for wait=rt_signals and notify=sigwait");
  }
  const bool interrupts = processor.interrupt == "signal" || processor.interrupt == "auto";
  if (processor.interrupt_signal != 0 && processor.engine != "chaos" && !interrupts) {
    notes.push_back(prefix + "interrupt_signal=" + std::to_string(processor.interrupt_signal) +
                    " is not used: it is for interrupt=signal");
  }
}

/// Settings of a processor that have no effect beside the others.
void note_unused(const ProcessorConfig& processor, const std::string& prefix,
                 std::vector<std::string>& notes) {
  const bool named = processor.engine != "auto";
  const std::string& waiter = processor.engine == "chaos" ? processor.inner : processor.engine;
  if (waiter != "auto" && processor.wait != "auto" && !waits_by_strategy(waiter)) {
    notes.push_back(prefix + "wait=" + processor.wait + " is not used: engine " + waiter +
                    " waits in its own way");
  }
  if (named) note_foreign_settings(processor, prefix, notes);
  if (processor.threads != 0 && processor.mode != Mode::per_thread) {
    notes.push_back(prefix + "threads=" + std::to_string(processor.threads) +
                    " is not used: it is for mode per_thread");
  }
  if (processor.started_max != 0 && processor.operations_max != 0 &&
      processor.started_max > processor.operations_max) {
    notes.push_back(prefix + "started_max=" + std::to_string(processor.started_max) +
                    " is never reached: operations_max=" +
                    std::to_string(processor.operations_max) + " comes first");
  }
}

/// The kinds that come to a processor that names these. `all`: the kinds that the team names.
OperationKinds routed(OperationKinds named, OperationKinds all) {
  OperationKinds kinds;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const auto kind = static_cast<OperationKind>(i);
    const OperationKind with = detail::ordered_with(kind);
    if (named.has(all.has(with) ? with : kind)) kinds.add(kind);
  }
  return kinds;
}

/// Kinds of operations that no processor takes, and processors that no operation reaches. A
/// processor without a list takes all that its engine can, which only the open engine knows.
void note_routes(const Config& config, std::vector<std::string>& notes) {
  OperationKinds all;
  for (const ProcessorConfig& processor : config.processors) all |= processor.operations;
  OperationKinds taken;
  for (std::size_t i = 0; i < config.processors.size(); ++i) {
    if (config.processors[i].operations.empty()) return;
    OperationKinds both = taken;
    both |= routed(config.processors[i].operations, all);
    if (both == taken) {
      notes.push_back(processor_name(i) + " is never used: others take all its operations");
    }
    taken = both;
  }
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < static_cast<std::size_t>(OperationKind::close); ++i) {
    const auto kind = static_cast<OperationKind>(i);
    if (!taken.has(kind)) missing.emplace_back(to_string(kind));
  }
  if (config.processors.empty() || missing.empty()) return;
  notes.push_back("no processor takes " + joined(missing) +
                  ": starting one fails with not_supported");
}

}  // namespace

Result<void, Failure> check(const Config& config, std::string_view place,
                            const std::vector<std::string>& places) {
  if (config.processors.size() > limits::processors_max) {
    return wrong(std::string(place), errc::bad_configuration,
                 std::to_string(config.processors.size()) + " processors; valid: at most " +
                     std::to_string(limits::processors_max),
                 ReasonCode::bad_value);
  }
  if (Checked values = check_values(place, proactor_keys(), config); !values) return values;
  if (Checked policy = check_policy(config, place); !policy) return policy;

  std::vector<std::string> all(places);
  for (std::size_t i = all.size(); i < config.processors.size(); ++i) {
    all.push_back(std::string(place) + ": " + processor_name(i));
  }
  for (std::size_t i = 0; i < config.processors.size(); ++i) {
    if (Checked one = check_processor(all[i], config.processors[i], config); !one) return one;
  }
  return check_team(config, all);
}

bool waits_by_strategy(const std::string& engine) {
  const auto engines = registry().engines();
  return std::any_of(engines.begin(), engines.end(), [&engine](const auto& one) {
    return one.name == engine && one.waits_by_strategy;
  });
}

void refresh_notes(Config& config) {
  std::erase_if(config.sources,
                [](const std::string& line) { return line.starts_with(note_prefix); });
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < config.processors.size(); ++i) {
    const bool several = config.processors.size() > 1;
    note_unused(config.processors[i], several ? processor_name(i) + ": " : "", notes);
  }
  note_routes(config, notes);
  for (const std::string& note : notes) config.sources.push_back(std::string(note_prefix) + note);
}

}  // namespace baton::config

namespace baton {

Result<void, Failure> Config::validate() const {
  if (auto valid = config::check(*this, "configuration"); !valid) return valid;
  // Only of the whole: a later source may still give a required engine its processor.
  return config::check_required(*this, "configuration");
}

}  // namespace baton
