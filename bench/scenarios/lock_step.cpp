// The cost of a message in a program on Baton: an echo in lock-step (lock_step.hpp), written as
// its users would write it, by callbacks or by coroutines.
//
//   lock_step [--style callback|vectored|until|exactly|pooled|coroutine]
//             [--drive run|handle_events|attached] [--datagrams 1] [--second-thread 1]
//             --sessions N --block B --rounds R
//
// BATON=engine=...,wait=... and --mode MODE choose the rest.
#include "lock_step.hpp"

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "baton/baton.hpp"
#include "scenario.hpp"

namespace {

class Session {
 public:
  virtual ~Session() = default;
  virtual void read() = 0;
};

enum class Style : std::uint8_t { plain, vectored, until, exactly, pooled };

template <class Socket, Style style>
class SessionOn final : public Session {
 public:
  SessionOn(Socket peer, lock_step::Peers& peers)
      : peers_(peers), peer_(std::move(peer)), block_(peers.block()), pool_(peers.block(), 1) {}

  void read() override {
    const baton::MutableBuffer buffer{block_.data(), block_.size()};
    const auto done = [this](baton::Operation&) { on_read(); };
    if constexpr (style == Style::until) {
      static constexpr std::string_view delimiter = "x";  // the first byte of each message
      if (peer_.read_until(operation_, buffer, 0, delimiter, done)) std::abort();
    } else if constexpr (style == Style::exactly) {
      if (peer_.read_exactly(operation_, buffer, done)) std::abort();
    } else if constexpr (style == Style::pooled) {
      if (peer_.read_pooled(operation_, pool_, done)) std::abort();
    } else {
      if (peer_.read(operation_, buffer, done)) std::abort();
    }
  }

 private:
  void on_read() {
    if (operation_.failed() || operation_.bytes() == 0) return;
    baton::ConstBuffer received{block_.data(), operation_.bytes()};
    if constexpr (style == Style::pooled) {
      pooled_ = std::move(*Socket::take_pooled(operation_, pool_));
      received = {pooled_.bytes().data(), pooled_.bytes().size()};
    }
    const auto written = [this](baton::Operation&) { on_written(); };
    if constexpr (std::same_as<Socket, baton::DatagramSocket>) {
      if (peer_.write(operation_, received, written)) std::abort();
    } else if constexpr (style == Style::vectored) {
      const std::size_t half = received.size / 2;
      halves_ = {baton::ConstBuffer{block_.data(), half},
                 baton::ConstBuffer{block_.data() + half, received.size - half}};
      if (peer_.write_all_vectored(operation_, halves_, written)) std::abort();
    } else {
      if (peer_.write_all(operation_, received, written)) std::abort();
    }
  }
  void on_written() {
    if (operation_.failed()) return;
    if constexpr (style == Style::pooled) pooled_.reset();
    peers_.answered();
    read();
  }

  lock_step::Peers& peers_;
  Socket peer_;
  baton::Operation operation_;
  std::vector<std::byte> block_;
  std::array<baton::ConstBuffer, 2> halves_;
  baton::BufferPool pool_;
  baton::PooledBuffer pooled_;
};

template <class Socket, Style style = Style::plain>
bool serve_by_callbacks(baton::Proactor& proactor, int fd, lock_step::Peers& peers,
                        std::vector<std::unique_ptr<Session>>& sessions) {
  auto peer = Socket::adopt(proactor, fd);
  if (!peer) return false;
  sessions.push_back(std::make_unique<SessionOn<Socket, style>>(std::move(*peer), peers));
  sessions.back()->read();
  return true;
}

baton::Task<void> echo(baton::StreamSocket peer, lock_step::Peers& peers) {
  std::vector<std::byte> block(peers.block());
  for (;;) {
    const auto received = co_await peer.read({block.data(), block.size()});
    if (!received || *received == 0) co_return;
    if (!co_await peer.write_all({block.data(), *received})) co_return;
    peers.answered();
  }
}

}  // namespace

int main(int argc, char** argv) {
  // The C library goes another way in a process that has had a second thread.
  if (lock_step::number(argc, argv, "--second-thread", 0) != 0) std::thread{[] {}}.join();
  lock_step::Peers peers(argc, argv);
  const auto config =
      baton::bench::one_thread_config(baton::bench::option(argc, argv, "--mode", "per_thread"));
  if (!config) {
    std::fprintf(stderr, "lock_step: %s\n", config.error().reason.c_str());
    return 2;
  }
  const std::string style = baton::bench::option(argc, argv, "--style", "callback");
  auto* serve = serve_by_callbacks<baton::StreamSocket>;
  if (style == "vectored") serve = serve_by_callbacks<baton::StreamSocket, Style::vectored>;
  if (style == "until") serve = serve_by_callbacks<baton::StreamSocket, Style::until>;
  if (style == "exactly") serve = serve_by_callbacks<baton::StreamSocket, Style::exactly>;
  if (style == "pooled") serve = serve_by_callbacks<baton::StreamSocket, Style::pooled>;
  if (lock_step::number(argc, argv, "--datagrams", 0) != 0) {
    serve = serve_by_callbacks<baton::DatagramSocket>;
  }
  baton::Proactor proactor{*config};
  std::vector<std::unique_ptr<Session>> sessions;
  for (const int fd : peers.sessions()) {
    if (style == "coroutine") {
      auto peer = baton::StreamSocket::adopt(proactor, fd);
      if (!peer) return 2;
      proactor.spawn(echo(std::move(*peer), peers));
    } else if (!serve(proactor, fd, peers, sessions)) {
      return 2;
    }
  }
  const std::string drive = baton::bench::option(argc, argv, "--drive", "run");
  peers.begin();
  if (drive == "run") proactor.run();
  std::optional<baton::Attachment> attached;
  if (drive == "attached") attached.emplace(proactor);
  for (;;) proactor.handle_events();
}
