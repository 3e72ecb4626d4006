// Everything at once: four threads, sessions, timers, strands, cancels and closes, with balanced
// accounts; many signals; operations and proactors that come and go.
#include <csignal>
#include <random>

#include "../../support/restore_signal.hpp"
#include "baton/strand.hpp"
#include "threads.hpp"

namespace baton::conformance {
namespace {

class Stress : public Threads {
 protected:
  void expect_balance() {
    const Statistics sum = proactor().statistics();
    EXPECT_EQ(sum.started + sum.posted, sum.completed);
    EXPECT_EQ(sum.pending, 0U);
    EXPECT_EQ(sum.handles, 0U);
  }
  /// Closes the sessions of these peers.
  void hang_up(std::vector<Peer>& peers) {
    for (Peer& peer : peers) peer.close();
    wait_until([&] { return proactor().statistics().handles == 0; });
  }
};

/// Timers started and cancelled by their own thread and by handlers.
void stir_timers(Proactor& proactor, int rounds) {
  std::minstd_rand random{1};
  std::deque<Operation> timers(20);
  std::atomic<int> fired{0};
  for (Operation& timer : timers) {
    timer.set_handler([to = &fired](Operation&) { to->fetch_add(1); });
  }
  int started = 0;
  for (int i = 0; i < rounds; ++i) {
    Operation& timer = timers[random() % timers.size()];
    if (timer.is_pending()) {
      proactor.cancel(timer, timer.activation());
      continue;
    }
    const auto soon = std::chrono::microseconds{random() % 500};
    if (!proactor.start_timer(timer, Deadline::after(soon, proactor.now()))) ++started;
  }
  for (Operation& timer : timers) {
    while (timer.is_pending()) std::this_thread::yield();
  }
  while (fired != started) std::this_thread::yield();
}

/// Connections whose reads are cancelled, reset or closed under them.
void open_and_break(Proactor& proactor, int rounds) {
  std::minstd_rand random{2};
  for (int i = 0; i < rounds; ++i) {
    Stream stream;
    auto handle = proactor.adopt(stream.ours.get(), HandleKind::stream_socket, Ownership::owned,
                                 Home{static_cast<std::uint32_t>(i % 4)});
    ASSERT_TRUE(handle);
    static_cast<void>(stream.ours.release());
    std::deque<Operation> reads(3);
    char bytes[3];
    for (std::size_t j = 0; j < reads.size(); ++j) {
      reads[j].prepare(OperationKind::read_stream, *handle);
      reads[j].set_buffer(MutableBuffer{&bytes[j], 1});
      ASSERT_FALSE(proactor.start(reads[j]));
    }
    switch (random() % 4) {
      case 0:
        proactor.cancel(**handle);
        break;
      case 1:
        send_all(stream.peer.get(), "ab", 2);
        break;
      case 2:
        stream.peer.close();
        break;
      default:
        break;
    }
    proactor.close_detached(**handle);
    for (Operation& read : reads) {
      while (read.is_pending()) std::this_thread::yield();
    }
  }
}

/// Posts to one strand from a thread of its own: their handlers exclude each other.
void post_in_turn(Proactor& proactor, int rounds) {
  Strand strand{proactor};
  std::deque<Operation> posts(16);
  struct Shared {
    int count = 0;  // no lock: the strand is the lock
    std::atomic<int> seen{0};
  } shared;
  for (Operation& post : posts) {
    post.set_strand(&strand);
    post.set_handler([to = &shared](Operation&) {
      ++to->count;
      to->seen.fetch_add(1);
    });
  }
  for (int i = 0; i < rounds; ++i) {
    Operation& post = posts[static_cast<std::size_t>(i) % posts.size()];
    while (post.is_pending()) std::this_thread::yield();
    ASSERT_FALSE(proactor.post(post));
  }
  while (shared.seen != rounds) std::this_thread::yield();
  EXPECT_EQ(shared.count, rounds);
}

TEST_P(Stress, four_threads_and_everything) {
  use(4);
  run(4);
  const int rounds = tries(600);
  std::vector<Peer> sessions;
  for (std::uint32_t i = 0; i < 8; ++i) sessions.push_back(echo(Home{i % 4}));
  std::vector<std::thread> stirring;
  for (const Peer& session : sessions) {
    stirring.emplace_back([fd = session.get(), rounds] {
      for (int i = 0; i < rounds; ++i) {
        const auto number = static_cast<unsigned>(i);
        round_trip(fd, 1 + number * 37 % 2'000, number);
      }
    });
  }
  stirring.emplace_back([&] { stir_timers(proactor(), 10 * rounds); });
  stirring.emplace_back([&] { open_and_break(proactor(), rounds); });
  stirring.emplace_back([&] { post_in_turn(proactor(), 10 * rounds); });
  for (std::thread& thread : stirring) thread.join();
  hang_up(sessions);
  stop();
  expect_balance();
}

// Threads that enter, run a few handlers and leave, while others stay.
TEST_P(Stress, threads_come_and_go_under_load) {
  use(4);
  run(2);
  constexpr int rounds = 300 / slowness;
  std::vector<Peer> sessions;
  for (std::uint32_t i = 0; i < 4; ++i) sessions.push_back(echo(Home{i % 2}));
  std::atomic<bool> over{false};
  std::vector<std::thread> visitors;
  for (int i = 0; i < 2; ++i) {
    visitors.emplace_back([&] {
      while (!over) {
        proactor().run_one(Deadline::after(200us, proactor().now()));
        proactor().poll();
      }
    });
  }
  std::vector<std::thread> clients;
  for (const Peer& session : sessions) {
    clients.emplace_back([fd = session.get()] {
      for (unsigned i = 0; i < rounds; ++i) round_trip(fd, 100, i);
    });
  }
  for (std::thread& client : clients) client.join();
  over = true;
  for (std::thread& visitor : visitors) visitor.join();
  if (mode() == Mode::per_thread) run(2);  // for the lanes that the visitors have left
  hang_up(sessions);
  stop();
  expect_balance();
}

/// Threads started while it lives take SIGUSR1, whose handler does nothing and restarts nothing;
/// this one does not.
class Storm {
 public:
  Storm() {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before_);
  }
  ~Storm() {
    over_ = true;
    const bool blew = thread_.joinable();
    if (blew) thread_.join();
    test::restore_signal(SIGUSR1, before_);
    if (blew) ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  /// From here on this thread, and those that it starts, block the signal.
  void blow() {
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &usr1, &mask_);
    thread_ = std::thread{[this] {
      while (!over_) {
        ::kill(::getpid(), SIGUSR1);
        std::this_thread::sleep_for(20us);
      }
    }};
  }

 private:
  struct sigaction before_{};
  sigset_t mask_{};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST_P(Stress, a_storm_of_signals_changes_nothing) {
  use(2);
  Storm storm;
  run(2);
  constexpr int rounds = 500 / slowness;
  std::vector<Peer> sessions;
  for (std::uint32_t i = 0; i < 3; ++i) sessions.push_back(echo(Home{i % 2}));
  storm.blow();
  std::vector<std::thread> clients;
  for (const Peer& session : sessions) {
    clients.emplace_back([fd = session.get()] {
      for (unsigned i = 0; i < rounds; ++i) round_trip(fd, 1 + i * 61 % 1'000, i);
    });
  }
  clients.emplace_back([&] { stir_timers(proactor(), rounds); });
  char path[] = "/tmp/baton_storm_XXXXXX";
  Peer fd{::mkstemp(path)};
  ::unlink(path);
  Handle* file = adopt(fd, HandleKind::file);
  std::string data(10'000, '\0');
  std::string back(data.size(), '\0');
  Operation& transfer = operation();
  for (int i = 0; i < rounds / 5; ++i) {
    data.assign(data.size(), static_cast<char>('a' + i % 26));
    transfer.prepare(OperationKind::write_file, file, Operation::exactly);
    transfer.set_buffer(ConstBuffer{data.data(), data.size()});
    ASSERT_FALSE(proactor().start(transfer));
    wait_until([&] { return !transfer.is_pending(); });
    ASSERT_FALSE(transfer.failed()) << transfer.error();
    transfer.prepare(OperationKind::read_file, file, Operation::exactly);
    transfer.set_buffer(MutableBuffer{back.data(), back.size()});
    ASSERT_FALSE(proactor().start(transfer));
    wait_until([&] { return !transfer.is_pending(); });
    ASSERT_FALSE(transfer.failed()) << transfer.error();
    ASSERT_EQ(data, back);
  }
  for (std::thread& client : clients) client.join();
  proactor().close_detached(*file);
  hang_up(sessions);
  stop();
  expect_balance();
}

TEST_P(Stress, a_hundred_thousand_operations_come_and_go) {
  use(1);
  Stream stream;
  Handle* handle = adopt(stream.ours);
  std::vector<std::unique_ptr<Operation>> some(100);
  std::size_t ran = 0;
  std::string bytes(100, ' ');
  const std::string data(25, 'x');  // for half of the reads
  const std::size_t rounds = with_troubles() ? 100 : 1'000;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < some.size(); ++i) {
      some[i] = std::make_unique<Operation>();
      some[i]->set_handler([to = &ran](Operation&) { ++*to; });
      if (i % 4 == 0) {
        ASSERT_FALSE(proactor().post(*some[i]));
      } else if (i % 4 == 1) {
        ASSERT_FALSE(proactor().start_timer(*some[i], proactor().now()));
      } else {
        some[i]->prepare(OperationKind::read_stream, handle);
        some[i]->set_buffer(MutableBuffer{&bytes[i], 1});
        ASSERT_FALSE(proactor().start(*some[i]));
      }
    }
    send_all(stream.peer.get(), data.data(), data.size());
    for (std::size_t i = 3; i < some.size(); i += 8) proactor().cancel(*some[i]);
    if (round % 2 == 0) proactor().poll();
    proactor().cancel(*handle);
    run_until(proactor(), [&] { return ran == (round + 1) * some.size(); });
    for (char byte = 0; ::recv(handle->native(), &byte, 1, MSG_DONTWAIT) == 1;) {
    }
  }
  some.clear();
  EXPECT_EQ(ran, rounds * 100);
}

TEST_P(Stress, proactors_come_and_go) {
  for (int i = 0; i < tries(100); ++i) {
    use(2);
    run(2);
    Peer session = echo();
    Stream pending;
    read_byte(adopt(pending.ours), operation());
    if (i % 2 == 0) round_trip(session.get());
    stop();
    destroy();
  }
}

BATON_CONFORMANCE_SUITE(Stress);

}  // namespace
}  // namespace baton::conformance
