// The version as linked, and the definition of the ABI tag that every program refers to.

#include "baton/version.hpp"

#define BATON_TEXT_EXPANDED(number) #number
#define BATON_TEXT(number) BATON_TEXT_EXPANDED(number)

namespace baton {

std::string_view version() noexcept {
  return BATON_TEXT(BATON_VERSION_MAJOR) "." BATON_TEXT(BATON_VERSION_MINOR) "." BATON_TEXT(
      BATON_VERSION_PATCH);
}

}  // namespace baton

// Empty on purpose: only its name is used, by the linker.
extern "C" void BATON_ABI_TAG() noexcept {}
