// refused: ignoring return value
#include <baton/timer.hpp>

void start(baton::Timer& timer) {
#ifdef BATON_TEST_MISUSE
  timer.wait_for(std::chrono::seconds(1), [](baton::Operation&) {});
#else
  static_cast<void>(timer.wait_for(std::chrono::seconds(1), [](baton::Operation&) {}));
#endif
}
