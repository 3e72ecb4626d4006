// Opens each combination in a child process. The child's output is lines of text: "ok" and the
// facts that the engine declares, or "no" with the reason.
#include <signal.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "baton/proactor.hpp"
#include "baton/registry.hpp"
#include "child.hpp"
#include "table.hpp"

namespace baton::doctor {
namespace {

constexpr double open_s_max = 10;

std::string refused(ReasonCode code, const std::string& reason) {
  return std::string("no\n") + to_string(code) + "\n" + reason + "\n";
}

std::string take_until(std::string_view& rest, char separator) {
  const auto end = std::min(rest.find(separator), rest.size());
  std::string part(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}
std::string take_line(std::string_view& rest) { return take_until(rest, '\n'); }

// Replacements in explain(): "processor 0: interrupt: eventfd -> pipe: ... [code]".
std::string replacements(std::string_view explanation) {
  constexpr std::string_view prefix = "processor 0: ";
  std::string found;
  while (!explanation.empty()) {
    const std::string line = take_line(explanation);
    if (!line.starts_with(prefix) || line.find(" mode=") != line.npos) continue;
    found += line.substr(prefix.size()) + "\n";
  }
  return found;
}

// In the child. The engine is required, so that no other replaces it.
std::string open_row(const Row& row, Mode mode, Config config) {
  config.processors = {processor_of(row, mode)};
  config.processors.front().threads = mode == Mode::per_thread ? 1 : 0;
  config.require = {row.engine};
  config.handles_max = limits::handles_chunk;
  const auto proactor = Proactor::open(config);
  if (!proactor) return refused(proactor.error().reason_code, proactor.error().reason);
  const EngineInfo info = (*proactor)->engines().front();
  std::string text = "ok\n";
  text += std::string(to_string(info.leader_rule)) + "\n";
  text += std::string(info.interrupt_name) + "\n";
  for (const Support support : info.support) text += static_cast<char>('0' + int(support));
  return text + "\n" + replacements((*proactor)->explain());
}

ModeAnswer died(Mode mode, const ChildEnd& end) {
  const bool filtered = end.killed && end.signal_number == SIGSYS;
  const ReasonCode code = filtered ? ReasonCode::denied_seccomp : ReasonCode::probe_failed;
  return {mode, false,
          filtered ? "a system-call filter ends every process that tries it"
                   : "the process that tried it: " + end.trouble,
          to_string(code)};
}

void take_answer(Row& row, Mode mode, std::string_view text) {
  if (take_line(text) != "ok") {
    const std::string code = take_line(text);
    row.modes.push_back({mode, false, take_line(text), code});
    return;
  }
  row.modes.push_back({mode, true, "", ""});
  const std::string rule = take_line(text);
  const std::string interrupt = take_line(text);
  const std::string support = take_line(text);
  // The row shows the most restrictive variant that a mode has opened.
  if (row.leader_rule.empty() || rule != "any") row.leader_rule = rule;
  if (row.interrupt.empty()) row.interrupt = interrupt;
  for (std::size_t i = 0; i < operation_kinds && i < support.size(); ++i) {
    row.support[i] = static_cast<Support>(support[i] - '0');
  }
  while (!text.empty()) {
    std::string note = take_line(text);
    if (std::find(row.notes.begin(), row.notes.end(), note) == row.notes.end()) {
      row.notes.push_back(std::move(note));
    }
  }
}

void probe_row(Row& row, const Config& policy) {
  for (const Mode mode : modes) {
    const auto& forbid = policy.forbid;
    if (std::find(forbid.begin(), forbid.end(), row.engine) != forbid.end()) {
      row.modes.push_back({mode, false, "forbidden by BATON_FORBID or a setting",
                           to_string(ReasonCode::forbidden)});
      continue;
    }
    const ChildEnd end = run_in_child([&] { return open_row(row, mode, policy); }, open_s_max);
    if (end.good) {
      take_answer(row, mode, end.text);
    } else {
      row.modes.push_back(died(mode, end));
    }
  }
}

}  // namespace

std::vector<Row> probe_table(const Config& policy) {
  // Only `forbid`: require and prefer concern the choice, not the inventory.
  Config forbidding;
  forbidding.forbid = policy.forbid;
  std::vector<Row> rows;
  const auto add = [&](const RegistryEntry<EngineFactory>& engine, const std::string& wait,
                       const std::string& variant, const std::string& praise) {
    Row row;
    row.engine = engine.name;
    row.wait = wait;
    row.variant = variant;
    row.praise = praise;
    probe_row(row, forbidding);
    rows.push_back(std::move(row));
  };
  for (const auto& engine : registry().engines()) {
    if (engine.only_by_name) continue;  // for tests: nothing to recommend
    if (engine.waits_by_strategy) {
      for (const auto& wait : registry().wait_strategies()) {
        add(engine, wait.name, "", wait.reason);
      }
      continue;
    }
    std::string_view rest = engine.variants;
    do {
      add(engine, "", take_until(rest, ' '), engine.reason);
    } while (!rest.empty());
  }
  return rows;
}

std::vector<InterruptRow> probe_interrupts() {
  std::vector<InterruptRow> rows;
  for (const auto& entry : registry().interrupt_strategies()) {
    InterruptRow row{entry.name, entry.reason, {}};
    const ChildEnd end = run_in_child(
        [&] {
          const auto opened = entry.factory(InterruptOptions{});
          return opened ? std::string("ok")
                        : refused(opened.error().reason_code, opened.error().reason);
        },
        open_s_max);
    if (!end.good) {
      row.answer = died(Mode::automatic, end);
    } else if (std::string_view text = end.text; take_line(text) == "ok") {
      row.answer.works = true;
    } else {
      row.answer.code = take_line(text);
      row.answer.reason = take_line(text);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace baton::doctor
