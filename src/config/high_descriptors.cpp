// Separate from the text and XML forms, for libraries that read neither.
#include "os/high_descriptors.hpp"

#include "baton/config.hpp"

namespace baton {

const os::System* Config::high_descriptors() noexcept { return &os::high_system(); }
int Config::lowest_high_descriptor() noexcept { return os::high_number(); }

}  // namespace baton
