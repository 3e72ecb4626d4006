// The fairness scenario on Asio: its reactor operations (async_wait), one io_context for all
// threads.
#include <utility>  // before Asio: that of Boost 1.74 forgets it

#include <boost/asio.hpp>
#include <memory>

#include "arena.hpp"
#include "write_out.hpp"

namespace asio = boost::asio;

namespace {

struct Reader {
  asio::ip::tcp::socket socket;
  fairness::Counter& counter;
  std::size_t chunk;

  void wait() {
    socket.async_wait(asio::ip::tcp::socket::wait_read,
                      [this](const boost::system::error_code& error) {
                        if (error) return;
                        if (fairness::read_chunk(socket.native_handle(), chunk, counter)) wait();
                      });
  }
};

}  // namespace

int main(int argc, char** argv) {
  const fairness::Options options = fairness::parse(argc, argv);
  fairness::Arena arena(options.connections);
  std::vector<fairness::Counter> counters(options.connections);
  asio::io_context context(static_cast<int>(options.threads));
  std::vector<std::unique_ptr<Reader>> readers;
  for (std::size_t i = 0; i < options.connections; ++i) {
    readers.push_back(std::make_unique<Reader>(
        Reader{asio::ip::tcp::socket(context, asio::ip::tcp::v4(), ::dup(arena.sockets[i])),
               counters[i], options.chunk}));
    readers.back()->wait();
  }
  fairness::run(
      "asio", options, arena, counters, [&](std::size_t) { context.run(); },
      [&] { context.stop(); });
  baton::bench::write_out();
}
