// refused: give it a name, a temporary is gone before
#include <array>
#include <baton/stream_socket.hpp>

std::error_code start(baton::StreamSocket& socket, baton::Operation& operation,
                      baton::ConstBuffer head, baton::ConstBuffer body) {
#ifdef BATON_TEST_MISUSE
  return socket.write_all_vectored(operation, std::array<baton::ConstBuffer, 2>{head, body});
#else
  static std::array<baton::ConstBuffer, 2> list;
  list = {head, body};
  return socket.write_all_vectored(operation, list);
#endif
}
