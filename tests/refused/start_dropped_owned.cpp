// refused: ignoring return value
#include <baton/file.hpp>

void start(baton::File& file, baton::Operation& operation, baton::ConstBuffer buffer) {
#ifdef BATON_TEST_MISUSE
  file.append_all(operation, buffer);
#else
  static_cast<void>(file.append_all(operation, buffer));
#endif
}
