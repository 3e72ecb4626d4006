// One thread of the load with its share of the connections and an epoll of its own.
//
// A plain epoll loop on purpose: with the measured library on both sides, a fault of the library
// could hide itself.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "errors.hpp"
#include "histogram.hpp"
#include "options.hpp"
#include "pattern.hpp"
#include "session.hpp"

namespace baton::tools {

std::uint64_t monotonic_ns();

// The address to connect to, and the local addresses.
struct LoadTarget {
  sockaddr_storage address{};
  socklen_t address_size = 0;
  // The number of addresses 127.0.0.1, 127.0.0.2, ... to connect from, in turn; 0: the system
  // chooses. Towards one server, an address has as many ports as the ephemeral range.
  unsigned source_count = 0;
};

struct WorkerResult {
  std::uint64_t messages = 0;        // completed in the measured part
  std::uint64_t bytes = 0;           // returned in the measured part
  std::uint64_t messages_total = 0;  // including those that completed after its end
  std::vector<std::uint64_t> session_messages;
  std::size_t silent = 0;  // sessions that got no byte in the measured part
  std::size_t wrong = 0;   // sessions that got a wrong byte
  Histogram round_trips;
  std::vector<Histogram> session_round_trips;  // used instead, if some are reported apart
  DatagramCounts datagrams;                    // of the whole run
  double elapsed_s = 0;
  double cpu_s = 0;  // of this thread in the measured part
  LoadErrors errors;
};

class LoadWorker {
 public:
  struct Share {
    std::size_t session_first = 0;
    std::size_t session_count = 0;
    std::size_t idle_count = 0;
    std::size_t connecting_max = 256;
  };

  // `stop_descriptor` becomes readable, and stays so, when the user ends the run.
  LoadWorker(const LoadOptions& options, const LoadTarget& target, const Pattern& pattern,
             Share share, int stop_descriptor);
  ~LoadWorker();
  LoadWorker(const LoadWorker&) = delete;
  LoadWorker& operator=(const LoadWorker&) = delete;

  // The parts of a run, called in this order by the worker's thread. If connect_all returns false,
  // a connection failed, and the other parts are not called. The destructor closes.
  bool connect_all();
  void run();
  void drain();

  const WorkerResult& result() const { return result_; }

  // For the progress line; any thread.
  std::uint64_t messages_so_far() const { return messages_so_far_.load(std::memory_order_relaxed); }

 private:
  struct Connection {
    int descriptor = -1;
    bool connected = false;
  };

  bool is_idle(std::size_t index) const { return index < share_.idle_count; }
  void start_connect(std::size_t index);
  void end_connect(std::size_t index);
  void connect_failed(std::size_t index, int error);
  bool serve(std::uint64_t until);
  void serve_event(std::size_t index, std::uint32_t events);
  void serve_again();
  void look_for_lost();
  void serve_session(std::size_t index, bool readable);
  void serve_idle(std::size_t index);
  void stop_event();
  void close(std::size_t index);

  const LoadOptions& options_;
  const LoadTarget& target_;
  const Pattern& pattern_;
  const Share share_;
  const int stop_descriptor_;
  int epoll_ = -1;

  // Idle connections have the indices below idle_count, the sessions' the others. The idle ones are
  // connected first, so that the server already has them when the sessions begin.
  std::vector<Connection> connections_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::byte> buffer_;
  std::vector<std::size_t> again_;  // sessions whose socket may hold more
  std::vector<std::size_t> again_now_;

  std::size_t connecting_count_ = 0;
  std::size_t connected_count_ = 0;
  std::size_t failed_count_ = 0;  // sessions that have lost their connection
  std::uint64_t look_at_ = 0;     // datagrams: the time of the next check for losses
  bool stop_requested_ = false;
  bool closing_ = false;  // no new blocks
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::size_t busy_count_ = 0;  // sessions with messages in flight; kept while closing
  std::atomic<std::uint64_t> messages_so_far_{0};
  WorkerResult result_;
};

}  // namespace baton::tools
