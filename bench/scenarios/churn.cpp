// Connections that live for one message: connect, send 64 bytes, read their echo, close; server and
// clients on one proactor, with one thread. Each message differs, and each echo is compared.
//
//   churn [--connections N] [--clients N] [--mode shared|dedicated|per_thread]
//
// BATON=engine=...,wait=... chooses the rest. Clients end a connection by a reset, so that no port
// is kept for a minute. Prints one line of JSON; exit status 1 if an echo was wrong, a connection
// failed, or a descriptor was left.
#include <dirent.h>

#include <array>
#include <cstring>
#include <utility>

#include "baton/baton.hpp"
#include "scenario.hpp"

namespace {

using Message = std::array<std::uint64_t, 8>;

std::size_t count_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

struct Run {
  baton::Proactor& proactor;
  baton::Endpoint where;
  std::uint64_t left;
  std::size_t clients;
  std::uint64_t wrong = 0;
  std::uint64_t failed = 0;
};

baton::Task<void> session(baton::StreamSocket peer) {
  std::array<std::byte, sizeof(Message)> buffer;
  for (;;) {
    const auto received = co_await peer.read(buffer);
    if (!received || *received == 0) break;
    if (!co_await peer.write_all({buffer.data(), *received})) break;
  }
  static_cast<void>(co_await peer.close());
}

baton::Task<void> serve(baton::Acceptor& acceptor) {
  while (auto peer = co_await acceptor.accept()) {
    acceptor.proactor().spawn(session(std::move(*peer)));
  }
}

baton::Task<bool> converse(Run& run, std::uint64_t number) {
  baton::Connector connector{run.proactor};
  auto peer = co_await connector.connect(run.where);
  if (!peer) co_return false;
  peer->set_option(baton::option::Linger{.enabled = true});
  Message sent;
  sent.fill(number * 0x9e37'79b9'7f4a'7c15U + 1);
  Message echoed{};
  const auto written = co_await peer->write_all(sent);
  const auto read = co_await peer->read_exactly(echoed);
  static_cast<void>(co_await peer->close());
  if (!written || !read) co_return false;
  if (echoed != sent) ++run.wrong;
  co_return true;
}

baton::Task<void> client(Run& run) {
  while (run.left > 0) {
    const std::uint64_t number = --run.left;
    if (!co_await converse(run, number)) ++run.failed;
  }
  if (--run.clients == 0) run.proactor.stop();
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](const char* name, const char* otherwise) {
    return std::strtoull(baton::bench::option(argc, argv, name, otherwise).c_str(), nullptr, 10);
  };
  const std::uint64_t connections = number("--connections", "1000000");
  const std::size_t clients = number("--clients", "64");
  const auto config =
      baton::bench::one_thread_config(baton::bench::option(argc, argv, "--mode", "per_thread"));
  if (!config) {
    std::fprintf(stderr, "churn: %s\n", config.error().reason.c_str());
    return 2;
  }
  const std::size_t descriptors = count_descriptors();
  double seconds = 0;
  std::uint64_t wrong = 0;
  std::uint64_t failed = 0;
  {
    baton::Proactor proactor{*config};
    auto acceptor = baton::Acceptor::listen(proactor, baton::Endpoint::loopback(0)).value();
    Run run{proactor, acceptor.local_endpoint().value(), connections, clients};
    proactor.spawn(serve(acceptor));
    for (std::size_t i = 0; i < clients; ++i) proactor.spawn(client(run));
    const auto begin = std::chrono::steady_clock::now();
    proactor.run();
    seconds = baton::bench::ns_since(begin) / 1e9;
    wrong = run.wrong;
    failed = run.failed;
  }
  const std::size_t left = count_descriptors() - descriptors;
  std::printf(
      "{\"program\": \"churn\", \"connections\": %llu, \"seconds\": %.2f, \"per_second\": %.0f, "
      "\"wrong\": %llu, \"failed\": %llu, \"descriptors_left\": %zu}\n",
      static_cast<unsigned long long>(connections), seconds,
      static_cast<double>(connections) / seconds, static_cast<unsigned long long>(wrong),
      static_cast<unsigned long long>(failed), left);
  baton::bench::write_out();
  return wrong == 0 && failed == 0 && left == 0 ? 0 : 1;
}
