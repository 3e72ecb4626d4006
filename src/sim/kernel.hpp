// Kernel: the objects behind the descriptors of an operating system (connections, listeners,
// datagrams, pipes, files, event counters), on virtual time. No call blocks: each moves what it can
// and returns at once, with a count or a negative errno. A caller that waits for more has a
// Watcher, or sleeps in the scheduler.
//
// The kernel has two callers. The simulated engine (level one) calls it to perform an operation.
// The simulated system calls (level two, system.cpp) are a thin layer over the same functions.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/faults.hpp"
#include "sim/random.hpp"
#include "sim/scheduler.hpp"

namespace baton::sim {

class Node;

/// Is called when a descriptor may have become ready. The call may come at any point and must only
/// record it.
class Watcher {
 public:
  virtual void changed(Node& node) noexcept = 0;
  /// The descriptor is closed, and the kernel forgets the watcher.
  virtual void gone(Node&) noexcept {}
  virtual ~Watcher() = default;
};

/// The bytes of one write, while they are in flight.
struct Segment {
  std::int64_t when;
  std::uint64_t up_to;
  bool fin;
};

/// Why a datagram that was sent is never received.
enum class Drop : std::uint8_t {
  fault,      ///< drawn: Faults::lose
  no_socket,  ///< no socket has the port, or the one that has it is connected to another
  crowded,    ///< the receiver's queue is full
  closed      ///< the receiver was closed before it was read
};

/// Is called when the machine injects a fault or drops data. A checker can then find the reason for
/// every result that the program sees. The calls must only record it.
class Witness {
 public:
  /// A drawn fault or a shortage will be reported as this errno.
  virtual void failed(int error) noexcept = 0;
  /// A drawn fault resets the connection of these two channels.
  virtual void reset(const struct Channel* one, const struct Channel* other) noexcept = 0;
  virtual void dropped(std::span<const std::byte> datagram, Drop why) noexcept = 0;
  /// A connection from this port has left a backlog; `aborted`: a drawn fault has ended it.
  virtual void accepted(std::uint16_t from, bool aborted) noexcept = 0;

 protected:
  ~Witness() = default;
};

/// The bytes of one direction. Three counts refer to one ring: written, arrived and read.
struct Channel {
  std::unique_ptr<std::byte[]> ring;
  std::uint64_t ring_size = 0;  // a power of two
  std::uint64_t capacity = 0;   // drawn from the seed; at most ring_size
  std::uint64_t written = 0;
  std::uint64_t arrived = 0;
  std::uint64_t read = 0;
  std::int64_t last_arrival = 0;  // of the last write; later ones arrive after it
  bool fin_sent = false;
  bool fin_arrived = false;
  bool reset = false;
  Node* reader = nullptr;
  Node* writer = nullptr;
  std::uint32_t number = 0;
  std::vector<Segment> segments;
  std::size_t segments_begin = 0;
  [[nodiscard]] std::uint64_t room() const noexcept { return capacity - (written - read); }
};

struct Datagram {
  std::uint16_t from = 0;
  std::vector<std::byte> bytes;
};

struct FileBody {
  std::string path;
  std::vector<std::byte> bytes;
  std::vector<std::byte> durable;  // survives every crash
  /// Writes since the last sync, as offset and size: a crash may keep any of them.
  std::vector<std::pair<std::size_t, std::size_t>> dirty;
};

/// A descriptor in an epoll set.
class PollItem final : public Target, public Watcher {
 public:
  explicit PollItem(Node& set) : poller(set) {}
  void fire(std::uint32_t what) noexcept override;
  void changed(Node& node) noexcept override;
  void gone(Node& node) noexcept override;
  /// The bits that epoll would report now; 0: nothing.
  [[nodiscard]] std::uint32_t told(std::int64_t now) const noexcept;

