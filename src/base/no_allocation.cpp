// The one definition.
#include "base/no_allocation.hpp"

namespace baton {

constinit thread_local volatile int NoAllocation::depth = 0;

}  // namespace baton
