// The one definition.
#include "os/thread_locals.hpp"

namespace baton::os {

constinit thread_local ThreadLocals thread_locals;

}  // namespace baton::os
