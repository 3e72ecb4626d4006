// refused: objects that may not be copied as such
#include <baton/stream_socket.hpp>
#include <string>
#include <vector>

std::error_code start(baton::StreamSocket& socket, std::vector<std::string>& texts) {
#ifdef BATON_TEST_MISUSE
  return socket.read(texts, [](baton::Operation&) {});
#else
  return socket.read(texts.front(), [](baton::Operation&) {});
#endif
}
