// refused: says what it inherits
#include <baton/stream_socket.hpp>
#include <coroutine>

struct Coroutine {
  struct promise_type {
    Coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
#ifndef BATON_TEST_MISUSE
    [[nodiscard]] const baton::TaskContext* task_context() const noexcept { return nullptr; }
#endif
  };
};

Coroutine read(baton::StreamSocket& socket, baton::MutableBuffer buffer) {
  auto got = co_await socket.read(buffer);
  static_cast<void>(got);
}
