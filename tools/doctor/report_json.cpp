// The report for programs. Later versions may add fields, but a field keeps its meaning.
#include <fmt/format.h>

#include <cmath>

#include "../json.hpp"
#include "baton/version.hpp"
#include "report.hpp"

namespace baton::doctor {
namespace {

using tools::json_array;
using tools::json_lines;
using tools::json_object;
using tools::json_string;
using tools::json_strings;

std::string boolean(bool value) { return value ? "true" : "false"; }
// Whole numbers (limits, counts) exactly; measurements with their significant digits.
std::string number(double value) {
  constexpr double exact_max = 9007199254740992.0;  // 2^53: up to here each has its own double
  if (!std::isfinite(value)) return "null";
  const bool whole = std::trunc(value) == value && std::abs(value) <= exact_max;
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value);
}

std::string facts_json(const Facts& facts) {
  std::vector<std::string> list;
  for (const Fact& one : facts.all()) {
    list.push_back(json_object({{"name", json_string(one.name)},
                                {"text", json_string(one.text)},
                                {"number", one.number ? number(*one.number) : "null"}}));
  }
  return json_lines(list);
}

std::string calls_json(const std::vector<CallAnswer>& calls) {
  std::vector<std::string> list;
  for (const CallAnswer& one : calls) {
    list.push_back(json_object({{"call", json_string(one.name)},
                                {"engine", json_string(one.engine)},
                                {"answer", json_string(to_string(one.kind))},
                                {"text", json_string(one.text)}}));
  }
  return json_lines(list);
}

std::string feature_json(const Feature& one) {
  return json_object({{"there", boolean(one.there)}, {"text", json_string(one.text)}});
}

std::string file_system_json(const std::optional<FileSystem>& f) {
  if (!f) return "null";
  return json_object({{"directory", json_string(f->folder)},
                      {"type", json_string(f->type)},
                      {"block", fmt::format("{}", f->block)},
                      {"direct_alignment", fmt::format("{}", f->alignment)},
                      {"direct", feature_json(f->direct)},
                      {"nowait", feature_json(f->nowait)}});
}

std::string troubles_json(const std::vector<KnownBad>& troubles) {
  std::vector<std::string> list;
  for (const KnownBad& one : troubles) {
    list.push_back(json_object({{"when", json_string(one.when)},
                                {"about", json_string(one.about)},
                                {"level", json_string(to_string(one.level))},
                                {"what", json_string(one.what)},
                                {"consequence", json_string(one.consequence)},
                                {"advice", json_string(one.advice)},
                                {"source", json_string(one.source)}}));
  }
  return json_lines(list);
}

// Each kind of operation that engines carry out. In an unavailable row all are unavailable.
std::string operations_json(const Row& row) {
  std::string text = "{";
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const auto kind = static_cast<OperationKind>(i);
    if (kind == OperationKind::timer || kind == OperationKind::user) continue;
    text += fmt::format("{}{}: {}", i > 0 ? ", " : "", json_string(to_string(kind)),
                        json_string(to_string(row.support[i])));
  }
  return text + "}";
}

std::string answer_json(const ModeAnswer& one) {
  return json_object({{"works", boolean(one.works)},
                      {"reason", json_string(one.reason)},
                      {"code", json_string(one.code)}});
}

// The value of BATON that chooses the row.
std::string settings_of(const Row& row) {
  std::string text = "engine=" + row.engine;
  if (!row.wait.empty()) text += ",wait=" + row.wait;
  if (!row.variant.empty()) text += "," + row.variant;
  return text;
}

std::string table_json(const std::vector<Row>& rows) {
  std::vector<std::string> list;
  for (const Row& row : rows) {
    std::string answers = "{";
    for (const ModeAnswer& one : row.modes) {
      answers += fmt::format("{}{}: {}", answers.size() > 1 ? ", " : "",
                             json_string(to_string(one.mode)), answer_json(one));
    }
    const bool there = row.available();
    list.push_back(json_object({{"engine", json_string(row.engine)},
                                {"wait", json_string(row.wait)},
                                {"variant", json_string(row.variant)},
                                {"settings", json_string(settings_of(row))},
                                {"available", boolean(there)},
                                {"reason", json_string(there ? row.praise : row.refusal().reason)},
                                {"code", json_string(there ? "" : row.refusal().code)},
                                {"avoided", json_string(row.avoided)},
                                {"leader_rule", json_string(row.leader_rule)},
                                {"interrupt", json_string(row.interrupt)},
                                {"sockets", boolean(row.serves_sockets())},
                                {"files", boolean(row.serves_files())},
                                {"operations", operations_json(row)},
                                {"modes", answers + "}"},
                                {"notes", json_strings(row.notes)}}));
  }
  return json_lines(list);
}

