// baton::ace::TimerQueue: ACE's own timer heap, without a race of ACE's timer thread.
//
// The timer thread of ACE_Proactor asks its queue whether it is empty and when the earliest timer
// is due, and ACE's queues read both without their lock. Meanwhile schedule_timer may replace the
// heap, so that the thread reads freed memory. This queue takes its lock for both.
//
//   baton::ace::TimerQueue timers;                                       // first, so it goes last
//   ACE_Proactor proactor(new baton::ace::Proactor, true, &timers);
//
// The program owns the queue: delete it after its ACE_Proactor. One queue serves one proactor. The
// preloaded library (baton-ace) brings one to every proactor that has no queue of its own.
//
// Threads: any thread may call every function, as with ACE's own queue.
#pragma once

#include <ace/Guard_T.h>
#include <ace/Proactor.h>
#include <ace/Recursive_Thread_Mutex.h>
#include <ace/Timer_Heap_T.h>

namespace baton::ace {

/// Takes timers as long as there is memory; grows as ACE's heap does.
class TimerQueue : public ACE_Timer_Heap_T<ACE_Handler*, ACE_Proactor_Handle_Timeout_Upcall,
                                           ACE_SYNCH_RECURSIVE_MUTEX> {
 public:
  [[nodiscard]] bool is_empty() const override {
    const Guard guard{lock()};
    return Heap::is_empty();
  }

  /// When the earliest timer is due; zero if there is none any more, because another thread may
  /// have cancelled it since the call of is_empty(). The reference stays valid until the calling
  /// thread's next call, even if the timer is gone by then.
  [[nodiscard]] const ACE_Time_Value& earliest_time() const override {
    thread_local ACE_Time_Value earliest;
    const Guard guard{lock()};
    earliest = Heap::is_empty() ? ACE_Time_Value::zero : Heap::earliest_time();
    return earliest;
  }

 private:
  using Heap =
      ACE_Timer_Heap_T<ACE_Handler*, ACE_Proactor_Handle_Timeout_Upcall, ACE_SYNCH_RECURSIVE_MUTEX>;
  using Guard = ACE_Guard<ACE_SYNCH_RECURSIVE_MUTEX>;
  [[nodiscard]] ACE_SYNCH_RECURSIVE_MUTEX& lock() const {
    return const_cast<TimerQueue*>(this)->mutex_;
  }
};

}  // namespace baton::ace
