// Shared by the sessions: the root, the open files, the blocks for answers, the counts of
// connections, and the end.
#pragma once

#include <atomic>
#include <baton/baton.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "document_root.hpp"
#include "file_cache.hpp"
#include "options.hpp"

namespace httpd {

/// The decision about a new connection.
enum class Admission : std::uint8_t {
  served,
  turned_away,  ///< beyond the limit: its first request is answered with 503
  dropped       ///< far beyond the limit: closed without a word
};

class Server;

/// A connection's place among the server's connections, from its accept to its end, however that
/// comes.
class Place {
 public:
  Place(Server& server, Admission admission) : server_(&server), admission_(admission) {}
  Place(Place&& other) noexcept
      : server_(std::exchange(other.server_, nullptr)), admission_(other.admission_) {}
  ~Place();

  [[nodiscard]] Admission admission() const { return admission_; }

 private:
  Server* server_;  // null: moved from
  Admission admission_;
};

struct Counts {
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;  ///< answers of 400 and more
  std::uint64_t timeouts = 0;
};

class Server {
 public:
  /// Bytes of a block. An answer takes one while it is on its way, so that idle connections and
  /// those that send pin none.
  static constexpr std::size_t block_size = 64 * 1024;
  /// Accepts that are pending at once, and at most as many as connections: in each look at the
  /// listener so many get in.
  static constexpr std::size_t accepts = 16;

  Server(baton::Proactor& proactor, const Options& options, const DocumentRoot& root);

  [[nodiscard]] baton::Proactor& proactor() const { return proactor_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const Limits& limits() const { return options_.limits; }
  [[nodiscard]] const DocumentRoot& root() const { return root_; }
  [[nodiscard]] baton::BufferPool& blocks() { return blocks_; }
  /// The open files that are at home in the calling thread's lane.
  [[nodiscard]] FileCache& files();

  /// From now on connections are accepted, and SIGTERM and SIGINT end the server: the first after
  /// all that is on its way, the second at once. REQUIRES: both are blocked.
  std::error_code start(baton::Acceptor acceptor);
  [[nodiscard]] bool draining() const { return draining_.load(); }
  [[nodiscard]] std::string statistics() const;
  /// Why the server has ended by itself.
  [[nodiscard]] std::error_code error() const { return error_; }

  // For sessions.
  /// Cancelled when the server drains: a connection between two requests has nothing to finish.
  [[nodiscard]] baton::CancellationToken end_of_idle() const;
  void add(const Counts& counts);

 private:
  friend class Place;
  baton::Task<void> accept_all(baton::Acceptor acceptor);
  baton::Task<void> accept_one_by_one(baton::Acceptor& acceptor);
  std::error_code wait_for_signal();
  void on_signal();
  void wait_has_failed(std::error_code error);
  Place admit();
  void start_session(baton::StreamSocket peer, Place place);
  void give_back_place();
  /// The listener or the wait for signals has failed.
  void end_by(std::error_code error);
  void drain();
  void begin_drain();
  void end_if_empty();

  baton::Proactor& proactor_;
  const Options& options_;
  const DocumentRoot& root_;
  const std::size_t turned_away_max_;
  baton::BufferPool blocks_;
  // Of each lane, so that no two of them wait for one lock.
  std::vector<std::unique_ptr<FileCache>> files_;
  std::vector<baton::CancellationSource> ends_of_idle_;
  baton::SignalSet signals_;
  baton::SignalInfo signal_;
  baton::Operation signal_operation_;
  baton::Operation wait_again_;

  std::atomic<bool> draining_{false};
  std::error_code error_;             // written by the one that begins the drain
  std::atomic<std::size_t> open_{0};  // connections, those turned away included
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> turned_away_{0};
  mutable std::mutex mutex_;
  Counts counts_;  // guarded by the mutex
};

}  // namespace httpd
