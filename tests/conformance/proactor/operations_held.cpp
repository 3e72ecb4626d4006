// Rule 11 by counting: each lasting state of the fault matrix is held for two seconds while
// operations wait in it, all compatible states at once. The proactor, with its own threads, must
// make fewer than a hundred system calls. The test counts calls instead of time, so a busy machine
// does not matter.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "operations.hpp"
#include "support/every_call.hpp"

namespace baton::conformance {
namespace {

using test::EveryCall;

constexpr auto held_for = 2s;

class Held : public Operations {
 protected:
  void SetUp() override {
    Operations::SetUp();
    if (IsSkipped()) return;
    EveryCall::heal();
    use([](Config& config) { config.system = &EveryCall::system(); });
  }
  void TearDown() override {
    EveryCall::heal();
    Operations::TearDown();
  }

  /// Counts the calls of two seconds.
  void hold() {
    run_for(1ms);  // new operations settle
    Probe& end = operation();
    EveryCall::clear();
    start_timer(end, Deadline::after(held_for, proactor().now()));
    while (!end.done()) proactor().run_one(test::at_last());
  }
  /// `own`: for each fault the calls that only it causes. The remaining calls, the waits, count for
  /// every fault.
  void expect_few_calls(const std::vector<std::vector<std::string_view>>& own = {{}}) {
    hold();
    std::uint64_t shared = EveryCall::total();
    std::vector<std::uint64_t> counts;
    for (const auto& names : own) {
      counts.push_back(0);
      for (const std::string_view name : names) counts.back() += EveryCall::count_of(name);
      shared -= counts.back();
    }
    for (const std::uint64_t count : counts) {
      EXPECT_LT(count + shared, calls_max()) << EveryCall::to_string();
    }
  }
  /// States that have to be polled again end their pauses together, however many there are: a state
  /// that the system reports costs the one wait that the timer ends. A thread's look round after
  /// the wait, and each engine's, add a few calls.
  void expect_one_wait() {
    hold();
    // Each delay of the chaos engine is a call.
    EXPECT_LE(EveryCall::total(), with_troubles() ? calls_max() : one_wait_max)
        << EveryCall::to_string();
  }
  static constexpr std::uint64_t one_wait_max = 8;
  /// A thread that leads several engines polls each of them in each round.
  [[nodiscard]] std::uint64_t calls_max() const {
    const bool leads_several = GetParam().team() && GetParam().mode != Mode::dedicated;
    return leads_several ? 200 : 100;
  }

  /// A listener with a client that waits to be accepted.
  struct Waiting {
    Endpoint endpoint = Endpoint::loopback(0);
    Fd listening = listener(endpoint);
    Fd client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int descriptor = listening.get();

