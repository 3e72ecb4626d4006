// refused: this range holds pointers, views or buffers
#include <baton/stream_socket.hpp>
#include <string_view>
#include <vector>

std::error_code start(baton::StreamSocket& socket, std::vector<std::string_view>& texts) {
#ifdef BATON_TEST_MISUSE
  return socket.write_all(texts, [](baton::Operation&) {});
#else
  return socket.write_all(texts.front(), [](baton::Operation&) {});
#endif
}
