// refused: give it a name, a temporary is gone before
#include <baton/file.hpp>
#include <vector>

baton::Task<void> read(baton::File& file, baton::MutableBuffer head, baton::MutableBuffer body) {
  std::vector<baton::MutableBuffer> list{head, body};
#ifdef BATON_TEST_MISUSE
  auto reading = file.read_vectored_at(0, std::vector<baton::MutableBuffer>(list));
#else
  auto reading = file.read_vectored_at(0, list);
#endif
  static_cast<void>(co_await reading);
}
