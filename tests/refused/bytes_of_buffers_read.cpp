// refused: give a list of buffers to the _vectored form
#include <baton/stream_socket.hpp>
#include <vector>

std::error_code start(baton::StreamSocket& socket, std::vector<baton::MutableBuffer>& list) {
#ifdef BATON_TEST_MISUSE
  return socket.read(list, [](baton::Operation&) {});
#else
  return socket.read_vectored(list, [](baton::Operation&) {});
#endif
}
