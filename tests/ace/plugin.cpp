// A plugin that uses ACE and brings libACE into a program that has none (preload_test.py).
#include "talk.hpp"

/// Prints "echoed N, timers N" twice and "left the loop"; 0 if all went well.
extern "C" __attribute__((visibility("default"))) int run_plugin() {
  ACE_Proactor own;
  if (talk(*ACE_Proactor::instance()) != 0 || talk(own) != 0) return 1;
  if (own.proactor_end_event_loop() != 0 || own.proactor_run_event_loop() != 0) return 1;
  std::printf("left the loop\n");
  return std::fflush(stdout);
}
