// The smallest program of a user. Prints the version of the library it runs with, and fails if that
// differs from the version of the headers.

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
