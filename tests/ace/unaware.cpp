// A program that uses only ACE, run with the library preloaded: a full-duplex echo through
// ACE_Proactor::instance(), and an implementation of ACE that it passes in and deletes.
//
//  ace_unaware        prints "echoed N", "timers N" and "left N loops"; exits with 0
//   ace_unaware exit   a handler ends the program; exits with 5
//   ace_unaware beside the program ends while a handler runs in another thread; exits with 6
//   ace_unaware static the same, and its static proactor ends with it; exits with 7
//   ace_unaware after  a thread in the event loop goes on when libACE has ended; exits with 8
//   ace_unaware idle   the singleton's timer thread may not have begun; exits with 9
#include <ace/POSIX_CB_Proactor.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "talk.hpp"

namespace {

/// Of the program's own class: it stays.
class Derived : public ACE_POSIX_CB_Proactor {};

bool derived_one_stays() {
  auto* const mine = new Derived;
  const ACE_Proactor proactor(mine, true);
  return proactor.implementation() == mine;
}

/// Two threads in the event loop, which ends.
void run(ACE_Proactor& proactor) {
  std::atomic<int> left{0};
  const auto loop = [&] { left += proactor.proactor_run_event_loop() != -1 ? 1 : 0; };
  std::thread first{loop};
  std::thread second{loop};
  proactor.proactor_end_event_loop();
  first.join();
  second.join();
  std::printf("left %d loops\n", left.load());
}

/// Ends the program in its completion, or lasts.
class Ending : public ACE_Handler {
 public:
  explicit Ending(bool exits) : exits_(exits) {}
  void handle_time_out(const ACE_Time_Value&, const void*) override {
    if (exits_) std::exit(5);
    began = true;
    for (;;) ::pause();
  }
  std::atomic<bool> began{false};

 private:
  const bool exits_;
};

int end_the_program(ACE_Proactor& proactor, bool in_handler) {
  static Ending ending{in_handler};
  proactor.schedule_timer(ending, nullptr, ACE_Time_Value::zero);
  for (int i = 0; i < 2; ++i) {
    std::thread([&proactor] { proactor.proactor_run_event_loop(); }).detach();
  }
  if (in_handler) return proactor.proactor_run_event_loop();
  while (!ending.began) std::this_thread::yield();
  return 6;
}

int end_with_a_static_proactor() {
  static ACE_Proactor own(new ACE_POSIX_CB_Proactor, true);
  return end_the_program(own, false) + 1;
}

// A thread is between two calls of handle_events, in the loop's hook, while libACE ends. Then it
// goes on with a timer.
std::atomic<bool> between_calls{false};
std::atomic<bool> ace_has_ended{false};
std::atomic<bool> went_on{false};

class GoingOn : public ACE_Handler {
 public:
  void handle_time_out(const ACE_Time_Value&, const void* act) override {
    if (act != nullptr) went_on = true;
  }
};
GoingOn* going_on;

int hook(ACE_Proactor* proactor) {
  if (between_calls.exchange(true)) return 1;
  while (!ace_has_ended) std::this_thread::yield();
  proactor->schedule_timer(*going_on, going_on, ACE_Time_Value::zero);
  return 1;
}

int go_on_after_the_end() {
  going_on = new GoingOn;
  ACE_Proactor& proactor = *ACE_Proactor::instance();
  proactor.schedule_timer(*going_on, nullptr, ACE_Time_Value::zero);
  std::thread([&proactor] { proactor.proactor_run_event_loop(hook); }).detach();
  while (!between_calls) std::this_thread::yield();
  return 8;
}

void after_the_end(int, void*) {
  if (!between_calls) return;
  ace_has_ended = true;
  while (!went_on) std::this_thread::yield();
}

// The first function that is registered is the last one that exit() calls. So it is registered
// before libACE is initialised, which ends with the destructors of the shared libraries.
void before_all(int, char**, char**) { ::on_exit(after_the_end, nullptr); }
[[gnu::used, gnu::section(".preinit_array")]] void (*const first)(int, char**, char**) = before_all;

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "after") return go_on_after_the_end();
  if (how == "idle") return ACE_Proactor::instance() != nullptr ? 9 : 1;
  if (how == "static") return end_with_a_static_proactor();
  if (argc > 1) return end_the_program(*ACE_Proactor::instance(), how == "exit");
  if (talk(*ACE_Proactor::instance()) != 0) return 1;
  ACE_Proactor::close_singleton();
  ACE_Proactor own(new ACE_POSIX_CB_Proactor, true);
  if (talk(own) != 0) return 1;
  run(own);
  {
    ACE_POSIX_CB_Proactor kept;  // replaced, and not to be deleted
    const ACE_Proactor borrowing(&kept, false);
    if (borrowing.implementation() == &kept) return 1;
  }
  return derived_one_stays() ? 0 : 1;
}
