// refused: give it a name, a temporary is gone before
#include <array>
#include <baton/datagram_socket.hpp>

std::error_code start(baton::DatagramSocket& socket, std::array<baton::ConstBuffer, 2>& list) {
#ifdef BATON_TEST_MISUSE
  return socket.write_vectored(std::array<baton::ConstBuffer, 2>(list), [](baton::Operation&) {});
#else
  return socket.write_vectored(list, [](baton::Operation&) {});
#endif
}
