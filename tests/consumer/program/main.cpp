// The smallest program of a user: prints the version of the library it runs with, and fails if that
// is not the one whose headers it was compiled with.

#include <baton/version.hpp>
#include <iostream>
#include <string>

int main() {
  const std::string compiled = std::to_string(BATON_VERSION_MAJOR) + "." +
                               std::to_string(BATON_VERSION_MINOR) + "." +
                               std::to_string(BATON_VERSION_PATCH);
  std::cout << "baton " << baton::version() << '\n';
  return baton::version() == compiled ? 0 : 1;
}