std::string interrupts_json(const std::vector<InterruptRow>& rows) {
  std::vector<std::string> list;
  for (const InterruptRow& row : rows) {
    list.push_back(
        json_object({{"interrupt", json_string(row.name)},
                     {"available", boolean(row.answer.works)},
                     {"reason", json_string(row.answer.works ? row.praise : row.answer.reason)},
                     {"code", json_string(row.answer.code)}}));
  }
  return json_lines(list);
}

std::string series_json(const Measurement& measurement, const Series& series,
                        const std::vector<Row>& rows) {
  std::vector<std::string> rounds;
  std::vector<double> costs;
  for (const auto& round : series.rounds) {
    std::vector<std::string> numbers;
    for (const double value : round) numbers.push_back(number(value));
    rounds.push_back(json_array(numbers));
    costs.push_back(cost_of(measurement, round));
  }
  return json_object({{"name", json_string(series.name)},
                      {"settings", json_string(settings_of(rows[series.what.row]))},
                      {"mode", json_string(to_string(series.what.mode))},
                      {"team", boolean(series.processors.size() > 1)},
                      {"dropped", json_string(series.dropped)},
                      {"cost", costs.empty() ? "null" : number(median(costs))},
                      {"rounds", json_array(rounds)}});
}

std::string measurement_json(const Measurement& measurement, const std::vector<Row>& rows) {
  std::vector<std::string> measures;
  for (const Measure& one : measurement.measures) {
    measures.push_back(json_object({{"name", json_string(one.name)},
                                    {"unit", json_string(one.unit)},
                                    {"counts", boolean(one.counts)}}));
  }
  std::vector<std::string> series;
  for (const Series& one : measurement.series) {
    series.push_back(series_json(measurement, one, rows));
  }
  return json_object({{"seconds", number(measurement.seconds)},
                      {"measures", json_array(measures)},
                      {"series", json_lines(series)},
                      {"findings", json_strings(measurement.findings)}});
}

std::string choice_json(const std::optional<Choice>& choice, const Measurement& measurement,
                        const std::vector<Row>& rows) {
  if (!choice) return "null";
  std::vector<std::string> tied;
  for (const std::size_t i : choice->tied) tied.push_back(measurement.series[i].name);
  return json_object(
      {{"name", json_string(rows[choice->what.row].name())},
       {"settings", json_string(settings_of(rows[choice->what.row]))},
       {"mode", json_string(to_string(choice->what.mode))},
       {"measured", boolean(choice->series.has_value())},
       {"tied", json_strings(tied)},
       {"next", json_string(choice->next ? measurement.series[*choice->next].name : "")},
       {"next_ratio", choice->next ? number(choice->next_ratio.middle) : "null"}});
}

std::string recommendation_json(const Report& report) {
  const Recommendation& r = report.recommendation;
  return json_object({{"complete", boolean(r.complete)},
                      {"sockets", choice_json(r.sockets, report.sockets, report.rows)},
                      {"files", choice_json(r.files, report.files, report.rows)},
                      {"sentences", json_strings(r.sentences)},
                      {"processors", fmt::format("{}", r.config.processors.size())},
                      {"xml", json_string(r.complete ? r.config.to_xml() : "")}});
}

}  // namespace

std::string json_of(const Report& report) {
  const auto member = [](const char* name, const std::string& value) {
    return fmt::format(" {}: {}", json_string(name), value);
  };
  std::string out = "{\n";
  out += member("version", json_string(version())) + ",\n";
  out += member("seconds", number(report.seconds)) + ",\n";
  out += member("facts", facts_json(report.facts)) + ",\n";
  out += member("forbid", json_strings(report.policy.forbid)) + ",\n";
  out += member("calls", calls_json(report.calls)) + ",\n";
  out += member("file_system", file_system_json(report.file_system)) + ",\n";
  out += member("known_bad", troubles_json(report.troubles)) + ",\n";
  out += member("findings", json_strings(report.findings)) + ",\n";
  out += member("table", table_json(report.rows)) + ",\n";
  out += member("interrupts", interrupts_json(report.interrupts)) + ",\n";
  out += member("sockets", measurement_json(report.sockets, report.rows)) + ",\n";
  out += member("files", measurement_json(report.files, report.rows)) + ",\n";
  out += member("recommendation", recommendation_json(report)) + "\n";
  return out + "}\n";
}

}  // namespace baton::doctor
