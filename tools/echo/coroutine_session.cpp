// The echo by coroutines.
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "baton/coro/scope.hpp"
#include "baton/coro/task.hpp"
#include "server.hpp"

namespace baton::tools {
namespace {

// Reports the end of a session to the server, also after an exception.
class Opened {
 public:
  explicit Opened(EchoServer& server) : server_(server) {
    server_.session_opened();
    if (server_.works()) work_ = server_.next_work();
  }
  ~Opened() { server_.session_closed(traffic_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  // A message has come.
  void count(std::size_t bytes) {
    server_.count_message(traffic_, bytes);
    work_();
  }

 private:
  EchoServer& server_;
  EchoServer::Traffic traffic_;
  handler_work::Work work_;
};

Task<void> session_with_own_block(EchoServer& server, StreamSocket& peer, Opened& opened) {
  const auto block = std::make_unique_for_overwrite<std::byte[]>(server.block());
  const MutableBuffer buffer{block.get(), server.block()};
  for (;;) {
    const auto received = co_await peer.read(buffer);
    if (!received || *received == 0) co_return;
    opened.count(*received);
    if (!co_await peer.write_all({block.get(), *received})) co_return;
  }
}

// True: data has arrived and no block is free.
Task<bool> session_with_pool(EchoServer& server, StreamSocket& peer, Opened& opened) {
  for (;;) {
    const auto block = co_await peer.read_pooled(*server.pool());
    if (!block) co_return block.error() == errc::pool_exhausted;
    const auto received = block->bytes();
    if (received.empty()) co_return false;
    opened.count(received.size());
    if (!co_await peer.write_all(received)) co_return false;
  }
}

Task<void> session(EchoServer& server, StreamSocket peer) {
  Opened opened(server);
  static_cast<void>(peer.set_option(option::NoDelay{}));  // UNIX sockets have none
  try {
    const bool alone = server.pool() == nullptr || co_await session_with_pool(server, peer, opened);
    if (alone) co_await session_with_own_block(server, peer, opened);
  } catch (const std::bad_alloc&) {
    EchoServer::note_lack_of_memory();
  }
}

// Without memory the peer sees the end of its connection.
void start_session(EchoServer& server, StreamSocket peer) try {
  server.proactor().spawn(session(server, std::move(peer)));
} catch (const std::bad_alloc&) {
  EchoServer::note_lack_of_memory();
}

Task<void> accept_one_by_one(EchoServer& server, Acceptor& acceptor) {
  for (;;) {
    auto peer = co_await acceptor.accept();
    if (!peer) {
      server.ended(peer.error());
      co_return;
    }
    start_session(server, std::move(*peer));
  }
}

Task<void> accept_all(EchoServer& server, Acceptor acceptor) {
  Scope scope(server.proactor(), {.strand = false});
  for (std::size_t i = 0; i < EchoServer::accepts_max; ++i) {
    scope.spawn(accept_one_by_one(server, acceptor));
  }
  co_await scope.join();
}

}  // namespace

void serve_by_coroutine(EchoServer& server, Acceptor acceptor) {
  server.proactor().spawn(accept_all(server, std::move(acceptor)));
}

}  // namespace baton::tools
