// refused: ignoring return value
#include <baton/proactor.hpp>

void start(baton::Proactor& proactor) {
#ifdef BATON_TEST_MISUSE
  proactor.post([] {});
#else
  static_cast<void>(proactor.post([] {}));
#endif
}
