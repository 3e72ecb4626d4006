// Teams: several processors behind one proactor, routed by kind (P-15, P-16, P-17, P-24).
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "threads.hpp"

namespace baton::conformance {
namespace {

OperationKinds all_streams() {
  OperationKinds kinds = stream_operations;
  kinds |= accept_operations;
  kinds |= connect_operations;
  return kinds;
}

class Teams : public Threads {
 protected:
  /// The combination takes the sockets; a second processor in `files` mode takes the files, a third
  /// of the same kind the datagrams.
  Proactor& use_team(unsigned threads, Mode files,
                     const std::function<void(Config&)>& change = {}) {
    return use(threads, [&](Config& config) {
      ProcessorConfig second = config.processors.back();
      ProcessorConfig first = sockets(config);
      first.operations = all_streams();
      second.operations = file_operations;
      second.mode = files;
      if (files != Mode::per_thread && second.profile == "pinned") second.profile = "any";
      ProcessorConfig third = second;
      third.engine = first.engine;
      third.operations = datagram_operations;
      config.processors = {first, second, third};
      if (change) change(config);
    });
  }
  /// Possible other members of a team with this combination.
  [[nodiscard]] std::vector<Mode> other_modes() const {
    if (per_thread()) return {Mode::per_thread, Mode::dedicated};
    return {Mode::shared, Mode::dedicated};
  }
  Handle* file() {
    char path[] = "/tmp/baton_teams_XXXXXX";
    Peer fd{::mkostemp(path, O_CLOEXEC)};
    ::unlink(path);
    return adopt(fd, HandleKind::file);
  }
  Operation& file_operation(OperationKind kind, Handle* handle) {
    Operation& fresh = operation();
    fresh.prepare(kind, handle);
    fresh.set_buffer(MutableBuffer{memory(512), 512});
    EXPECT_FALSE(proactor().start(fresh));
    return fresh;
  }
  void expect_success(Operation& operation) {
    wait_until([&] { return !operation.is_pending(); });
    EXPECT_FALSE(operation.failed()) << operation.error().message();
  }
  /// Starts a read of a datagram; its sender.
  Peer pending_datagram(Operation& receive) {
    int fd[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd), 0);
    Peer ours{fd[0]};
    receive.prepare(OperationKind::read_datagram, adopt(ours, HandleKind::datagram_socket));
    receive.set_buffer(MutableBuffer{memory(16), 16});
    EXPECT_FALSE(proactor().start(receive));
    return Peer{fd[1]};
  }
  /// Sockets, files and datagrams at once.
  void exercise_all_kinds(int rounds) {
    Peer session = echo();
    Handle* const handle = file();
    int fd[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd), 0);
    Peer ours{fd[0]};
    const Peer peer{fd[1]};
    Handle* const datagrams = adopt(ours, HandleKind::datagram_socket);
    for (int i = 0; i < rounds; ++i) {
      Operation& receive = operation();
      receive.prepare(OperationKind::read_datagram, datagrams);
      receive.set_buffer(MutableBuffer{memory(16), 16});
      ASSERT_FALSE(proactor().start(receive));
      expect_success(file_operation(OperationKind::write_file, handle));
      round_trip(session.get());
      ASSERT_EQ(::send(peer.get(), "d", 1, 0), 1);
      expect_success(receive);
      expect_success(file_operation(OperationKind::read_file, handle));
    }
    Operation& close = operation();
    close.prepare(OperationKind::close, datagrams);
    ASSERT_FALSE(proactor().start(close));
    expect_success(close);
  }
};

TEST_P(Teams, route_by_kind_in_every_mixture_of_modes) {
  for (const Mode files : other_modes()) {
    SCOPED_TRACE(to_string(files));
    use_team(2, files);
    run(2);
    exercise_all_kinds(20);
    stop();
    destroy();
  }
}

// Fewer threads than shared processors: one thread leads them all in one wait.
TEST_P(Teams, one_thread_leads_them_all) {
  for (const Mode files : other_modes()) {
    SCOPED_TRACE(to_string(files));
    use_team(1, files);
    run(1);
    exercise_all_kinds(20);
    stop();
    destroy();
  }
}