  Node& poller;
  Node* node = nullptr;  // null: removed
  int fd = -1;
  std::uint32_t events = 0;  // as epoll_ctl was given them
  std::uint64_t data = 0;
  bool fresh = false;             // edge-triggered: not reported since it changed
  std::int64_t hidden_until = 0;  // late readiness is hidden until then
};

enum class NodeKind : std::uint8_t {
  none,
  stream,
  listener,
  datagram,
  file,
  pipe,
  event,
  poller,
  null
};
enum class Link : std::uint8_t { none, connecting, up, failed };

/// An open file description.
class Node final : public Target {
 public:
  explicit Node(class Kernel& of) : kernel(of) {}
  void fire(std::uint32_t what) noexcept override;

  Kernel& kernel;
  NodeKind kind = NodeKind::none;
  Link link = Link::none;
  bool nonblocking = true;
  bool append = false;
  bool direct = false;      // O_DIRECT
  bool reuse_port = false;  // SO_REUSEPORT
  int access = 0;           // O_RDONLY, O_WRONLY or O_RDWR
  int fd = -1;
  int error = 0;  // SO_ERROR
  std::uint32_t generation = 0;
  Channel* in = nullptr;
  Channel* out = nullptr;
  std::uint16_t port = 0;
  std::uint16_t peer_port = 0;
  Node* server = nullptr;  // of a connecting client: the other end, which exists already
  std::deque<Node*> backlog;
  std::uint32_t backlog_max = 0;
  std::deque<Datagram> datagrams;
  std::deque<std::pair<std::int64_t, Datagram>> in_flight;  // in the order of sending
  FileBody* file = nullptr;
  std::uint64_t position = 0;
  std::uint64_t counter = 0;  // event
  // The end of its last readiness for reading and for writing, if it is not ready now.
  std::int64_t readable_until = -1;
  std::int64_t writable_until = -1;
  std::int64_t lied_at = -1;                     // when a drawn fault last reported it as readable
  std::vector<std::unique_ptr<PollItem>> items;  // of an epoll set
  std::vector<Watcher*> watchers;
};

class Kernel {
 public:
  Kernel(Random& random, Scheduler& scheduler);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// Sets the witness until the next begin; null: none.
  void witness(Witness* witness) noexcept { witness_ = witness; }

  /// Empties the system. No object of the last run may be in use.
  void begin(const Faults& drawn) noexcept;
  [[nodiscard]] std::uint32_t open_descriptors() const noexcept { return open_; }

  // -- descriptors --------------------------------------------------------------------------------

  [[nodiscard]] Node* find(int fd) const noexcept {
    return fd >= 0 && static_cast<std::size_t>(fd) < table_.size()
               ? table_[static_cast<std::size_t>(fd)]
               : nullptr;
  }
  int socket(NodeKind kind) noexcept;
  int pipe(int fds[2]) noexcept;
  int pair(int fds[2]) noexcept;
  int open(const char* path, int flags) noexcept;
  int event(std::uint64_t initial) noexcept;
  int poller() noexcept;
  int close(int fd) noexcept;

  void watch(Node& node, Watcher& watcher) { node.watchers.push_back(&watcher); }
  static void unwatch(Node& node, const Watcher& watcher) noexcept;
  /// Calls all watchers and wakes all threads that sleep in poll and select.
  void changed(Node& node) noexcept;

  // -- sockets ------------------------------------------------------------------------------------

  int bind(Node& node, std::uint16_t port) noexcept;
  /// One that shares its port with others gets a part of the connections.
  int listen(Node& node, int backlog) noexcept;
  /// 0, -EINPROGRESS, or the negative errno of the failure.
  int connect(Node& node, std::uint16_t port) noexcept;
  /// The descriptor of the next connection.
  int accept(Node& node, std::uint16_t* peer) noexcept;
  int shutdown_writing(Node& node) noexcept;
  /// Bytes, 0 at the end, or -errno (-EAGAIN: nothing yet).
  std::int64_t receive(Node& node, std::span<const iovec> pieces) noexcept;
  std::int64_t send(Node& node, std::span<const iovec> pieces) noexcept;
  std::int64_t receive_from(Node& node, std::span<const iovec> pieces,
                            std::uint16_t* from) noexcept;
  std::int64_t send_to(Node& node, std::span<const iovec> pieces, std::uint16_t port) noexcept;

