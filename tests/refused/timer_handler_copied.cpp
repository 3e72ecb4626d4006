// refused: storing this handler may throw: pass it by std::move
#include <baton/timer.hpp>
#include <chrono>
#include <string>
#include <utility>

std::error_code start(baton::Timer& timer) {
  std::string text{"copied with the handler"};
  auto handler = [text](baton::Operation&) {};
#ifdef BATON_TEST_MISUSE
  return timer.wait_for(std::chrono::seconds(1), handler);
#else
  return timer.wait_for(std::chrono::seconds(1), std::move(handler));
#endif
}