// The same, asleep: the merged wait does not spin. It sleeps for good, or, for engines without a
// descriptor, in slices: each is a look at each of the three engines and one sleep.
TEST_P(Teams, a_merged_wait_does_not_spin) {
  use_team(1, per_thread() ? Mode::per_thread : Mode::shared);
  Stream quiet;
  read_byte(adopt(quiet.ours), operation());
  Operation& receive = operation();
  const Peer peer = pending_datagram(receive);
  run(1);
  wait_until([&] { return sleepers().waiting >= 1; });
  constexpr std::uint64_t slices = 50, calls_of_a_slice = 8, others = 50;
  const std::uint64_t calls = sleepers().calls;
  const std::uint64_t naps = sleepers().naps;
  // The thread in run() and, where the streams have one of their own, their leader.
  const int threads = mode() == Mode::dedicated ? 2 : 1;
  wait_until([&] {
    const bool for_good =
        sleepers().timed == 0 && sleepers().parked + sleepers().waiting == threads;
    return for_good || sleepers().naps - naps >= slices;
  });
  EXPECT_LE(sleepers().calls - calls, (sleepers().naps - naps) * calls_of_a_slice + others);
  ASSERT_EQ(::send(peer.get(), "d", 1, 0), 1);
  expect_success(receive);
}

// A start from outside reaches a processor without a leader, although the only thread waits in
// another one.
TEST_P(Teams, a_waiting_leader_takes_the_seat_of_another_processor) {
  use_team(1, per_thread() ? Mode::per_thread : Mode::shared);
  Stream quiet;
  read_byte(adopt(quiet.ours), operation());
  run(1);
  wait_until([&] { return sleepers().waiting >= 1; });
  for (int i = 0; i < 10; ++i) expect_success(file_operation(OperationKind::sync_file, file()));
}

// As many threads as processors: each leads one, and none is left to watch.
TEST_P(Teams, a_leader_that_waits_watches_one_that_is_in_a_handler) {
  if (mode() != Mode::shared) return;
  use_team(2, Mode::shared);
  Gate& until = gate();
  Stream streams[2];
  Operation& blocks = operation();
  Operation& read = operation();
  std::atomic<bool> entered{false};
  struct Shared {
    Gate& until;
    std::atomic<bool>& entered;
  } shared{until, entered};
  blocks.set_handler([to = &shared](Operation&) {
    to->entered = true;
    to->until.wait();
  });
  read_byte(adopt(streams[0].ours), blocks);
  read_byte(adopt(streams[1].ours), read);
  Operation& receive = operation();
  const Peer peer = pending_datagram(receive);
  run(2);
  // For good or in slices: the first to come may have taken all seats.
  wait_until([&] { return are_asleep(2); });
  std::atomic<bool> due{false};
  timer(Deadline::after(20ms, proactor().now()), [&] { due = true; });
  send_all(streams[0].peer.get(), "x", 1);
  wait_until([&] { return entered.load(); });
  wait_until([&] { return due.load(); });
  send_all(streams[1].peer.get(), "x", 1);
  expect_success(read);
  EXPECT_FALSE(until.is_open());
  until.open();
  ASSERT_EQ(::send(peer.get(), "d", 1, 0), 1);
  expect_success(receive);
}

TEST_P(Teams, a_kind_that_no_processor_takes_is_not_supported) {
  use(1, [](Config& config) { sockets(config).operations = file_operations; });
  Stream stream;
  Operation& read = operation();
  read.prepare(OperationKind::read_stream, adopt(stream.ours));
  read.set_buffer(MutableBuffer{memory(1), 1});
  EXPECT_EQ(proactor().start(read), errc::not_supported);
  EXPECT_FALSE(read.is_pending());
  run(1);
  expect_success(file_operation(OperationKind::write_file, file()));
}

TEST_P(Teams, operations_max_is_for_each_processor) {
  use_team(1, per_thread() ? Mode::per_thread : Mode::shared,
           [](Config& config) { config.processors[0].operations_max = 2; });
  run(1);
  Stream stream;
  Handle* handle = adopt(stream.ours);
  std::atomic<int> refused{0};
  std::atomic<bool> done{false};
  std::vector<Operation*> reads;
  for (int i = 0; i < 4; ++i) reads.push_back(&operation());
  post([&] {
    for (Operation* read : reads) {
      read->prepare(OperationKind::read_stream, handle);
      read->set_buffer(MutableBuffer{memory(1), 1});
      if (proactor().start(*read) == errc::limit_reached) refused.fetch_add(1);
    }
    done = true;
  });
  wait_until([&] { return done.load(); });
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(proactor().statistics().refused_limit, 2U);
  expect_success(file_operation(OperationKind::write_file, file()));  // another processor
  send_all(stream.peer.get(), "xx", 2);
  expect_success(*reads[0]);
  expect_success(*reads[1]);
}

