// 09: a team: one engine for files, another for accept, connect and datagrams.
//
//   09_team [PORT [FILE]]     prints "listening PORT"; then try: nc 127.0.0.1 PORT
//                             and: echo | nc -u 127.0.0.1 PORT
//
// A collector of lines: what is sent over a connection is appended to the file, and a datagram is
// answered with how many bytes that were. The sessions do not know that two engines work for them;
// an operation goes to the first processor of the team that takes its kind. This is the case for
// which a team was invented: a system whose AIO is good for disks and starves on sockets.

#include <array>
#include <baton/baton.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

#include "command_line.hpp"

namespace {

struct Collector {
  baton::File file;
  std::uint64_t bytes = 0;  // handlers run on one thread here
};

baton::Task<void> session(Collector& collector, baton::StreamSocket peer) {
  std::array<std::byte, 8192> buffer;
  for (;;) {
    const auto received = co_await peer.read(buffer);
    if (!received || *received == 0) co_return;
    // In the order of their start, those of other sessions included.
    const auto written = co_await collector.file.append_all({buffer.data(), *received});
    if (!written) {
      std::fprintf(stderr, "not written: %s\n", written.error().message().c_str());
      co_return;
    }
    collector.bytes += *written;
  }
}

baton::Task<void> collect(Collector& collector, baton::Acceptor acceptor) {
  while (auto peer = co_await acceptor.accept()) {
    acceptor.proactor().spawn(session(collector, std::move(*peer)));
  }
}

baton::Task<void> answer(const Collector& collector, baton::DatagramSocket socket) {
  std::array<std::byte, 64> question;
  baton::Endpoint peer;
  for (;;) {
    const auto asked = co_await socket.receive_from(question, peer);
    if (!asked && asked.error() == std::errc::operation_canceled) co_return;
    if (!asked) continue;
    const std::string text = std::to_string(collector.bytes) + "\n";
    static_cast<void>(co_await socket.send_to(text, peer));  // datagrams may be lost
  }
}

// The program's own suggestion; BATON and BATON_CONFIG may change it. The order is the order of
// choice, and here no kind is taken by both.
baton::Config team() {
  baton::ProcessorConfig files;
  files.operations = baton::file_operations;
  files.engine = "posix_aio";
  files.mode = baton::Mode::dedicated;  // its leader waits in aio_suspend, on a thread of its own
  baton::ProcessorConfig sockets;
  sockets.operations = baton::stream_operations;
  sockets.operations |= baton::accept_operations;
  sockets.operations |= baton::connect_operations;
  sockets.operations |= baton::datagram_operations;
  sockets.engine = "emulated";
  baton::Config config;
  config.processors = {files, sockets};
  return config;
}

template <class Value>
Value or_exit(baton::Result<Value> result, const char* what) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s: %s\n", what, result.error().message().c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) try {
  using baton::FileFlags;
  const std::uint16_t port = examples::port_or_exit(argc, argv, 2);
  const char* const path = argc > 2 ? argv[2] : "collected";

  baton::Proactor proactor{baton::Config::from_environment(team())};
  std::fprintf(stderr, "%s", proactor.explain().c_str());
  Collector collector{
      or_exit(baton::File::open(proactor, path, FileFlags::append | FileFlags::create), path)};
  auto acceptor =
      or_exit(baton::Acceptor::listen(proactor, baton::Endpoint::loopback(port)), "cannot listen");
  const baton::Endpoint here = acceptor.local_endpoint().value();
  auto socket = or_exit(baton::DatagramSocket::bind(proactor, here), "cannot bind");
  std::printf("listening %u\n", here.port());
  if (!examples::flush_output()) return 1;

  proactor.spawn(collect(collector, std::move(acceptor)));
  proactor.spawn(answer(collector, std::move(socket)));
  proactor.run();
} catch (const std::exception& error) {
  return examples::failed(error);
}