    Waiting() {
      EXPECT_EQ(
          ::connect(client.get(), static_cast<const sockaddr*>(endpoint.data()), endpoint.size()),
          0);
    }
  };
};
BATON_CONFORMANCE_SUITE(Held);

// Peers that are gone, silent or slow, on the real system.
TEST_P(Held, events_of_peers_cost_nothing) {
  Pair reset = tcp_pair();
  Pair unread = tcp_pair();
  Pair half = tcp_pair();
  Pair silent = tcp_pair();
  Pair no_reader = pipe_to_write();
  Pair no_writer = pipe_to_read();
  Pair slow = pipe_to_write();
  Waiting nobody_accepts;
  Handle* const hung_up = adopt(reset.ours);
  Handle* const full = adopt(unread.ours);
  Handle* const ended = adopt(half.ours);
  Handle* const quiet = adopt(silent.ours);
  Handle* const broken = adopt(no_reader.ours, HandleKind::pipe);
  Handle* const over = adopt(no_writer.ours, HandleKind::pipe);
  Handle* const clogged = adopt(slow.ours, HandleKind::pipe);
  adopt(nobody_accepts.listening, HandleKind::listener);
  // Each has waited once, and may still be registered.
  for (const auto& [handle, peer] : {std::pair{hung_up, &reset.peer},
                                     {full, &unread.peer},
                                     {ended, &half.peer},
                                     {over, &no_writer.peer}}) {
    Probe& read = reading(handle, memory(8));
    start(read);
    run_for(500us);
    ASSERT_EQ(::write(peer->get(), "data", 4), 4);
    finish(read);
  }
  Probe& written = writing(broken, memory("data"));
  finish(written);

  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(reset.peer.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  reset.peer.reset();                     // an RST, and nothing pending
  send_all(unread.peer.get(), "unread");  // data, and only a write pending
  ::shutdown(half.peer.get(), SHUT_WR);   // the end of the stream, likewise
  no_reader.peer.reset();                 // EPIPE, and nothing pending
  no_writer.peer.reset();                 // the end of a pipe, likewise
  std::string& text = memory(pattern(2 << 20));
  start(writing(full, text, Operation::exactly));
  start(writing(ended, text, Operation::exactly));
  start(writing(clogged, text, Operation::exactly));
  start(reading(quiet, memory(8)));
  start(plain(OperationKind::wait_ready, full, Operation::writable));
  Probe& far = operation();
  start_timer(far, Deadline::after(1h, proactor().now()));
  run_for(10ms);  // TCP fills its windows
  expect_one_wait();
  proactor().cancel_all();
}

// The kernel does not report that a full UNIX stream was shut down, so the write is tried again now
// and then.
TEST_P(Held, full_unix_peers_cost_little) {
  std::vector<Pair> pairs(3);
  std::string& text = memory(pattern(2 << 20));
  for (Pair& pair : pairs) {
    pair = unix_pair();
    start(writing(adopt(pair.ours), text, Operation::exactly));
  }
  expect_few_calls();
  proactor().cancel_all();
}

// Connections that all break off while they are accepted.
TEST_P(Held, broken_connections_cost_little) {
  Waiting breaks_off;
  Handle* const acceptor = adopt(breaks_off.listening, HandleKind::listener);
  EveryCall::fail("accept4", breaks_off.descriptor, ECONNABORTED);
  Probe& accept = plain(OperationKind::accept, acceptor);
  start(accept);
  expect_few_calls();
  EveryCall::heal();
  finish(accept);
  ASSERT_FALSE(accept.failed());
  Fd{accept.accepted()}.reset();
}

// Nothing left to accept with: of this process, of the system, of memory; and a backlog that is
// full.
TEST_P(Held, shortage_costs_little) {
  Waiting process;
  Waiting table;
  Waiting memory_short;
  Handle* const first = adopt(process.listening, HandleKind::listener);
  Handle* const second = adopt(table.listening, HandleKind::listener);
  Handle* const third = adopt(memory_short.listening, HandleKind::listener);

  Endpoint crowded = Endpoint::unix_path("@baton-held-" + std::to_string(::getpid())).value();
  const Fd full = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(full.get(), static_cast<const sockaddr*>(crowded.data()), crowded.size()), 0);
  ASSERT_EQ(::listen(full.get(), 0), 0);
  const Fd before = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(before.get(), static_cast<const sockaddr*>(crowded.data()), crowded.size()),
            0);
  Fd late = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Handle* const connecting = adopt(late);
  Probe& connect = plain(OperationKind::connect, connecting);
  connect.set_endpoint(&crowded);
  run_for(1ms);  // everything the proactor opens late is open

