// Selects the parts of the registry that the suites run on. The project's own tests use all of
// them; the kit (kit/run_conformance.cpp) narrows the selection before GoogleTest makes its list.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace baton::conformance {

struct Selection {
  std::vector<std::string> engines;
  std::vector<std::string> wait_strategies;
  std::vector<std::string> interrupt_strategies;
  /// Engines of a program's own that take files only; Baton's own say so in the registry.
  std::vector<std::string> files_only;
  /// Likewise those that take everything else.
  std::vector<std::string> sockets_only;
  /// Parts of a program's own. Their system calls go past the table, where tests would see them.
  std::vector<std::string> foreign;
  bool pairwise = false;

  [[nodiscard]] bool everything() const {
    return engines.empty() && wait_strategies.empty() && interrupt_strategies.empty();
  }
  static bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  /// Is one of the two strategies selected?
  [[nodiscard]] bool either(const std::string& wait, const std::string& interrupt) const {
    return has(wait_strategies, wait) || has(interrupt_strategies, interrupt);
  }
};

inline Selection& selection() {
  static Selection chosen;
  return chosen;
}

}  // namespace baton::conformance
