// The echo of datagrams on Asio as its own examples write it: one socket, one datagram after the
// other. Built twice, as the other echo: on epoll, and on io_uring.
#include <utility>  // before Asio: that of Boost 1.74 forgets it

#include <boost/asio.hpp>
#include <vector>

#include "rivals/rival.hpp"

namespace {

namespace asio = boost::asio;
using asio::ip::udp;

class Server {
 public:
  Server(asio::io_context& context, int socket, std::size_t block)
      : socket_(context, udp::v4(), socket), block_(block) {
    receive();
  }
  unsigned long long messages() const { return messages_; }

 private:
  void receive() {
    socket_.async_receive_from(asio::buffer(block_), peer_,
                               [this](boost::system::error_code error, std::size_t size) {
                                 if (error == asio::error::operation_aborted) return;
                                 if (error) return receive();
                                 ++messages_;
                                 send(size);
                               });
  }
  void send(std::size_t size) {
    socket_.async_send_to(asio::buffer(block_.data(), size), peer_,
                          [this](boost::system::error_code, std::size_t) { receive(); });
  }

  udp::socket socket_;
  udp::endpoint peer_;
  std::vector<char> block_;
  unsigned long long messages_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  asio::io_context context{1};
  asio::signal_set ending(context, SIGTERM, SIGINT);
  ending.async_wait([&context](boost::system::error_code, int) { context.stop(); });
  const Server server(context, rival::datagrams_on(lock_step::number(argc, argv, "--port", 0)),
                      lock_step::number(argc, argv, "--block", 512));
  context.run();
  rival::print_statistics("asio_udp", server.messages());
}
