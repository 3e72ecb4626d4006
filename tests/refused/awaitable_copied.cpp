// refused: deleted function
#include <baton/stream_socket.hpp>
#include <utility>

baton::Task<void> read(baton::StreamSocket& socket, baton::MutableBuffer buffer) {
  auto first = socket.read(buffer).timeout(std::chrono::seconds(1));
#ifdef BATON_TEST_MISUSE
  auto second = first;
#else
  auto second = std::move(first);
#endif
  static_cast<void>(co_await second);
}
