#include "waits.hpp"

#include <pthread.h>
#include <unistd.h>

namespace uaio {

long cancellable_call(long number, long first, long second, long third, long fourth, long fifth,
                      long sixth) {
  int before = PTHREAD_CANCEL_DEFERRED;
  // Acts at once on a cancellation that is pending.
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  const long answer = ::syscall(number, first, second, third, fourth, fifth, sixth);
  pthread_setcanceltype(before, nullptr);
  return answer;
}

}  // namespace uaio
