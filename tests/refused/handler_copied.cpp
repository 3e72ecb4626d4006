// refused: storing this handler may throw: pass it by std::move
#include <baton/stream_socket.hpp>
#include <string>
#include <utility>

std::error_code start(baton::StreamSocket& socket, baton::MutableBuffer buffer) {
  std::string text{"copied with the handler"};
  auto handler = [text](baton::Operation&) {};
#ifdef BATON_TEST_MISUSE
  return socket.read(buffer, handler);
#else
  return socket.read(buffer, std::move(handler));
#endif
}
