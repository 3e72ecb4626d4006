// How this command was built, for reports of faults. The text contains no path of the machine that
// built it.
#pragma once

#include <string>

namespace baton::tools {

// Several lines, the first one "baton VERSION".
std::string version_text();

}  // namespace baton::tools
