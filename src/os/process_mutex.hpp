// The lock of what belongs to the process and not to one proactor: lists of engines, of strategies
// and of threads. They are used when something is opened or ends, never while it runs.
#pragma once

#include "os/mutex.hpp"

namespace baton::os {

/// A fork waits until it is free. So no thread that the child lacks holds it there, and what it
/// guards is whole. REQUIRES of a holder: takes no lock that is held around a fork, and does not
/// fork. Defined beside the function that takes it.
extern Mutex process_mutex;

}  // namespace baton::os
