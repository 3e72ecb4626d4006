// The echo on Asio as its own examples write it: a session that keeps itself alive, read_some and
// write, one io_context. Built twice: on epoll, and on io_uring (ASIO's switches for that).
// --threads: so many threads in run(); --contexts 1: one io_context for each of them instead,
// sessions dealt out in turn.
#include <utility>  // before Asio: that of Boost 1.74 forgets it

#include <atomic>
#include <boost/asio.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "rivals/rival.hpp"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;

std::atomic<unsigned long long> messages{0};
handler_work::Plan plan;

template <class Socket>
class Session : public std::enable_shared_from_this<Session<Socket>> {
 public:
  Session(Socket socket, lock_step::Peers& peers)
      : socket_(std::move(socket)), peers_(peers), block_(peers.block()) {}
  void start() { read(); }

 private:
  void read() {
    socket_.async_read_some(
        asio::buffer(block_),
        [self = this->shared_from_this()](boost::system::error_code error, std::size_t size) {
          if (!error) self->write(size);
        });
  }
  void write(std::size_t size) {
    work_();
    asio::async_write(
        socket_, asio::buffer(block_.data(), size),
        [self = this->shared_from_this()](boost::system::error_code error, std::size_t) {
          if (error) return;
          ++self->messages_;
          if (self->peers_.present()) self->peers_.answered();
          self->read();
        });
  }

 public:
  ~Session() { messages.fetch_add(messages_, std::memory_order_relaxed); }

 private:
  Socket socket_;
  lock_step::Peers& peers_;
  std::vector<char> block_;
  handler_work::Work work_ = plan.next();
  unsigned long long messages_ = 0;
};

class Server {
 public:
  Server(lock_step::Peers& peers, std::size_t contexts, int threads) : peers_(peers) {
    for (std::size_t i = 0; i < contexts; ++i) {
      contexts_.push_back(std::make_unique<asio::io_context>(contexts > 1 ? 1 : threads));
    }
  }
  asio::io_context& first() { return *contexts_.front(); }

  void serve(int listener, int threads) {
    tcp::acceptor acceptor(first(), tcp::v4(), listener);
    asio::signal_set ending(first(), SIGTERM, SIGINT);
    ending.async_wait([this](boost::system::error_code, int) {
      for (auto& context : contexts_) context->stop();
    });
    accept(acceptor);
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) {
      asio::io_context& context = *contexts_[static_cast<std::size_t>(i) % contexts_.size()];
      others.emplace_back([&context] {
        const auto work = asio::make_work_guard(context);
        context.run();
      });
    }
    first().run();
    for (auto& other : others) other.join();
  }

 private:
  void accept(tcp::acceptor& acceptor) {
    asio::io_context& home = *contexts_[next_++ % contexts_.size()];
    acceptor.async_accept(home, [&](boost::system::error_code error, tcp::socket peer) {
      if (!error) {
        peer.set_option(tcp::no_delay(true));
        std::make_shared<Session<tcp::socket>>(std::move(peer), peers_)->start();
      }
      accept(acceptor);
    });
  }

  lock_step::Peers& peers_;
  std::vector<std::unique_ptr<asio::io_context>> contexts_;
  std::size_t next_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();
  lock_step::Peers peers(argc, argv);
  if (peers.present()) {
    asio::io_context context{1};
    for (const int fd : peers.sessions()) {
      stream_protocol::socket socket(context, stream_protocol(), fd);
      std::make_shared<Session<stream_protocol::socket>>(std::move(socket), peers)->start();
    }
    peers.begin();
    context.run();
  }
  plan.set(rival::work_of(argc, argv));
  const int threads = static_cast<int>(lock_step::number(argc, argv, "--threads", 1));
  const bool several = lock_step::number(argc, argv, "--contexts", 0) != 0;
  {
    Server server(peers, several ? static_cast<std::size_t>(threads) : 1, threads);
    server.serve(rival::listen_on(lock_step::number(argc, argv, "--port", 0)), threads);
  }
  rival::print_statistics("asio", messages.load());
}
