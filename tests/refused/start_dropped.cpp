// refused: ignoring return value
#include <baton/stream_socket.hpp>

void start(baton::StreamSocket& socket, baton::MutableBuffer buffer) {
#ifdef BATON_TEST_MISUSE
  socket.read(buffer, [](baton::Operation&) {});
#else
  static_cast<void>(socket.read(buffer, [](baton::Operation&) {}));
#endif
}
