// The one definition.
#include "os/thread_locals.hpp"

namespace baton::os {

constinit thread_local ThreadLocals thread_locals;
constinit thread_local ThreadFacts thread_facts;

}  // namespace baton::os