// P-17, option (b): only the leader starts; what others start is deferred, and the leader called.
TEST_P(Teams, only_the_leader_may_start) {
  use(2, [](Config& config) { sockets(config).start = StartRule::leader_only; });
  run(2);
  Peer session = echo();
  for (int i = 0; i < 50; ++i) round_trip(session.get());
  if (!per_thread()) {
    EXPECT_GE(proactor().statistics().deferred, 1U);
  }
  Stream stream;
  Operation& read = operation();
  read_byte(adopt(stream.ours), read);
  EXPECT_EQ(proactor().cancel(read), CancelResult::requested);
  wait_until([&] { return !read.is_pending(); });
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
}

TEST_P(Teams, a_bound_on_started_operations_defers_the_rest_and_loses_nothing) {
  use(2, [](Config& config) { sockets(config).started_max = 1; });
  run(2);
  constexpr int count = 30;
  std::vector<Stream> streams(count);
  std::vector<Operation*> reads;
  for (Stream& stream : streams) {
    reads.push_back(&operation());
    read_byte(adopt(stream.ours), *reads.back());
  }
  const std::uint64_t started = per_thread() ? 2 : 1;  // one in each lane
  wait_until([&] { return proactor().statistics().deferred >= count - started; });
  for (Stream& stream : streams) send_all(stream.peer.get(), "x", 1);
  for (Operation* read : reads) expect_success(*read);
}

// Two processors take everything. The second serves handles that name it. The first serves the
// others, and handles that name a processor without that kind.
TEST_P(Teams, a_handle_may_name_its_processor) {
  use(2, [](Config& config) {
    ProcessorConfig first = sockets(config);
    first.operations = all_streams();
    ProcessorConfig third = first;
    third.operations = datagram_operations;
    config.processors = {first, first, third};
  });
  std::deque<Stream> streams(4);
  const std::uint16_t wishes[] = {Home::any_processor, 0, 1, 2};
  const std::uint16_t served[] = {0, 0, 1, 0};
  std::vector<Operation*> reads;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    reads.push_back(&operation());
    reads.back()->set_tag(static_cast<std::uint32_t>(i));
    Handle* const handle =
        adopt(streams[i].ours, HandleKind::stream_socket, Home{.lane = 0, .processor = wishes[i]});
    read_byte(handle, *reads.back());
  }
  run(2);
  PendingReport report;
  wait_until([&] {
    report = proactor().pending();
    return report.operations.size() == streams.size();
  });
  for (const PendingOperation& pending : report.operations) {
    EXPECT_EQ(pending.processor, served[pending.tag]) << pending.tag;
  }
  for (const Stream& stream : streams) send_all(stream.peer.get(), "x", 1);
  for (Operation* const read : reads) expect_success(*read);
  Stream last;
  const auto refused = proactor().adopt(last.ours.get(), HandleKind::stream_socket,
                                        Ownership::borrowed, Home{.processor = 3});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error(), errc::bad_configuration);
}

// Cancels beside a lane whose thread is in a handler. A dedicated processor has the operations.
class CancelsBesideALane : public Teams {
 protected:
  void SetUp() override {
    Teams::SetUp();
    if (testing::Test::IsSkipped()) return;
    use(1, [](Config& config) {
      ProcessorConfig first = sockets(config);
      ProcessorConfig second = first;
      second.mode = Mode::dedicated;
      if (second.profile == "pinned") second.profile = "any";
      config.processors = {first, second};
    });
    auto adopted = proactor().adopt(stream_.ours.get(), HandleKind::stream_socket,
                                    Ownership::borrowed, with_dedicated);
    ASSERT_TRUE(adopted.has_value());
    handle_ = *adopted;
  }
  /// The thread is in a handler from now on, until the gate is opened. `started` operations are
  /// pending.
  Gate& begin_handler(std::size_t started) {
    run(1);
    wait_until([&] { return proactor().pending().operations.size() == started; });
    Gate& until = gate();
    post([&] {
      entered_ = true;
      until.wait();
    });
    wait_until([&] { return entered_.load(); });
    return until;
  }

