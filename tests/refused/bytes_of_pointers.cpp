// refused: this range holds pointers, views or buffers
#include <baton/stream_socket.hpp>
#include <vector>

std::error_code start(baton::StreamSocket& socket, std::vector<const int*>& pointers,
                      std::vector<int>& numbers) {
#ifdef BATON_TEST_MISUSE
  return socket.write_all(pointers, [](baton::Operation&) {});
#else
  static_cast<void>(pointers);
  return socket.write_all(numbers, [](baton::Operation&) {});
#endif
}
