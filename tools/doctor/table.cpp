#include "table.hpp"

#include <algorithm>

namespace baton::doctor {

OperationKinds socket_operations() {
  OperationKinds all = stream_operations;
  all |= accept_operations;
  all |= connect_operations;
  all |= datagram_operations;
  return all;
}

std::vector<OperationGroup> operation_groups() {
  return {{"stream", stream_operations},
          {"accept", accept_operations},
          {"connect", connect_operations},
          {"datagram", datagram_operations},
          {"file", file_operations}};
}

const char* to_string(Support support) {
  switch (support) {
    case Support::native:
      return "native";
    case Support::assisted:
      return "assisted";
    case Support::unsupported:
      break;
  }
  return "unavailable";
}

bool Row::available() const {
  return std::any_of(modes.begin(), modes.end(), [](const ModeAnswer& one) { return one.works; });
}

// An unsuitable mode is a weaker reason than a missing feature of the system.
const ModeAnswer& Row::refusal() const {
  static const ModeAnswer none;
  const ModeAnswer* found = nullptr;
  for (const ModeAnswer& one : modes) {
    if (one.works) continue;
    const bool weak = found == nullptr || found->code == to_string(ReasonCode::needs_one_thread);
    if (weak) found = &one;
  }
  return found != nullptr ? *found : none;
}

bool Row::works_in(Mode mode) const {
  return std::any_of(modes.begin(), modes.end(),
                     [mode](const ModeAnswer& one) { return one.mode == mode && one.works; });
}

bool Row::supports(OperationKinds kinds) const {
  return support_of(*this, kinds) != Support::unsupported;
}
bool Row::serves_sockets() const { return available() && supports(socket_operations()); }
bool Row::serves_files() const { return available() && supports(file_operations); }

std::string Row::name() const {
  std::string text = engine;
  if (!wait.empty()) text += "/" + wait;
  if (!variant.empty()) text += " " + variant;
  return text;
}

ProcessorConfig processor_of(const Row& row, Mode mode) {
  Config config;
  config.processors.emplace_back();
  if (!row.variant.empty()) {
    // A variant in the registry that is no setting is a fault of its engine. The engine's own
    // choice is shown then.
    if (auto parsed = Config::parse(row.variant, config)) config = std::move(*parsed);
  }
  ProcessorConfig& processor = config.processors.front();
  processor.engine = row.engine;
  if (!row.wait.empty()) processor.wait = row.wait;
  processor.mode = mode;
  return processor;
}

Support support_of(const Row& row, OperationKinds kinds) {
  Support least = Support::native;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    if (kinds.has(static_cast<OperationKind>(i))) least = std::min(least, row.support[i]);
  }
  return least;
}

void mark_avoided(std::vector<Row>& rows, const std::vector<KnownBad>& troubles) {
  const auto mark = [&](KnownBad::Level level) {
    for (const KnownBad& one : troubles) {
      if (one.level != level) continue;
      for (Row& row : rows) {
        const bool meant = one.about == "engine " + row.engine || one.about == "wait " + row.wait;
        if (meant && row.avoided.empty()) row.avoided = one.what;
      }
    }
  };
  const auto serves = [](const Row& row) { return row.avoided.empty() && row.serves_sockets(); };
  mark(KnownBad::Level::avoid);
  std::vector<Row> without_the_last = rows;
  rows.swap(without_the_last);
  mark(KnownBad::Level::last);
  // Then the last resort is used.
  if (std::none_of(rows.begin(), rows.end(), serves)) rows.swap(without_the_last);
}

}  // namespace baton::doctor