  static constexpr Home with_dedicated{.lane = 0, .processor = 1};
  Stream stream_;
  Handle* handle_ = nullptr;

 private:
  std::atomic<bool> entered_{false};
};

int bytes_in(const Peer& descriptor) {
  int bytes = -1;
  EXPECT_EQ(::ioctl(descriptor.get(), FIONREAD, &bytes), 0);
  return bytes;
}

// Rule 12.
TEST_P(CancelsBesideALane, a_cancelled_read_takes_nothing_from_the_next_file_of_its_number) {
  if (with_troubles()) return;  // chaos cancels late
  Stream other;
  const Peer seen{::fcntl(other.ours.get(), F_DUPFD_CLOEXEC, 0)};
  Operation& read = operation();
  Operation& later = operation();
  read_byte(handle_, read);
  read_byte(adopt(other.ours, HandleKind::stream_socket, with_dedicated), later);
  Gate& until = begin_handler(2);
  // The engine may still have the old file, and see what comes there.
  const Peer kept{::fcntl(stream_.ours.get(), F_DUPFD_CLOEXEC, 0)};
  EXPECT_EQ(proactor().cancel(*handle_), CancelResult::requested);
  Stream next;
  ASSERT_EQ(::dup2(next.ours.get(), stream_.ours.get()), stream_.ours.get());
  send_all(next.peer.get(), "n", 1);
  send_all(stream_.peer.get(), "o", 1);
  send_all(other.peer.get(), "l", 1);
  wait_until([&] { return bytes_in(seen) == 0; });
  EXPECT_EQ(bytes_in(stream_.ours), 1);
  until.open();
  wait_until([&] { return !read.is_pending(); });
  expect_success(later);
}

TEST_P(CancelsBesideALane, a_cancel_ends_its_operation_and_no_other) {
  Operation& first = operation();
  Operation& second = operation();
  read_byte(handle_, first);
  read_byte(handle_, second);
  Gate& until = begin_handler(2);
  EXPECT_EQ(proactor().cancel(second), CancelResult::requested);
  static_cast<void>(proactor().cancel(second));  // again: it may have ended, and ends once
  until.open();
  wait_until([&] { return !second.is_pending(); });
  EXPECT_EQ(second.error(), std::errc::operation_canceled);
  EXPECT_TRUE(first.is_pending());
  send_all(stream_.peer.get(), "x", 1);
  expect_success(first);
}

BATON_CONFORMANCE_SUITE(CancelsBesideALane);

// A processor whose engine may only be called by its leader, led by a thread of its own.
class DedicatedTeams : public Teams {};
BATON_CONFORMANCE_SUITE_IN(DedicatedTeams, Mode::dedicated);

TEST_P(DedicatedTeams, only_the_leader_may_start_operations) {
  for (const char* const profile : {"auto", "pinned"}) {
    use(1, [&](Config& config) {
      sockets(config).start = StartRule::leader_only;
      sockets(config).profile = profile;
    });
    run(1);
    Peer session = echo();
    for (int i = 0; i < 20; ++i) round_trip(session.get());
    std::vector<Stream> streams(5);
    std::vector<Operation*> reads;
    for (Stream& stream : streams) {
      reads.push_back(&operation());
      Handle* handle = adopt(stream.ours);
      read_byte(handle, *reads.back());
      if (reads.size() % 2 == 0) {
        EXPECT_EQ(proactor().cancel(*reads.back()), CancelResult::requested);
      } else {
        proactor().close_detached(*handle);
      }
    }
    for (Operation* read : reads) {
      wait_until([&] { return !read->is_pending(); });
      EXPECT_EQ(read->error(), std::errc::operation_canceled);
    }
    for (Stream& stream : streams) stream.peer.close();
    Operation& close = operation();
    Stream last;
    close.prepare(OperationKind::close, adopt(last.ours));
    ASSERT_FALSE(proactor().start(close));
    expect_success(close);
    EXPECT_TRUE(at_end(last.peer.get()));
    stop();
    destroy();
  }
}

BATON_CONFORMANCE_SUITE(Teams);

}  // namespace
}  // namespace baton::conformance
