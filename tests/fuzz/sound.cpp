#include "sound.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "config/keys.hpp"

namespace baton::fuzz {
namespace {

auto settings(const ProcessorConfig& p) {
  return std::tie(p.engine, p.wait, p.interrupt, p.mode, p.start, p.started_max, p.operations_max,
                  p.threads, p.workers, p.wait_signal, p.interrupt_signal, p.ring_entries,
                  p.completion_entries, p.profile, p.notify, p.debug, p.inner, p.chaos_seed,
                  p.chaos_short, p.chaos_delay, p.chaos_delay_us, p.chaos_error,
                  p.chaos_late_cancel);
}

bool same_processor(const ProcessorConfig& a, const ProcessorConfig& b) {
  return a.operations == b.operations && settings(a) == settings(b);
}

void expect_told(const Failure& failure) {
  expect_reason(failure);
  expect(failure.reason_code != ReasonCode::unspecified, "a failure has a code", failure.reason);
}

template <class Target>
void append_settings(std::string& text, std::span<const config::Key<Target>> keys,
                     const Target& target) {
  for (const config::Key<Target>& key : keys) {
    std::string value = key.get(target);
    if (value.empty()) continue;
    // Commas part the settings.
    std::replace(value.begin(), value.end(), ',', '+');
    text += (text.empty() || text.back() == ';' ? "" : ",") + std::string(key.name) + "=" + value;
  }
}

/// The one-line form, which the library only reads; empty where there is none: settings without a
/// processor.
std::string text_of(const Config& config) {
  std::string text;
  if (config.processors.empty()) return text;
  append_settings(text, config::proactor_keys(), config);
  for (std::size_t i = 0; i < config.processors.size(); ++i) {
    if (i > 0) text += ';';
    append_settings(text, config::processor_keys(), config.processors[i]);
  }
  return text;
}

void expect_same(const Parsed& back, const Config& config, std::string_view form) {
  expect(back.has_value(), "what is printed can be read",
         std::string(form) + "\n" + (back ? std::string{} : back.error().reason));
  expect(same(*back, config), "what is read back is the same", form);
}

}  // namespace

bool same(const Config& a, const Config& b) {
  return std::tie(a.handles_max, a.accept_policy, a.require, a.prefer, a.forbid,
                  a.understudy_look_us) == std::tie(b.handles_max, b.accept_policy, b.require,
                                                    b.prefer, b.forbid, b.understudy_look_us) &&
         std::equal(a.processors.begin(), a.processors.end(), b.processors.begin(),
                    b.processors.end(), same_processor);
}

void expect_sound(const Parsed& parsed) {
  if (!parsed) return expect_told(parsed.error());
  const Config& config = *parsed;
  if (const auto valid = config.validate(); !valid) {
    expect_told(valid.error());
    expect(valid.error().reason_code == ReasonCode::contradiction && !config.require.empty(),
           "what was read is valid, unless a required engine has no place", valid.error().reason);
  }
  const std::string xml = config.to_xml();
  expect_same(Config::parse_xml(xml, {}), config, xml);
  const std::string text = text_of(config);
  if (!text.empty()) expect_same(Config::parse(text, {}), config, text);
}

Config program_config() {
  Config config;
  config.handles_max = 4'096;
  config.prefer = {"io_uring"};
  config.processors = {{.operations = file_operations, .engine = "io_uring"},
                       {.engine = "emulated", .wait = "poll", .mode = Mode::dedicated}};
  return config;
}

}  // namespace baton::fuzz
