// Waits that are cancellation points (pthread_cancel), as aio_suspend is.
//
// They are in a file of their own, without objects that have destructors: a cancellation may come
// at any instruction there, and a frame with something to clean up would end the process instead.
#pragma once

namespace uaio {

/// The system call by that number; -1 with errno.
long cancellable_call(long number, long first, long second, long third, long fourth, long fifth,
                      long sixth);

}  // namespace uaio
