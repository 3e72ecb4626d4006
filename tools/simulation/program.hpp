// Program: the random program of one seed, and the ledger over everything it starts.
//
// A round is one proactor, with drawn modes, engines, limits and threads, and objects of every
// kind. Handlers start, cancel, close, post, stop, throw and take long. A driver, a thread outside,
// does the same. The round ends with a full read, a drain, a stop, or a destructor with work
// pending. Every activation has a slot with its promises: its possible results, its order, its
// earliest time. A broken promise ends the seed (sim::World::violated).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baton/acceptor.hpp"
#include "baton/attachment.hpp"
#include "baton/connector.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/file.hpp"
#include "baton/pipe.hpp"
#include "baton/proactor.hpp"
#include "baton/stream_socket.hpp"
#include "sim/world.hpp"
#include "simulation/file_book.hpp"
#include "simulation/flow.hpp"
#include "simulation/reasons.hpp"
#include "simulation/scenario.hpp"

namespace baton::tools::simulation {

class Program final : public Scenario {
 public:
  Program();
  ~Program() override;

  void run(sim::World& world, const ProgramOptions& options) override;
  [[nodiscard]] std::uint64_t started() const noexcept override { return started_; }

 private:
  enum class What : std::uint8_t {
    read,
    write,
    half_close,
    ready,
    accept,
    connect,
    send_to,
    receive_from,
    read_at,
    write_at,
    append,
    sync,
    timer,
    post,
    close
  };
  enum class Ending : std::uint8_t { to_the_end, drain, stop, destroy };

  /// Something with a handle.
  struct Object {
    std::uint32_t number = 0;
    bool open = false;
    std::uint32_t cancelling = 0;  // running calls that cancel all its operations
    std::uint32_t users = 0;       // running calls on it
    std::uint32_t pending = 0;     // started and not complete
  };
  struct Connection;
  struct End final : Object {
    [[nodiscard]] Stream& stream() noexcept {
      return is_socket ? static_cast<Stream&>(socket) : static_cast<Stream&>(pipe);
    }
    StreamSocket socket;
    Pipe pipe;
    bool is_socket = false;
    bool starting_read = false;  // starts of one direction come one after the other
    bool starting_write = false;
    Connection* connection = nullptr;
    Flow* in = nullptr;  // null: the writing end of a pipe
    Flow* out = nullptr;
    bool queued_writes = false;  // several at a time, each written whole, none cancelled alone
  };
  struct Listener;
  struct Connection {
    std::uint16_t port = 0;  // the client's; 0: a pair
    bool connected = false;  // the operations of both sides have succeeded
    bool accepted = false;
    const Listener* listener = nullptr;  // known when connected
    Flow forth;                          // sent by the client
    Flow back;
  };
  struct Listener final : Object {
    Acceptor acceptor;
    Endpoint endpoint;
  };
  struct Mailbox final : Object {
    DatagramSocket socket;
    Endpoint endpoint;
  };
  struct Disk final : Object {
    File file;
    std::string path;
    bool appends = false;
    FileBook book;        // of writes at a position, or
    AppendBook appended;  // of appends
  };
  struct Slot {
    /// Posted work without a wake-up.
    [[nodiscard]] bool untold() const noexcept { return what == What::post && !counted_post; }

    Operation operation;
    Program* program = nullptr;
    std::uint32_t number = 0;
    What what = What::post;
    bool pending = false;
    bool may_cancel = false;    // a cancel was requested, or is about to be
    bool is_cancelled = false;  // a timer: its cancel was granted
    bool has_fired = false;     // a timer: the last one that this operation was
    Object* object = nullptr;
    std::uint32_t activation = 0;
    std::uint64_t read_number = 0;
    std::uint64_t offset = 0;
    std::int64_t not_before = 0;  // of a timer
    std::int64_t deadline = 0;    // of the operation; 0: none
    std::uint32_t size = 0;
    bool exactly = false;
    bool counted_post = false;
    Endpoint endpoint;
    std::uint32_t entry = 0;      // in the books
    FileBook::Moment moment = 0;  // of a read or a sync
    std::size_t size_before = 0;  // of the file, when it was started
    const sim::Node* node = nullptr;
    std::uint32_t generation = 0;
    std::int64_t started_at = 0;
    Interest interest = Interest::in;
    const Listener* listener = nullptr;
    std::size_t bytes_before = 0;  // at its end, and unchanged since
    std::byte buffer[2048];
  };

  // Rounds
  bool round(std::uint32_t operations);
  bool open_proactor();
  void draw_processors(Config& config);
  void drive();
  void thread_loop();
  static void enter_thread(void* self);
  void turn_once();
  void stay_attached();
  void call(std::uint32_t way);
  void glance();
  void end_round(Ending ending);
  void read_to_the_end();
  void destroy_everything();
  void check_balance();
  void check_files();
  void check_connections();
  [[nodiscard]] std::string state_of_affairs() const;
  static const char* look_idle(void* self, std::int64_t until);
  [[nodiscard]] const char* missed(std::int64_t until);
  [[nodiscard]] bool merges() const noexcept;
  [[nodiscard]] bool sliced() const noexcept;
  [[nodiscard]] bool neglects(bool free_thread);
  [[nodiscard]] bool lasts(bool fact, std::int64_t& since) const;
  [[nodiscard]] bool overdue(std::int64_t until);

