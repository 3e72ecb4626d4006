// refused: give a list of buffers to the _vectored form
#include <array>
#include <baton/stream_socket.hpp>

std::error_code start(baton::StreamSocket& socket, std::array<baton::ConstBuffer, 2>& list) {
#ifdef BATON_TEST_MISUSE
  return socket.write_all(list, [](baton::Operation&) {});
#else
  return socket.write_all_vectored(list, [](baton::Operation&) {});
#endif
}
