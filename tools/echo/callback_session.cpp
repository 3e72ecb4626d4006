// The echo by callbacks, on operations that the sessions own.
#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "server.hpp"

namespace baton::tools {
namespace {

// For handlers without work besides the echo. It takes no memory of a connection.
struct NoWork {
  void operator()() {}
};

// A session needs one operation, because it never reads and writes at the same time. It deletes
// itself when the last operation is complete.
template <typename Work>
class Session {
 public:
  static void start(EchoServer& server, StreamSocket peer, Work work) {
    auto* session = new Session(server, std::move(peer), work);
    server.session_opened();
    session->read();
  }

 private:
  Session(EchoServer& server, StreamSocket peer, Work work)
      : server_(server), peer_(std::move(peer)), work_(work) {
    static_cast<void>(peer_.set_option(option::NoDelay{}));  // UNIX sockets have none
    if (server.pool() == nullptr)
      own_ = std::make_unique_for_overwrite<std::byte[]>(server.block());
  }
  ~Session() { server_.session_closed(traffic_); }

  void read() {
    const auto handler = [this](Operation&) { on_read(); };
    const std::error_code error =
        own_ == nullptr
            ? peer_.read_pooled(operation_, *server_.pool(), handler)
            : peer_.read(operation_, MutableBuffer{own_.get(), server_.block()}, handler);
    if (error) delete this;
  }

  void on_read() {
    if (operation_.error() == errc::pool_exhausted) return read_alone();
    const ConstBuffer received{operation_.buffer().data, operation_.bytes()};
    if (operation_.failed() || received.size == 0) {
      delete this;  // a pooled read without data has no block
      return;
    }
    server_.count_message(traffic_, received.size);
    work_();
    if (peer_.write_all(operation_, received, [this](Operation&) { on_written(); })) {
      give_block_back(received.data);
      delete this;
    }
  }

  // Data has arrived and no block is free: from now on this session has its own.
  void read_alone() {
    own_.reset(new (std::nothrow) std::byte[server_.block()]);
    if (own_ == nullptr) {
      EchoServer::note_lack_of_memory();
      delete this;
      return;
    }
    read();
  }

  void on_written() {
    give_block_back(operation_.buffer().data);
    if (operation_.failed()) {
      delete this;
      return;
    }
    read();
  }

  // From the read to the end of the write the operation has the address of the block.
  void give_block_back(const void* block) {
    if (own_ == nullptr) server_.pool()->give(const_cast<void*>(block));
  }

  EchoServer& server_;
  StreamSocket peer_;
  EchoServer::Traffic traffic_;
  std::unique_ptr<std::byte[]> own_;  // null: blocks come from the pool
  [[no_unique_address]] Work work_;
  Operation operation_;
};

// Without memory the peer sees the end of its connection.
void start_session(EchoServer& server, StreamSocket peer) try {
  if (server.works()) {
    Session<handler_work::Work>::start(server, std::move(peer), server.next_work());
  } else {
    Session<NoWork>::start(server, std::move(peer), {});
  }
} catch (const std::bad_alloc&) {
  EchoServer::note_lack_of_memory();
}

// Accepts for ever, with several accepts pending; deletes itself when the last of them has ended.
class Accepting {
 public:
  Accepting(EchoServer& server, Acceptor acceptor)
      : server_(server), acceptor_(std::move(acceptor)) {}

  void start() {
    // Counted before the first start, because handlers may run while others are started.
    for (Operation& operation : operations_) accept(operation);
  }

 private:
  void accept(Operation& operation) {
    const auto handler = [this, &operation](Operation&) { on_accepted(operation); };
    if (const std::error_code error = acceptor_.accept(operation, handler)) end(error);
  }

  void on_accepted(Operation& operation) {
    auto peer = acceptor_.take(operation);
    if (!peer) return end(peer.error());
    EchoServer& server = server_;
    accept(operation);  // may delete this
    start_session(server, std::move(*peer));
  }

  void end(std::error_code error) {
    server_.ended(error);
    if (running_.fetch_sub(1) == 1) delete this;
  }

  EchoServer& server_;
  Acceptor acceptor_;
  std::array<Operation, EchoServer::accepts_max> operations_;
  std::atomic<std::size_t> running_{EchoServer::accepts_max};
};

}  // namespace

void serve_by_callback(EchoServer& server, Acceptor acceptor) {
  (new Accepting(server, std::move(acceptor)))->start();
}

}  // namespace baton::tools