  EveryCall::fail("accept4", process.descriptor, EMFILE);
  EveryCall::fail("accept4", table.descriptor, ENFILE);
  EveryCall::fail("accept4", memory_short.descriptor, ENOBUFS);
  rlimit saved{};
  ::getrlimit(RLIMIT_NOFILE, &saved);
  {
    const Fd next = ::dup(2);
    // The ring's own work does not go through the table, so nothing is counted there.
    const rlimit none{static_cast<rlim_t>(next.get()), saved.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  Probe& one = plain(OperationKind::accept, first);
  Probe& two = plain(OperationKind::accept, second);
  Probe& three = plain(OperationKind::accept, third);
  for (Probe* probe : {&one, &two, &three, &connect}) start(*probe);
  expect_few_calls({{"accept4", "open"}, {"connect"}});
  for (Probe* probe : {&one, &two, &three}) EXPECT_EQ(probe->completions, 0);
  ::setrlimit(RLIMIT_NOFILE, &saved);
  proactor().cancel_all();
  for (Probe* probe : {&one, &two, &three, &connect}) finish(*probe);
  for (Probe* probe : {&one, &two, &three}) {
    if (!probe->failed()) Fd{probe->accepted()}.reset();
  }
}

// A pause tells one client, however many accepts are pending. The others wait, and may be accepted
// yet. A pause is never short, so a slow machine allows for more.
TEST_P(Held, each_pause_of_a_listener_turns_one_client_away) {
  constexpr int count = 16;
  Endpoint endpoint = Endpoint::loopback(0);
  Fd listening = listener(endpoint);
  Handle* const acceptor = adopt(listening, HandleKind::listener);
  Probe& before = plain(OperationKind::accept, acceptor);
  start(before);
  run_for(1ms);  // everything the proactor opens late is open
  proactor().cancel(before);
  finish(before);
  std::vector<Fd> clients;
  for (int i = 0; i < count; ++i) {
    clients.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  rlimit saved{};
  ::getrlimit(RLIMIT_NOFILE, &saved);
  {
    const Fd next = ::dup(2);
    const rlimit none{static_cast<rlim_t>(next.get()), saved.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  std::vector<Probe*> accepts;
  for (int i = 0; i < count; ++i) {
    accepts.push_back(&plain(OperationKind::accept, acceptor));
    start(*accepts.back());
  }
  // The chaos engine begins some of them later. One that is begun when the others look again begins
  // with the shortest pause.
  run_for(20ms);
  const Deadline begin = proactor().now();
  for (const Fd& client : clients) {
    const auto* const address = static_cast<const sockaddr*>(endpoint.data());
    EXPECT_EQ(::connect(client.get(), address, endpoint.size()), 0);
  }
  const auto turned_away = [&] {
    char byte = 0;
    return std::count_if(clients.begin(), clients.end(), [&byte](const Fd& client) {
      return ::recv(client.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    });
  };
  run([&] { return turned_away() >= 3; });
  const auto found = turned_away();
  std::ptrdiff_t allowed = 1;
  for (Duration pause = 10ms, over = pause; begin.ns() + over.count() <= proactor().now().ns();
       over += pause) {
    ++allowed;
    if (pause < 1s) pause *= 2;
  }
  EXPECT_LE(found, allowed);
  ::setrlimit(RLIMIT_NOFILE, &saved);
  proactor().cancel_all();
  for (Probe* const accept : accepts) {
    finish(*accept);
    if (!accept->failed()) Fd{accept->accepted()}.reset();
  }
}

// False readiness, again and again: a datagram with a wrong checksum, another reader, an unusual
// driver.
TEST_P(Held, empty_readiness_costs_little) {
  Pair input = unix_pair();
  Pair output = unix_pair();
  Waiting connection;
  const int reader = input.ours.get();
  const int writer = output.ours.get();
  Handle* const in = adopt(input.ours);
  Handle* const out = adopt(output.ours);
  Handle* const acceptor = adopt(connection.listening, HandleKind::listener);
  for (const char* const call : {"recv", "recvmsg"}) EveryCall::fail(call, reader, EAGAIN);
  for (const char* const call : {"send", "sendmsg"}) EveryCall::fail(call, writer, EAGAIN);
  EveryCall::fail("accept4", connection.descriptor, EAGAIN);
  send_all(input.peer.get(), "data");
  Probe& read = reading(in, memory(8));
  Probe& write = writing(out, memory("data"));
  Probe& accept = plain(OperationKind::accept, acceptor);
  for (Probe* probe : {&read, &write, &accept}) start(*probe);
  expect_few_calls({{"recv", "recvmsg"}, {"send", "sendmsg"}, {"accept4"}});
  EveryCall::heal();
  for (Probe* probe : {&read, &write, &accept}) finish(*probe);
  EXPECT_EQ(read.bytes(), 4U);
  EXPECT_EQ(write.bytes(), 4U);
  ASSERT_FALSE(accept.failed());
  Fd{accept.accepted()}.reset();
}

// The kernel has no room for another file operation; or the system's AIO no thread, which is an
// error before long.
TEST_P(Held, a_full_queue_of_the_kernel_costs_little) {
  if (with_troubles())
    GTEST_SKIP() << "an engine without room is asked again each millisecond there";
  if (!GetParam().files_only) GTEST_SKIP() << "there is no queue of file operations in this engine";
  // Past the page cache where the file system can. Elsewhere a worker does it.
  constexpr std::size_t block = 4'096;
  Fd file = temporary(O_RDWR);
  std::string& room = memory(2 * block);
  ASSERT_EQ(::pwrite(file.get(), room.data(), block, 0), static_cast<ssize_t>(block));
  static_cast<void>(::fcntl(file.get(), F_SETFL, O_DIRECT));
  Handle* const handle = adopt(file, HandleKind::file);
  EveryCall::fail("io_submit", handle->native(), EAGAIN);
  EveryCall::fail("aio_read", EveryCall::any_descriptor, EAGAIN);
  Probe& read = file_reading(handle, room, 0);
  void* aligned = room.data();
  std::size_t space = room.size();
  ASSERT_NE(std::align(block, block, aligned, space), nullptr);
  read.set_buffer(MutableBuffer{aligned, block});
  start(read);
  expect_few_calls();
  EveryCall::heal();
  finish(read);
  if (GetParam().notify != "-") {
    EXPECT_EQ(read.error(), std::errc::not_enough_memory) << read.error().message();
  } else {
    EXPECT_EQ(read.bytes(), block);
  }
}

}  // namespace
}  // namespace baton::conformance