  // -- files --------------------------------------------------------------------------------------

  std::int64_t read_at(Node& node, std::span<const iovec> pieces, std::uint64_t offset) noexcept;
  std::int64_t write_at(Node& node, std::span<const iovec> pieces, std::uint64_t offset) noexcept;
  int sync(Node& node) noexcept;
  [[nodiscard]] const FileBody* file(const std::string& path) const noexcept;
  /// The content of a file after a crash now: everything that was synced, and any part of the later
  /// writes.
  [[nodiscard]] std::vector<std::byte> after_crash(const FileBody& body);

  // -- readiness ----------------------------------------------------------------------------------

  enum Ready : std::uint32_t {
    readable = 1,
    writable = 2,
    broken = 4,
    hung_up = 8,
    peer_closed = 16
  };
  [[nodiscard]] static std::uint32_t ready(const Node& node) noexcept;
  /// SO_ERROR: returns the error and clears it.
  int take_error(Node& node) noexcept;
  /// The key for which threads sleep in poll and select.
  [[nodiscard]] const void* poll_key() const noexcept { return &pollers_; }
  std::uint32_t pollers_ = 0;  // number of these threads

  /// Whether a fault of this chance happens now; if so, the witness is called.
  [[nodiscard]] bool draw_failure(std::uint32_t chance, int error) noexcept;
  [[nodiscard]] const Faults& faults() const noexcept { return faults_; }
  Random& random;
  Scheduler& scheduler;

 private:
  friend class Node;
  enum What : std::uint32_t { arrival, handshake, connected, refused, timed_out, datagram_arrival };

  Node* make(NodeKind kind) noexcept;
  std::size_t cut_in_file(const Node& node, std::size_t size) noexcept;
  int install(Node& node) noexcept;
  void release(Node& node) noexcept;
  Channel* make_channel(Node* writer, Node* reader) noexcept;
  void release_end(Channel*& channel, Node* node) noexcept;
  void close_stream(Node& node) noexcept;
  void send_fin(Node& node) noexcept;
  void reset_connection(Node& node) noexcept;
  void arrive(Node& reader) noexcept;
  void shake_hands(Node& client) noexcept;
  void answer(Node& client, int error) noexcept;
  [[nodiscard]] bool is_taken(const Node& node, std::uint16_t port) const noexcept;
  [[nodiscard]] std::uint16_t free_port(const Node& node) noexcept;
  [[nodiscard]] Node* listener_of(std::uint16_t port) noexcept;
  void deliver(Node& node) noexcept;
  void draw_reset(Node& node) noexcept;
  void drop(std::span<const std::byte> datagram, Drop why) noexcept;
  [[nodiscard]] std::int64_t receive_now(Node& node, std::span<const iovec> pieces) noexcept;
  [[nodiscard]] std::int64_t send_now(Node& node, std::span<const iovec> pieces) noexcept;
  void note_end_of_readiness(Node& node, std::uint32_t before) const noexcept;
  [[nodiscard]] std::int64_t latency() noexcept;
  [[nodiscard]] std::size_t cut(std::size_t size) noexcept;

  Faults faults_;
  Witness* witness_ = nullptr;
  std::vector<Node*> table_;  // by descriptor
  std::uint32_t open_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> free_nodes_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<Channel*> free_channels_;
  std::uint32_t next_channel_ = 0;
  std::vector<Node*> bound_;  // listeners and datagram sockets with a port
  std::vector<std::unique_ptr<FileBody>> files_;
  std::uint16_t next_port_ = 0;
};

}  // namespace baton::sim
