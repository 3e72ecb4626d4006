// A program whose outcome does not depend on time. A seed draws steps; each starts some operations
// and waits until all are complete. So every engine, on the real kernel and on the simulated one,
// must give the same outcome, line by line. The simulator's accounts check the contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baton/acceptor.hpp"
#include "baton/connector.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/file.hpp"
#include "baton/proactor.hpp"
#include "baton/stream_socket.hpp"
#include "sim/random.hpp"
#include "simulation/datagram_book.hpp"
#include "simulation/file_book.hpp"
#include "simulation/flow.hpp"

namespace baton::test {

class Lockstep {
 public:
  /// Files are made in `folder`.
  Lockstep(Proactor& proactor, std::uint64_t seed, const std::string& folder);
  ~Lockstep();
  Lockstep(const Lockstep&) = delete;
  Lockstep& operator=(const Lockstep&) = delete;

  void run(std::uint32_t steps);

  /// The answers of all operations; within a step in the order of their starts.
  [[nodiscard]] const std::vector<std::string>& outcomes() const noexcept { return outcomes_; }
  /// Violations on this engine alone; empty: none.
  [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }

 private:
  static constexpr std::size_t buffer_size = 8'192;
  static constexpr std::size_t page = 4'096;  // O_DIRECT's unit

  struct Request {
    alignas(page) std::byte buffer[buffer_size];
    Operation operation;
    const char* name = "";
    std::size_t size = 0;
    std::uint64_t offset = 0;
    std::uint64_t entry = 0;  // in the accounts
    Endpoint endpoint;
    bool complete = false;
  };
  struct Connection {
    StreamSocket ends[2];
    tools::simulation::Flow flows[2];  // from the end of that number
    bool of_network = false;
  };
  struct Disk {
    File file;
    std::string path;
    bool appends = false;
    bool direct = false;
    tools::simulation::FileBook book;
    tools::simulation::AppendBook appended;
  };

  // Steps
  void transfer();
  void write_parts(Connection& connection, std::size_t from, std::size_t size);
  void read_parts(Connection& connection, std::size_t from, std::size_t size);
  void read_nothing();
  void wait_for_readiness();
  void wait_for_room();
  void write_file();
  void read_file();
  void sync_file();
  void send_datagrams();
  void connect();
  void connect_to_nobody();
  void end_connection();
  void wait_for_time();

  // Their parts
  Request& request(const char* name, std::size_t size = 0);
  void started(Request& of, std::error_code error);
  void settle();
  void judge_read(Disk& disk, const Request& read);
  void judge_end_of_file(const Disk& disk);
  void fail(const std::string& what);
  [[nodiscard]] std::vector<std::size_t> parts_of(std::size_t size);
  [[nodiscard]] short readiness(const StreamSocket& socket);
  [[nodiscard]] Connection* any_connection();
  Disk& any_disk();
  void open_sockets();
  void open_files(const std::string& folder);
  [[nodiscard]] std::int64_t now_ns() const noexcept;

  Proactor& proactor_;
  sim::Random random_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::size_t used_ = 0;  // of them, in this step
  std::vector<std::string> outcomes_;
  std::string wrong_;
  Acceptor acceptor_;
  Endpoint address_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Disk>> disks_;
  DatagramSocket mailboxes_[2];
  std::uint16_t ports_[2] = {};
  tools::simulation::DatagramBook datagrams_;
};

}  // namespace baton::test
