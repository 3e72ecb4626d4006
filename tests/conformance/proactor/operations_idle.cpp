// Rule 11: a lasting state - an error, a hang-up, unread data - costs no CPU, however long it
// lasts. accept survives a lack of descriptors.
#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "../../support/counting_system.hpp"
#include "operations.hpp"

namespace baton::conformance {
namespace {

class Idle : public Operations {
 protected:
  /// Runs for a while in which nothing should happen: no wait returns, and no thread works between
  /// waits.
  void expect_quiet(Duration span) {
    run_for(1ms);
    const std::uint64_t waits = proactor().statistics().waits;
    run_for(span);
    EXPECT_LT(proactor().statistics().waits - waits, waits_max(span));
  }
  /// A thread that leads several engines looks at them every 2 ms while one of them backs off,
  /// since no descriptor shows its end.
  [[nodiscard]] std::uint64_t waits_max(Duration span) const {
    const bool leads_several = GetParam().team() && GetParam().mode == Mode::per_thread;
    return 40 + (leads_several ? static_cast<std::uint64_t>(span / 2ms) : 0);
  }

  /// No further descriptor can be opened while it lives.
  struct NoDescriptors {
    NoDescriptors() {
      ::getrlimit(RLIMIT_NOFILE, &saved);
      const Fd next = ::dup(2);
      const rlimit none{static_cast<rlim_t>(next.get()), saved.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &none);
    }
    ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &saved); }
    rlimit saved{};
  };

  /// Like a daemon that has opened all it needs.
  void reads_go_on_below(rlim_t limit) {
    constexpr int count = 8;
    use([](Config& config) { config.system = &test::counting_system(); });
    std::vector<Pair> pairs;
    std::vector<Probe*> reads;
    for (int i = 0; i < count; ++i) {
      pairs.push_back(unix_pair());
      reads.push_back(&reading(adopt(pairs.back().ours), memory(8)));
      start(*reads.back());
    }
    run_for(1ms);
    rlimit saved{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved), 0);
    const rlimit low{limit, saved.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    test::system_calls().clear();
    run_for(50ms);
    const std::uint64_t calls = test::system_calls().all_but_locks();
    for (const Pair& pair : pairs) send_all(pair.peer.get(), "data");
    run([&] {
      return std::all_of(reads.begin(), reads.end(), [](Probe* p) { return p->done(); });
    });
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &saved), 0);
    EXPECT_LT(calls, 4 * waits_max(50ms));
    for (const Probe* read : reads) EXPECT_EQ(read->bytes(), 4U) << read->error().message();
  }
};
BATON_CONFORMANCE_SOCKET_SUITE(Idle);

TEST_P(Idle, hang_ups_and_unread_data_cost_nothing) {
  Pair gone = tcp_pair();
  Pair unread = unix_pair();
  Pair half = unix_pair();
  Handle* const hung_up = adopt(gone.ours);
  Handle* const full = adopt(unread.ours);
  Handle* const ended = adopt(half.ours);
  for (const auto& [handle, peer] :
       {std::pair{hung_up, &gone.peer}, {full, &unread.peer}, {ended, &half.peer}}) {
    // Each has waited once, and may still be registered.
    Probe& read = reading(handle, memory(8));
    start(read);
    run_for(500us);
    send_all(peer->get(), "data");
    finish(read);
  }
  gone.peer.reset();                      // a hang-up, and nothing pending
  send_all(unread.peer.get(), "unread");  // data, and only a write pending
  ::shutdown(half.peer.get(), SHUT_WR);   // the end of the stream, likewise
  std::string& text = memory(pattern(2 << 20));
  start(writing(full, text, Operation::exactly));
  start(writing(ended, text, Operation::exactly));
  start(plain(OperationKind::wait_ready, full, Operation::writable));
  expect_quiet(50ms);
}

TEST_P(Idle, a_limit_below_the_open_descriptors_stops_nothing) { reads_go_on_below(2); }

// No descriptor may be polled.
TEST_P(Idle, a_limit_of_zero_descriptors_stops_nothing) { reads_go_on_below(0); }

TEST_P(Idle, accept_stays_pending_without_descriptors_and_recovers) {
  Endpoint endpoint = Endpoint::loopback(0);
  Fd listening = listener(endpoint);
  Handle* const acceptor = adopt(listening, HandleKind::listener);
  Probe& accept = plain(OperationKind::accept, acceptor);
  Probe& second = plain(OperationKind::accept, acceptor);
  Fd clients[2];
  for (Fd& client : clients) client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto connect = [&](int i) {
    ASSERT_EQ(
        ::connect(clients[i].get(), static_cast<const sockaddr*>(endpoint.data()), endpoint.size()),
        0);
  };
  run_for(1ms);  // everything the proactor opens late is open
  {
    const NoDescriptors none;
    start(accept);
    connect(0);
    run([&] { return proactor().statistics().accept_backoffs > 0; });
    expect_quiet(300ms);
    EXPECT_TRUE(accept.is_pending());
    EXPECT_EQ(accept.completions, 0);
  }
  connect(1);
  finish(accept);
  ASSERT_FALSE(accept.failed()) << accept.error().message();
  const Fd accepted = accept.accepted();
  // One of the two clients was accepted. The other one may still wait or may have been refused, so
  // the cancel may come too late.
  start(second);
  proactor().cancel(second);
  finish(second);
  if (second.failed()) {
    EXPECT_EQ(second.error(), std::errc::operation_canceled);
  } else {
    Fd{second.accepted()}.reset();
  }
}

TEST_P(Idle, accept_without_descriptors_can_be_cancelled_and_closed) {
  Endpoint endpoint = Endpoint::loopback(0);
  Fd listening = listener(endpoint);
  Handle* const acceptor = adopt(listening, HandleKind::listener);
  const Fd client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  run_for(1ms);
  const NoDescriptors none;
  ASSERT_EQ(::connect(client.get(), static_cast<const sockaddr*>(endpoint.data()), endpoint.size()),
            0);
  Probe& cancelled = plain(OperationKind::accept, acceptor);
  Probe& late = plain(OperationKind::accept, acceptor);
  Probe& closed = plain(OperationKind::accept, acceptor);
  late.set_deadline(Deadline::after(5ms));
  for (Probe* probe : {&cancelled, &late, &closed}) start(*probe);
  run_for(2ms);
  proactor().cancel(cancelled);
  finish(cancelled);
  EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
  finish(late);
  EXPECT_EQ(late.error(), errc::timed_out);
  EXPECT_FALSE(closed.done());
  finish_close(acceptor);
  EXPECT_EQ(closed.error(), std::errc::operation_canceled);
}

}  // namespace
}  // namespace baton::conformance
