// Machine: the conformance fixture in its own network and mount namespaces. Firewall rules and file
// systems are seen by this test only and vanish with its process.
#pragma once

#include <string>

#include "../conformance/proactor/operations.hpp"

namespace baton::machine {

class Machine : public conformance::Operations {
 protected:
  /// Skips the test, with the reason, where namespaces may not be made.
  void SetUp() override;

  /// A new folder, gone with the mount namespace.
  static std::string folder();
  /// Mounts a tmpfs of so many bytes, or fails the test.
  static void mount_small(const std::string& folder, std::size_t bytes);
  /// Runs a command with the shell; its status.
  static int shell(const std::string& command);
  /// Whether there is such a command.
  static bool has(const std::string& command) { return shell("command -v " + command) == 0; }
};

}  // namespace baton::machine
