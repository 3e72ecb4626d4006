// The table: each engine with each of its wait strategies, its support of each kind of operation,
// and the modes in which it works. It is found out by opening a proactor in a child process, as a
// program would. No engine is named here: the registry has the list.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "baton/config.hpp"
#include "baton/engine.hpp"
#include "known_bad.hpp"

namespace baton::doctor {

struct ModeAnswer {
  Mode mode = Mode::shared;
  bool works = false;
  std::string reason;  // why it does not work
  std::string code;    // the same, for scripts
};

struct Row {
  std::string engine;
  std::string wait;     // empty: the engine waits by itself
  std::string variant;  // further settings, "name=value"; empty: none
  std::string praise;   // the reason for its place in the registry
  std::array<Support, operation_kinds> support{};
  std::string leader_rule;
  std::string interrupt;
  std::vector<ModeAnswer> modes;
  std::vector<std::string> notes;  // replacements when it was opened
  std::string avoided;             // why it is not recommended although it works; empty: it can be

  bool available() const;
  // Why it is not available, from the mode with the most specific reason.
  const ModeAnswer& refusal() const;
  bool works_in(Mode mode) const;
  bool supports(OperationKinds kinds) const;
  bool serves_sockets() const;
  bool serves_files() const;
  // "emulated/epoll", "posix_aio notify=suspend".
  std::string name() const;
};

inline constexpr Mode modes[] = {Mode::shared, Mode::per_thread, Mode::dedicated};
// All operations on connections and datagrams, and the groups that are shown to people.
OperationKinds socket_operations();
struct OperationGroup {
  const char* name;
  OperationKinds kinds;
};
std::vector<OperationGroup> operation_groups();

// The configuration of one processor on a row; other settings have their defaults.
ProcessorConfig processor_of(const Row& row, Mode mode);
// "native", "assisted" or "unavailable".
const char* to_string(Support support);
// The weakest support in a group: native only if all its operations are native.
Support support_of(const Row& row, OperationKinds kinds);

// One row for each combination in the registry, opened under this policy. A forbidden engine is not
// opened.
std::vector<Row> probe_table(const Config& policy);
// Sets Row::avoided. A last resort is avoided if another row serves sockets.
void mark_avoided(std::vector<Row>& rows, const std::vector<KnownBad>& troubles);

// The interrupt strategies, each opened by itself.
struct InterruptRow {
  std::string name;
  std::string praise;
  ModeAnswer answer;
};
std::vector<InterruptRow> probe_interrupts();

}  // namespace baton::doctor
