#include "server.hpp"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "../output.hpp"

namespace baton::tools {
namespace {

// Blocks of the pool. A session holds one only from a read to the end of its write, so few do at
// once. A session that finds none takes a block of its own.
constexpr std::size_t pool_blocks = 1024;

}  // namespace

EchoServer::EchoServer(Proactor& proactor, const EchoOptions& options)
    : proactor_(proactor),
      options_(options),
      pool_(options.pooled ? std::make_unique<BufferPool>(options.block, pool_blocks) : nullptr) {
  plan_.set(options.work);
}

DatagramSocket& EchoServer::take(DatagramSocket socket) {
  datagrams_ = std::move(socket);
  return datagrams_;
}

void EchoServer::session_opened() {
  accepted_.fetch_add(1, std::memory_order_relaxed);
  open_.fetch_add(1, std::memory_order_relaxed);
}

void EchoServer::add(const Traffic& traffic) {
  messages_.fetch_add(traffic.messages, std::memory_order_relaxed);
  bytes_.fetch_add(traffic.bytes, std::memory_order_relaxed);
}

void EchoServer::session_closed(const Traffic& traffic) {
  add(traffic);
  const bool last = open_.fetch_sub(1) == 1;
  if (last && options_.until_empty) drain();
  if (last) end_if_empty();
}

void EchoServer::note_lack_of_memory() noexcept {
  note_text("baton echo: a connection ended: not enough memory\n");
}

void EchoServer::ended(std::error_code error) {
  if (draining_.exchange(true)) return;
  error_ = error;
  begin_drain();
}

// --- ending -------------------------------------------------------------------------------------

std::error_code EchoServer::block_signals() { return SignalSet::block({SIGTERM, SIGINT}); }

std::error_code EchoServer::watch_signals() {
  auto signals = SignalSet::open(proactor_, {SIGTERM, SIGINT});
  if (!signals) return signals.error();
  signals_ = std::move(*signals);
  signal_operation_.set_tag(signal_tag);
  return wait_for_signal();
}

std::error_code EchoServer::wait_for_signal() {
  return signals_.wait(signal_operation_, signal_, [this](Operation&) { on_signal(); });
}

void EchoServer::on_signal() {
  if (const auto error = signal_operation_.error()) {
    // Without its signals the server could not be ended, so it ends now.
    if (error != std::errc::operation_canceled) ended(error);
    return;
  }
  if (draining_) return proactor_.stop();
  // Waits again before the drain begins, because the drain ends that wait.
  if (wait_for_signal()) return proactor_.stop();
  drain();
}

void EchoServer::drain() {
  if (!draining_.exchange(true)) begin_drain();
}

void EchoServer::begin_drain() {
  const auto length =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options_.drain_seconds));
  proactor_.drain(Deadline::after(length, proactor_.now()));
  if (datagrams_.is_open()) datagrams_.cancel();
  end_if_empty();
}

void EchoServer::end_at_once() {
  draining_ = true;
  proactor_.restart();
  proactor_.drain(Deadline::immediately());
}

// A drain waits for everything that is pending, and so would wait for a second signal, too. Called
// by the thread that begins the drain and by the one that closes the last session. The later of the
// two sees the writes of the other (both orders are sequentially consistent).
void EchoServer::end_if_empty() {
  if (draining_ && open_ == 0) signals_.cancel();
}

std::string EchoServer::statistics() const {
  return fmt::format("accepted {}\nmessages {}\nbytes {}\n{}", accepted_.load(), messages_.load(),
                     bytes_.load(), proactor_.statistics().to_string());
}

}  // namespace baton::tools
