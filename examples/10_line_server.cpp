// 10: a small protocol server, tested in a simulated machine.
//
//   10_line_server              200 machines, each bad in its own way; prints what came of it
//   10_line_server --careless   the same with a server that takes what one read brings for a line
//
// A client says "add 12" and is told the sum of what it has added so far. Even if the network does
// - bytes in pieces, resets, clients that are refused - an answer that comes is the right one.
// When one is not, the seed is printed, and BATON_SIM_SEED=<seed> replays just that machine.

#include <array>
#include <baton/baton.hpp>
#include <baton/testing/simulation.hpp>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "command_line.hpp"

namespace {

using namespace std::chrono_literals;
using baton::testing::Simulation;

constexpr std::string_view end_of_line = "\n";
constexpr std::string_view command = "add ";

// -- the server -----------------------------------------------------------------------------------

std::string answer(std::string_view line, int& sum) {
  if (line.substr(0, command.size()) != command) return "what?\n";
  int number = 0;
  line.remove_prefix(command.size());
  std::from_chars(line.data(), line.data() + line.size(), number);
  sum += number;
  return std::to_string(sum) + "\n";
}

baton::Task<void> session(baton::StreamSocket peer) {
  std::array<char, 64> buffer;
  std::size_t filled = 0;
  int sum = 0;
  for (;;) {
    const auto received = co_await peer.read_until(buffer, filled, end_of_line);
    if (!received) co_return;
    std::string_view rest{buffer.data(), *received};
    for (std::size_t end = 0; (end = rest.find(end_of_line)) != rest.npos;
         rest.remove_prefix(end + 1)) {
      if (!co_await peer.write_all(answer(rest.substr(0, end), sum))) co_return;
    }
    std::memmove(buffer.data(), rest.data(), filled = rest.size());
  }
}

// The bug that everybody writes once.
baton::Task<void> careless_session(baton::StreamSocket peer) {
  std::array<char, 64> buffer;
  int sum = 0;
  for (;;) {
    const auto received = co_await peer.read(buffer);
    if (!received || *received == 0) co_return;
    if (!co_await peer.write_all(answer({buffer.data(), *received}, sum))) co_return;
  }
}

baton::Task<void> serve(baton::Acceptor acceptor, bool careless) {
  while (auto peer = co_await acceptor.accept()) {
    baton::Proactor& proactor = acceptor.proactor();
    proactor.spawn(careless ? careless_session(std::move(*peer)) : session(std::move(*peer)));
  }
}

// -- its clients, and what they check -------------------------------------------------------------

baton::Task<void> client(Simulation& here, baton::Connector connector, baton::Endpoint server) {
  auto peer = co_await connector.connect(server).timeout(2s);
  if (!peer) co_return;  // refused, or never answered
  int expected = 0;
  for (int i = 0; i < 20; ++i) {
    const int number = static_cast<int>(here.random(1'000));
    const std::string line = std::string{command} + std::to_string(number) + "\n";
    expected += number;
    if (!co_await peer->write_all(line).timeout(10s)) co_return;
    std::array<char, 32> buffer;
    const auto received = co_await peer->read_until(buffer, 0, end_of_line).timeout(10s);
    if (!received) co_return;  // reset, or too slow
    const std::string_view said{buffer.data(), *received};
    here.check(said == std::to_string(expected) + "\n",
               "told " + std::string{said.substr(0, said.size() - 1)} + ", not " +
                   std::to_string(expected));
  }
}

baton::Task<void> clients(Simulation& here, baton::Proactor& proactor, baton::Endpoint server) {
  baton::Scope all{proactor};
  for (int i = 0; i < 4; ++i) all.spawn(client(here, baton::Connector{proactor}, server));
  co_await all.join();
  proactor.stop();
}

}  // namespace

int main(int argc, char** argv) try {
  examples::at_most_or_exit(argc, argv, 1);
  const bool careless = argc > 1;
  if (careless && std::string_view{argv[1]} != "--careless") {
    std::fprintf(stderr, "'%s' is not --careless\n", argv[1]);
    return 2;
  }
  const auto result = baton::testing::simulate({.seeds = 200}, [careless](Simulation& here) {
    baton::Proactor proactor{here.config()};
    auto acceptor = baton::Acceptor::listen(proactor, baton::Endpoint::loopback(7007));
    if (!acceptor) return;  // a machine without descriptors
    const baton::Endpoint server = acceptor->local_endpoint().value();
    proactor.spawn(serve(std::move(*acceptor), careless));
    proactor.spawn(clients(here, proactor, server));
    here.start_thread([&] { proactor.run(); });
    proactor.run();
    here.join_threads();
  });
  std::printf("%llu machines, %llu failures, history %016llx\n",
              static_cast<unsigned long long>(result.seeds),
              static_cast<unsigned long long>(result.failures),
              static_cast<unsigned long long>(result.history));
  std::fputs(result.report.c_str(), stdout);
  return examples::flush_output() && result.ok() ? 0 : 1;
} catch (const std::exception& error) {
  return examples::failed(error);
}
