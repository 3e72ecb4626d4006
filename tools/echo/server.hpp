// The echo server of `baton echo`: the state that its sessions share. A session reads a block,
// writes it back and reads again. The two styles, callback_session.cpp and coroutine_session.cpp,
// do the same and can be read side by side.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "../bench/handler_work.hpp"
#include "baton/acceptor.hpp"
#include "baton/buffer_pool.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/proactor.hpp"
#include "baton/signal_set.hpp"
#include "baton/stream_socket.hpp"

namespace baton::tools {

struct EchoOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string protocol = "tcp";  // or udp
  std::size_t block = 512;
  std::string style = "callback";
  bool pooled = false;         // idle connections hold no buffer
  bool until_empty = false;    // end with the last connection
  bool watched = false;        // another thread reads traffic() meanwhile
  handler_work::Options work;  // work of the handlers besides the echo
  double drain_seconds = 2;    // how long open connections may continue after SIGTERM

  bool datagrams() const { return protocol == "udp"; }
  bool works() const { return work.delay_us != 0 || work.random_us != 0 || work.slow_us != 0; }
};

class EchoServer {
 public:
  // Accepts that are pending at once. A busy engine visits the listener once a round, as any other
  // descriptor, and each visit accepts as many connections as there are accepts. With one accept, a
  // thousand connections would wait behind a thousand busy ones for seconds.
  static constexpr std::size_t accepts_max = 32;
  // Datagrams that the server handles at once, each with a block of its own.
  static constexpr std::size_t datagrams_max = 32;
  static constexpr std::size_t datagram_bytes_max = 65'535;  // the length field of UDP has 16 bits
  // Marks the wait for signals in a report of pending operations; those of sessions have tag 0.
  static constexpr std::uint32_t signal_tag = 1;

  EchoServer(Proactor& proactor, const EchoOptions& options);

  Proactor& proactor() const { return proactor_; }
  // The buffer of a session. No datagram is longer than datagram_bytes_max.
  std::size_t block() const {
    return options_.datagrams() ? std::min(options_.block, datagram_bytes_max) : options_.block;
  }
  // The pool of the sessions' blocks; null: each has its own block.
  BufferPool* pool() { return pool_.get(); }
  // The work of a new connection's handlers. Connections usually have none.
  bool works() const { return options_.works(); }
  handler_work::Work next_work() { return plan_.next(); }
  // The sockets for datagrams. A drain would wait for one more datagram at every receive, so it
  // cancels pending receives, and a thread that sees the drain starts no new one. A receive that
  // another thread starts at that moment ends at the drain's deadline.
  DatagramSocket& take(DatagramSocket socket);
  bool draining() const { return draining_; }

  // A session's counts of its connection's messages. They are kept in the session and added up when
  // it ends, because counters that all threads write would cost more than the echo. With --watch
  // they are added up with each message.
  struct Traffic {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };
  void count_message(Traffic& traffic, std::size_t bytes) {
    ++traffic.messages;
    traffic.bytes += bytes;
    if (options_.watched) add(std::exchange(traffic, Traffic{}));
  }
  // The counts of sessions that have ended; watched: of all.
  Traffic traffic() const { return {messages_.load(), bytes_.load()}; }
  std::uint64_t connections() const { return open_.load(); }
  void session_opened();
  void session_closed(const Traffic& traffic);
  // A connection ends alone, because there is no memory for it; the server goes on.
  static void note_lack_of_memory() noexcept;
  // Adds the counts made without --watch.
  void add(const Traffic& traffic);
  // Called when the acceptor, the socket of the datagrams or the wait for signals has failed.
  void ended(std::error_code error);

  // Called before the first thread is started, so that SIGTERM and SIGINT come as completions.
  static std::error_code block_signals();
  // From now on the first signal drains the server and a second one stops it.
  std::error_code watch_signals();

  // Sessions, accepts and the wait for signals end in the next run(), whatever their peers do.
  // Called after run() has returned, before the server is destroyed.
  void end_at_once();

  std::string statistics() const;
  std::error_code error() const { return error_; }

 private:
  std::error_code wait_for_signal();
  void on_signal();
  void drain();
  void begin_drain();
  void end_if_empty();

  Proactor& proactor_;
  const EchoOptions& options_;
  std::unique_ptr<BufferPool> pool_;
  handler_work::Plan plan_;
  DatagramSocket datagrams_;
  std::error_code error_;
  SignalSet signals_;
  SignalInfo signal_;
  Operation signal_operation_;
  std::atomic<bool> draining_{false};
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> open_{0};
  std::atomic<std::uint64_t> messages_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

// Starts accepting; each connection becomes a session. The drain ends the acceptor's operations.
void serve_by_callback(EchoServer& server, Acceptor acceptor);
void serve_by_coroutine(EchoServer& server, Acceptor acceptor);

// The same over UDP, without connections: each datagram goes back to its sender.
void serve_datagrams_by_callback(EchoServer& server, DatagramSocket socket);
void serve_datagrams_by_coroutine(EchoServer& server, DatagramSocket socket);

}  // namespace baton::tools