  // Acting
  void draw_mixture();
  std::uint32_t draw_size() noexcept;
  bool act();
  void act_in_drain();
  Slot* take_slot(What what, Object* object);
  void note_start(const Slot& slot);
  bool settle_start(Slot& slot, std::error_code error);
  void draw_deadline(Slot& slot);
  End* any_end();
  bool act_stream();
  bool start_transfer(End& end);
  bool start_read(End& end);
  bool start_write(End& end);
  bool start_half_close(End& end);
  bool start_ready(End& end);
  bool act_connect();
  bool act_accept();
  bool act_datagram();
  bool act_file();
  bool act_timer();
  bool act_post();
  bool act_cancel();
  void cancel_one(Slot& slot);
  bool cancel_what_is_over();
  bool act_close();
  template <class Io>
  bool close_object(Object& object, Io& io);
  void forget_end(End& end);
  void expect_cancel(const Object& object);
  void expect_cancel_of_all();
  void expect_gaps();
  bool open_pair();
  void open_something();
  End& new_end(int fd, bool is_socket, Connection& connection, Flow* in, Flow* out);
  bool start_file(Slot& slot, Disk& disk);
  void file_over(Slot& slot, std::size_t moved);
  [[nodiscard]] const sim::FileBody& body_of(const Disk& disk) const;
  Connection& new_connection(std::uint16_t port);
  template <class Done>
  void wait_until(Done&& done, const char* what);
  Connection& connection_of(std::uint16_t port);

  // Completing
  static void completed(Operation& operation);
  void judge(Slot& slot);
  void judge_read(Slot& slot);
  void judge_write(Slot& slot);
  void judge_file(Slot& slot);
  void judge_contents(Slot& slot, bool ended);
  [[nodiscard]] bool lacks_room(const Slot& slot) const;
  void judge_sync(Slot& slot);
  void judge_datagram(Slot& slot);
  void judge_ready(Slot& slot);
  void judge_error(Slot& slot);
  void judge_refusal(Slot& slot, std::error_code error);
  [[nodiscard]] bool explained(Slot& slot, std::error_code error);
  [[nodiscard]] bool failed_on_disk(std::error_code error);
  [[nodiscard]] bool connect_may_break(const Slot& slot) const;
  [[nodiscard]] bool may_be_broken(const End& end) const;
  void judge_accept(Slot& slot);
  void judge_connect(Slot& slot);
  void after(Slot& slot);
  void wrong(const Slot& slot, const char* what);
  [[nodiscard]] std::int64_t now() const noexcept { return world_->scheduler().now(); }

  sim::World* world_ = nullptr;
  ProgramOptions options_;
  std::uint64_t started_ = 0;
  std::uint64_t round_end_ = 0;  // of started_
  bool emulated_ = false;
  Reasons reasons_;
  std::uint32_t connects_lost_ = 0;  // failed, or without a free handle

  Proactor* proactor_ = nullptr;
  Mode mode_ = Mode::shared;
  std::uint32_t processors_ = 1;
  [[nodiscard]] std::string affairs_of_threads() const {
    return std::to_string(threads_) + " threads, " + std::to_string(lanes_) + " lanes";
  }
  /// Lanes may wait for their own threads for a while.
  [[nodiscard]] bool has_patience() const noexcept {
    return mode_ == Mode::per_thread && (visiting_ || throwing_ != 0 || world_->traits.pinned);
  }
  std::uint32_t threads_ = 1;
  std::uint32_t lanes_ = 1;  // of per_thread mode
  bool limited_ = false;
  bool bounded_ = false;           // the number of pending operations has a bound
  std::uint32_t started_max_ = 0;  // of the first processor; 0: no bound
  std::uint32_t target_ = 8;       // the wanted number of operations in flight
  std::uint32_t posts_ = 0;        // posts in flight that wake a thread
  std::uint32_t pending_ = 0;      // all
  std::uint32_t in_run_ = 0;
  std::uint32_t in_handler_ = 0;
  std::uint32_t opening_ = 0;   // running calls that open objects
  std::uint32_t changing_ = 0;  // running calls of stop or restart
  bool finishing_ = false;
  bool quiet_ = false;            // only operations that belong to the end are started
  bool leave_ = false;            // the threads must return
  std::int64_t ends_before_ = 0;  // the latest end of the running destructor; 0: none runs
  bool cancels_all_ = false;
  std::uint32_t cancelling_all_ = 0;  // running calls of cancel_all
  bool cancelled_all_ = false;        // at the end: no operation has to succeed any more
  std::uint32_t slow_ = 0;
  std::uint32_t throwing_ = 0;
  std::uint32_t stopping_ = 0;
  bool visiting_ = false;         // threads come and go
  bool glances_ = false;          // and never wait
  std::uint32_t drain_acts_ = 0;  // that handlers may still do during a drain
  std::int64_t timer_most_ns_ = 0;
  std::array<std::uint32_t, 10> mixture_{};  // how often each act is chosen
  std::uint32_t mixture_sum_ = 0;
  std::int64_t far_ns_ = 0;             // work must not wait for so long
  std::int64_t undelivered_since_ = 0;  // found at each look since, while all slept; 0: not so
  std::int64_t free_since_ = 0;         // likewise
  std::int64_t lingers_since_ = 0;      // likewise: a thread stays in a stopped proactor
  std::int64_t timer_due_ = 0;          // no pending timer is due before
  std::uint32_t vain_glances_ = 0;      // in a row, while work was queued
  std::int64_t vain_since_ = 0;         // the end of the first of them
  std::int64_t neglected_since_ = 0;    // work is queued and a thread is free; 0: not so
  std::uint64_t completed_ = 0;
  std::uint64_t completed_before_ = 0;  // of completed_, at that time

  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> free_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<End*> open_ends_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::size_t connections_used_ = 0;
  std::size_t ends_used_ = 0;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  std::vector<std::unique_ptr<Disk>> disks_;
  std::uint32_t objects_ = 0;
};

}  // namespace baton::tools::simulation
