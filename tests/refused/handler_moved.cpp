// refused: moving this handler may throw
#include <baton/stream_socket.hpp>
#include <deque>
#include <memory>
#include <utility>

std::error_code start(baton::StreamSocket& socket, baton::MutableBuffer buffer) {
#ifdef BATON_TEST_MISUSE
  struct Handler {
    Handler() = default;
    Handler(const Handler&) noexcept {}
    Handler(Handler&&) noexcept(false) {}
    void operator()(baton::Operation&) {}
  };
  const Handler handler;
  return socket.read(buffer, handler);
#else
  auto queue = std::make_unique<std::deque<int> >();
  return socket.read(buffer, [queue = std::move(queue)](baton::Operation&) {});
#endif
}
