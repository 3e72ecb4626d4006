// The one-line form ("engine=emulated,wait=epoll,mode=shared") and the environment.
#include <stdlib.h>

#include <algorithm>
#include <system_error>

#include "config/apply.hpp"

namespace baton {
namespace {

using config::Applier;

using Parsed = Result<Config, Failure>;

/// A person types a line of settings: a longer one is a mistake.
constexpr std::size_t text_max = std::size_t{64} * 1'024;

unexpected<Failure> malformed(const std::string& place, const std::string& what) {
  return unexpected{Failure{make_error_code(errc::bad_configuration), place + ": " + what}};
}

unexpected<Failure> no_such_setting(const std::string& place, std::string_view name) {
  std::vector<std::string> valid = config::names(config::processor_keys());
  for (std::string& more : config::names(config::proactor_keys())) valid.push_back(std::move(more));
  std::sort(valid.begin(), valid.end());
  return unexpected{Failure{make_error_code(errc::unknown_name),
                            place + ": " + config::quoted(name) +
                                " is not a known setting; valid: " + config::joined(valid)}};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(config::trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Which processors a section is for: all of them, or one.
struct Target {
  std::size_t first;
  std::size_t last;
};

class TextParser {
 public:
  TextParser(Config& config, std::string source)
      : config_(config), source_(std::move(source)), applier_(config, source_) {}

  Result<void, Failure> parse(std::string_view text) {
    if (text.size() > text_max) {
      return malformed(source_, "longer than " + std::to_string(text_max) + " bytes");
    }
    if (config::trimmed(text).empty()) return {};
    if (config::begins_with_mark(text)) return malformed(source_, config::mark_refused);
    const std::vector<std::string_view> sections = split(text, ';');
    const bool one_by_one = sections.size() > 1;
    if (sections.size() > limits::processors_max) {
      return malformed(source_, std::to_string(sections.size()) + " processors; valid: at most " +
                                    std::to_string(limits::processors_max));
    }
    // An empty section leaves a processor as it is; it makes none.
    const std::size_t there = std::max<std::size_t>(config_.processors.size(), 1);
    for (std::size_t i = there; i < sections.size(); ++i) {
      if (!sections[i].empty()) continue;
      return malformed(source_,
                       config::processor_name(i) +
                           " is new and has no settings; say engine=auto, or leave out its ';'");
    }
    if (config_.processors.size() < sections.size()) config_.processors.resize(sections.size());
    for (std::size_t i = 0; i < sections.size(); ++i) {
      const Target target = one_by_one ? Target{i, i + 1} : Target{0, config_.processors.size()};
      if (auto done = parse_section(sections[i], target, one_by_one); !done) return done;
    }
    return config::check(config_, source_);
  }

  /// One setting, of the processors of the target or of the proactor.
  Result<void, Failure> set(std::string_view name, std::string_view value, Target target,
                            const std::string& place) {
    if (config::find_key(config::proactor_keys(), name) != nullptr) {
      return applier_.set(place, name, value);
    }
    if (config::find_key(config::processor_keys(), name) != nullptr) {
      return applier_.set(place, name, value, target.first, target.last);
    }
    return no_such_setting(place, name);
  }

 private:
  Result<void, Failure> parse_section(std::string_view section, Target target, bool one_by_one) {
    if (section.empty()) return {};
    seen_.clear();
    const std::string place =
        one_by_one ? source_ + ", " + config::processor_name(target.first) : source_;
    for (const std::string_view item : split(section, ',')) {
      if (auto done = parse_item(item, target, place); !done) return done;
    }
    return {};
  }

  Result<void, Failure> parse_item(std::string_view item, Target target, const std::string& place) {
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return malformed(place, config::quoted(item) + " is not of the form name=value");
    }
    const std::string_view name = config::trimmed(item.substr(0, equals));
    const std::string_view value = config::trimmed(item.substr(equals + 1));
    const bool of_proactor = config::find_key(config::proactor_keys(), name) != nullptr;
    std::vector<std::string_view>& seen = of_proactor ? seen_of_proactor_ : seen_;
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      return malformed(place, std::string(name) + " is given twice");
    }
    seen.push_back(name);
    return set(name, value, target, place);
  }

  Config& config_;
  std::string source_;
  Applier applier_;
  std::vector<std::string_view> seen_;
  std::vector<std::string_view> seen_of_proactor_;
};

Parsed parse_text(std::string_view text, Config base, const std::string& source) {
  config::account_for_program(base);
  if (auto done = TextParser{base, source}.parse(text); !done) return unexpected{done.error()};
  config::refresh_notes(base);
  return base;
}

/// Null where the program runs with more rights than its caller (setuid, file capabilities): the
/// caller must not influence it.
const char* variable(const char* name) noexcept { return ::secure_getenv(name); }

/// BATON_REQUIRE, BATON_PREFER, BATON_FORBID: each is a list of engines and nothing else.
Result<void, Failure> apply_policy_variable(std::string_view policy, Config& config) {
  std::string name = "BATON_";
  for (const char c : policy) name += static_cast<char>(c - 'a' + 'A');
  const char* engines = variable(name.c_str());
  if (engines == nullptr || *engines == '\0') return {};
  return Applier{config, name}.set(name, policy, engines);
}

}  // namespace

Parsed Config::parse(std::string_view text, Config base) {
  return parse_text(text, std::move(base), "configuration text");
}

Parsed Config::parse_environment(Config base) {
  config::account_for_program(base);
  if (const char* path = variable("BATON_CONFIG"); path != nullptr && *path != '\0') {
    Parsed loaded = load_xml(path, std::move(base));
    if (!loaded) {
      Failure failure = loaded.error();
      failure.reason.insert(0, "BATON_CONFIG: ");
      return unexpected{std::move(failure)};
    }
    base = std::move(loaded).value();
  }
  if (const char* text = variable("BATON"); text != nullptr) {
    Parsed parsed = parse_text(text, std::move(base), "BATON");
    if (!parsed) return parsed;
    base = std::move(parsed).value();
  }
  for (const std::string_view policy : config::policy_keys) {
    if (auto done = apply_policy_variable(policy, base); !done) return unexpected{done.error()};
  }
  if (auto valid = base.validate(); !valid) return unexpected{valid.error()};
  config::refresh_notes(base);
  return base;
}

Parsed config::set_named(std::string_view name, std::string_view value, Config base,
                         std::string_view source, std::size_t processor) {
  const std::string place(source);
  if (base.processors.empty()) base.processors.emplace_back();
  const bool all = processor == every_processor;
  if (!all && processor >= base.processors.size()) {
    return malformed(place, "there is no " + config::processor_name(processor) + "; valid: 0 to " +
                                std::to_string(base.processors.size() - 1));
  }
  const Target target = all ? Target{0, base.processors.size()} : Target{processor, processor + 1};
  if (auto done = TextParser{base, place}.set(name, config::trimmed(value), target, place); !done) {
    return unexpected{done.error()};
  }
  if (auto valid = config::check(base, place); !valid) return unexpected{valid.error()};
  config::refresh_notes(base);
  return base;
}

Config Config::from_environment(Config base) {
  Parsed parsed = parse_environment(std::move(base));
  if (!parsed) {
    const Failure& why = parsed.error();
    throw std::system_error(why.code, with_code(why.reason, why.reason_code));
  }
  return std::move(parsed).value();
}

Config Config::from_environment() { return from_environment(Config{}); }

void Config::let_threads_change(std::string_view client) {
  for (ProcessorConfig& processor : processors) {
    if (processor.mode != Mode::per_thread || processor.profile != "auto") continue;
    processor.profile = "any";
    sources.push_back("profile=any from " + std::string{client} + ": its threads come and go");
  }
}

}  // namespace baton
