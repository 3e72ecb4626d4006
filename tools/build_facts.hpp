// How this command was built, for reports of faults. Nothing of it names a place on the machine
// that built it.
#pragma once

#include <string>

namespace baton::tools {

// Several lines, the first one "baton VERSION".
std::string version_text();

}  // namespace baton::tools
