// Actors that keep a proactor busy. Each runs by its own handlers until the budget is used up, then
// closes its handles and ends. Its accounts can be read afterwards.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "baton/buffer.hpp"
#include "baton/endpoint.hpp"
#include "baton/handle.hpp"
#include "ledger.hpp"

namespace baton::soak {

class Actor {
 public:
  Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  virtual ~Actor() = default;
  /// Starts its first operations. REQUIRES: before the threads run.
  virtual void begin() = 0;
  /// After the round: all sent bytes have arrived.
  virtual void expect_balanced() = 0;
};

/// Two connected ends and one or two directions of data: stream sockets, or a pipe.
class Link final : public Actor {
 public:
  enum class Kind : std::uint8_t { unix_socket, tcp_socket, pipe };

  Link(Ledger& ledger, Kind kind);
  ~Link() override;
  void begin() override;
  void expect_balanced() override;

 private:
  class Flow;
  struct End {
    explicit End(Ledger& ledger) : close(ledger) {}
    Handle* handle = nullptr;
    Entry close;
  };
  void start_close(End& end);
  void flow_ended();
  void end_closed();

  Ledger& ledger_;
  const Kind kind_;
  End one_;
  End other_;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::atomic<int> flows_left_{0};
  std::atomic<int> ends_left_{2};
};

/// A file of known content, read, overwritten with the same, and synced, at random places by
/// several operations at once.
class Blocks final : public Actor {
 public:
  explicit Blocks(Ledger& ledger);
  ~Blocks() override;
  void begin() override;
  void expect_balanced() override;

 private:
  struct Worker;
  void worker_ended();
  void closed() { ledger_.part_ended(); }
  static std::uint16_t whole_or_plain(Random& random);

  Ledger& ledger_;
  bool in_parts_ = false;  // the chaos engine makes transfers short
  Handle* handle_ = nullptr;
  Entry close_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<int> workers_left_{0};
};

/// A timer, a post, a timer, and so on.
class Clock final : public Actor {
 public:
  explicit Clock(Ledger& ledger);
  void begin() override;
  void expect_balanced() override {}

 private:
  void next();
  void rung();

  Ledger& ledger_;
  Entry timer_;
  Entry post_;
  Random random_;
  Deadline due_;
  std::uint64_t allowance_ = 0;
};

/// A server that echoes, and clients that connect, send, read the echo, close, and come again.
class Churn final : public Actor {
 public:
  Churn(Ledger& ledger, bool tcp);
  ~Churn() override;
  void begin() override;
  void expect_balanced() override;

 private:
  class Client;
  class Session;
  void start_accept();
  void accepted();
  void listener_closed() { ledger_.part_ended(); }
  void client_ended();
  void session_ended(Session& session);

  Ledger& ledger_;
  const bool tcp_;
  Endpoint endpoint_;
  Handle* listener_ = nullptr;
  Entry accept_;
  Entry close_;
  Random random_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<std::size_t> clients_left_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::deque<std::unique_ptr<Session>> sessions_;  // guarded by mutex_
  std::vector<Session*> free_;                     // guarded by mutex_
};

/// Adopts a descriptor, which then is the library's. Ends the program where that fails.
Handle* adopt(Ledger& ledger, int descriptor, HandleKind kind);

/// Compares the bytes read with the pattern; a violation says where.
void expect_pattern(Ledger& ledger, std::size_t phase, std::uint64_t offset,
                    std::span<const std::byte> data);

}  // namespace baton::soak
