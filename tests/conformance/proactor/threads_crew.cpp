// per_thread mode with more lanes than threads or fewer: the threads present serve all lanes (P-14,
//
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <stdexcept>
#include <system_error>
#include <thread>

#include "baton/coro/awaitable.hpp"
#include "baton/coro/run.hpp"
#include "baton/stream_socket.hpp"
#include "threads.hpp"

namespace baton::conformance {
namespace {

class Crews : public Threads {
 protected:
  /// An engine that is pinned because the user says so stays with its thread; here it may choose.
  void use_lanes(unsigned lanes) {
    use(lanes, [](Config& config) {
      if (sockets(config).profile == "pinned") sockets(config).profile = "auto";
    });
  }
  [[nodiscard]] bool pinned() const { return GetParam().profile == "pinned"; }
  Operation& read_in(std::uint32_t lane, Stream& stream) {
    Operation& read = operation();
    read_byte(adopt(stream.ours, HandleKind::stream_socket, Home{lane}), read);
    return read;
  }
  std::vector<Peer> sessions_in_all_lanes(unsigned each) {
    std::vector<Peer> sessions;
    for (unsigned i = 0; i < each * proactor().lanes(); ++i) {
      sessions.push_back(echo(Home{i % proactor().lanes()}));
    }
    return sessions;
  }
  void expect_no_thread_for(Task<void> task, const char* why) {
    try {
      run_until_complete(proactor(), std::move(task));
      ADD_FAILURE() << why;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), errc::wrong_thread);
      EXPECT_NE(std::string{error.what()}.find("profile=any"), std::string::npos) << error.what();
    }
  }
  static void serve(const std::vector<Peer>& sessions, int times = 1) {
    for (int i = 0; i < times; ++i) {
      for (const Peer& session : sessions) round_trip(session.get());
    }
  }
  /// In a thread of its own: sessions that never pause.
  class Load {
   public:
    explicit Load(std::vector<Peer> sessions)
        : sessions_(std::move(sessions)), thread_([this] {
            while (!over_) {
              serve(sessions_);
              ++rounds_;
            }
          }) {}
    ~Load() {
      over_ = true;
      thread_.join();
    }
    [[nodiscard]] int rounds() const { return rounds_; }
    void some_more() const {
      const int before = rounds_;
      wait_until([&] { return rounds_ > before + 2; });
    }

   private:
    std::atomic<bool> over_{false};
    std::atomic<int> rounds_{0};
    std::vector<Peer> sessions_;
    std::thread thread_;
  };
};

TEST_P(Crews, every_connection_is_served) {
  for (const unsigned lanes : {1U, 2U, 5U}) {
    for (const unsigned threads : {1U, 2U, 5U}) {
      use_lanes(lanes);
      std::vector<Peer> sessions = sessions_in_all_lanes(2);
      run(threads);
      serve(sessions, 3);
      for (unsigned i = 0; i < lanes; ++i) sessions.push_back(echo(Home{i}));
      for (unsigned i = 0; i < lanes; ++i) sessions.push_back(echo());
      serve(sessions, 3);
      stop();
      EXPECT_TRUE(failures().empty());
      destroy();
    }
  }
}

// The thread is in a turn of its home alone, whose handler takes another lane by a call of its own,
// or finds that it has to wait for that.
TEST_P(Crews, a_lane_that_a_nested_call_has_seen_is_served_afterwards) {
  use_lanes(2);
  std::atomic<int> ran{0};
  std::atomic<bool> returned{false};
  run(1);
  post([&] { ++ran; }, Notify::strong, Home{0});
  wait_until([&] { return ran == 1 && are_asleep(1); });
  const auto body = [&] {
    post([&] { ++ran; }, Notify::strong, Home{1});
    proactor().poll();
    returned = true;
  };
  post(body, Notify::strong, Home{0});
  wait_until([&] { return ran == 2 && returned; });
  for (int i = 3; i < 6; ++i) {
    wait_until([&] { return are_asleep(1); });
    post([&] { ++ran; }, Notify::strong, Home{1});
    wait_until([&] { return ran == i; });
  }
  stop();
}

TEST_P(Crews, a_thread_too_many_stands_by_and_takes_over) {
  use_lanes(2);
  std::vector<Peer> sessions = sessions_in_all_lanes(1);
  run(3);
  wait_until([&] { return are_asleep(3); });
  EXPECT_EQ(proactor().poll(), 0U) << "nothing is left for this one";
  serve(sessions);
  for (std::uint32_t lane = 0; lane < 2; ++lane) {
    post([] { throw std::runtime_error{"leaves"}; }, Notify::strong, Home{lane});
    wait_until([&] { return failures().size() > lane; });
    serve(sessions, 3);
  }
  stop();
}

// At first a thread may see the other lane without a thread and look again later. Until then it
// ignores lanes that were left.
TEST_P(Crews, a_thread_too_many_takes_over_at_once) {
  for (int round = 0; round < tries(20); ++round) {
    use_lanes(2);
    std::vector<Peer> sessions = sessions_in_all_lanes(1);
    run(3);
    const auto lane = static_cast<std::uint32_t>(round % 2);
    post([] { throw std::runtime_error{"leaves"}; }, Notify::strong, Home{lane});
    wait_until([&] { return failures().size() > static_cast<std::size_t>(round); });
    serve(sessions);
    sessions.clear();
    stop();
    destroy();
  }
}

// A thread that leads two lanes loans one while it is in a handler of the other. It takes that one
// back for a moment when the handler asks what is pending.
TEST_P(Crews, a_lane_that_reported_its_pending_operations_is_still_loaned) {
  use(2, [](Config& config) { sockets(config).profile = "any"; });
  Stream streams[2];
  Operation* const reads[] = {&read_in(0, streams[0]), &read_in(1, streams[1])};
  run(1);
  Gate gate;
  std::uint32_t here = 2;
  std::atomic<bool> both{false};
  const std::function<void()> ask = [&] {
    here = proactor().current_lane();
    both = proactor().pending().matching == 2;
    if (both) {
      gate.wait();
      EXPECT_TRUE(gate.is_open()) << "no other thread has led the lane that this one has loaned";
    } else {  // it has not taken the other one yet
      EXPECT_FALSE(proactor().post(ask));
    }
  };
  post(ask);
  wait_until([&] { return both.load(); });
  run(1);
  send_all(streams[1 - here].peer.get(), "x", 1);
  wait_until([&] { return !reads[1 - here]->is_pending(); });
  gate.open();
  send_all(streams[here].peer.get(), "x", 1);
  wait_until([&] { return !reads[here]->is_pending(); });
}

TEST_P(Crews, threads_come_and_go_under_load) {
  use_lanes(3);
  std::vector<Peer> sessions = sessions_in_all_lanes(2);
  run(1);
  {
    const Load load{std::move(sessions)};
    load.some_more();
    run(1);
    load.some_more();
    for (int i = 0; i < 5; ++i) {
      std::thread{[&] {
        for (int k = 0; k < 20; ++k) proactor().handle_events(Deadline::after(1ms));
        proactor().poll();
      }}.join();
      load.some_more();
    }
    // The last thread to come takes a lane over, and is the only one in the end.
    run(1);
    for (std::size_t left = 1; left <= 2; ++left) {
      post([] { throw std::runtime_error{"leaves"}; });
      wait_until([&] { return failures().size() == left; });
      load.some_more();
    }
  }
  stop();
}

// Two threads that only come and go: a lane whose thread is away is not lost.
TEST_P(Crews, visitors_serve_all_lanes) {
  use_lanes(3);
  std::vector<Peer> sessions = sessions_in_all_lanes(2);
  std::atomic<bool> over{false};
  std::vector<std::thread> visitors;
  for (int i = 0; i < 2; ++i) {
    visitors.emplace_back([&] {
      while (!over) proactor().handle_events(Deadline::after(5ms), 3);
    });
  }
  serve(sessions, 10);
  over = true;
  for (std::thread& visitor : visitors) visitor.join();
}

TEST_P(Crews, an_exception_leaves_the_lanes_as_they_are) {
  use_lanes(2);
  Stream streams[2];
  Operation* reads[] = {&read_in(0, streams[0]), &read_in(1, streams[1])};
  proactor().poll();
  for (std::uint32_t lane = 0; lane < 2; ++lane) {
    post([] { throw std::runtime_error{"of the handler"}; }, Notify::strong, Home{lane});
    EXPECT_THROW(proactor().run(), std::runtime_error);
  }
  for (const Stream& stream : streams) send_all(stream.peer.get(), "x", 1);
  run_until(proactor(), [&] { return !reads[0]->is_pending() && !reads[1]->is_pending(); });
  for (const Operation* read : reads) {
    EXPECT_FALSE(read->error());
    EXPECT_EQ(read->bytes(), 1U);
  }
}

TEST_P(Crews, a_stop_and_a_restart_at_once_bring_every_thread_home) {
  for (const unsigned threads : {1U, 2U, 4U}) {
    use_lanes(3);
    std::vector<Peer> sessions = sessions_in_all_lanes(1);
    for (int i = 0; i < 20 / slowness + 2; ++i) {
      run(threads);
      // Once: a thread that waits in several lanes, one of them without a descriptor, polls
      // periodically.
      wait_until([&] { return are_asleep(static_cast<int>(threads)); });
      proactor().stop();
      proactor().restart();
      join();
    }
    run(threads);
    serve(sessions);
    stop();
    EXPECT_TRUE(failures().empty());
    destroy();
  }
}

TEST_P(Crews, timers_and_posts_need_no_thread_of_their_own) {
  use_lanes(4);
  run(1);
  std::atomic<int> ran{0};
  for (std::uint32_t lane = 0; lane < 4; ++lane) {
    post(
        [&] {
          timer(Deadline::after(1ms), [&] {
            EXPECT_FALSE(proactor().post([&] { ++ran; }));
            ++ran;
          });
          ++ran;
        },
        Notify::strong, Home{lane});
  }
  wait_until([&] { return ran == 12; });
  // A lane whose thread leaves has a timer to come.
  timer(Deadline::after(20ms), [&] { ++ran; });
  proactor().stop();
  proactor().restart();
  join();
  run(1);
  wait_until([&] { return ran == 13; });
}

TEST_P(Crews, cancel_and_drain_reach_lanes_without_a_thread) {
  use_lanes(3);
  Stream streams[3];
  std::vector<Operation*> reads;
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    reads.push_back(&operation());
    Handle* handle = adopt(streams[lane].ours, HandleKind::stream_socket, Home{lane});
    read_byte(handle, *reads.back());
    if (lane == 2) proactor().close_detached(*handle);
  }
  run(1);
  wait_until([&] { return !reads[2]->is_pending(); });
  EXPECT_EQ(reads[2]->error(), std::errc::operation_canceled);
  EXPECT_EQ(proactor().cancel(*reads[1], reads[1]->activation()), CancelResult::requested);
  wait_until([&] { return !reads[1]->is_pending(); });
  EXPECT_EQ(reads[1]->error(), std::errc::operation_canceled);
  // Ends with the last operation, in whichever lane that is.
  proactor().drain(Deadline::never());
  send_all(streams[0].peer.get(), "x", 1);
  join();
  EXPECT_FALSE(reads[0]->error());
}

// A lane that was led for a moment counts as quiet afterwards.
TEST_P(Crews, a_drain_ends_though_lanes_were_left_or_led_besides) {
  for (int round = 0; round < 5; ++round) {
    use_lanes(2);
    Stream stream;
    std::atomic<bool> visits{true};
    std::atomic<bool> was_here{false};
    std::thread visitor{[&] {
      while (visits) {
        proactor().handle_events(Deadline::after(2ms));
        was_here = true;
      }
    }};
    wait_until([&] { return was_here.load(); });
    run(1);
    wait_until([&] { return are_asleep(1); });
    Handle* const handle = adopt(stream.ours, HandleKind::stream_socket, Home{0});
    visits = false;
    visitor.join();
    if (round % 2 == 0) {
      proactor().close_detached(*handle);
    } else {
      Operation& read = operation();
      read_byte(handle, read);
      proactor().stop();
      join();
      proactor().restart();
      run(1);
      send_all(stream.peer.get(), "x", 1);
      wait_until([&] { return !read.is_pending(); });
    }
    // The thread has led the other lane, or has found that it need not. A pinned engine with
    // delayed results waits for its own thread.
    if (!with_troubles()) wait_until_asleep_for_good(1);
    proactor().drain(Deadline::never());
    join();
    destroy();
  }
}

TEST_P(Crews, a_few_handlers_at_a_time_reach_every_lane) {
  use_lanes(3);
  Stream stream;
  Operation& read = read_in(2, stream);
  send_all(stream.peer.get(), "x", 1);
  struct Chain {
    Proactor& proactor;
    bool ended = false;
    bool at_rest = false;
  } chain{.proactor = proactor()};
  Operation& link = operation();
  link.set_handler([to = &chain](Operation& self) {
    to->at_rest = to->ended;
    if (to->ended) return;
    EXPECT_FALSE(to->proactor.post(self, Notify::strong, Home{0}));
  });
  ASSERT_FALSE(proactor().post(link, Notify::strong, Home{0}));
  const Deadline end = test::at_last();
  while (read.is_pending() && test::is_ahead(end)) {
    proactor().handle_events(Deadline::immediately(), 1);
  }
  EXPECT_FALSE(read.is_pending()) << "only the first lane had its turn";
  chain.ended = true;
  while (!chain.at_rest) proactor().handle_events(Deadline::immediately(), 1);
}

TEST_P(Crews, one_thread_drives_all_lanes_by_any_call) {
  const std::function<void()> calls[] = {
      [&] { proactor().handle_events(Deadline::after(1ms)); }, [&] { proactor().poll(); },
      [&] { proactor().run_one(Deadline::after(1ms)); },
      [&] { proactor().handle_events(Deadline::after(1ms), 2); }};
  for (const auto& call : calls) {
    use_lanes(3);
    Stream streams[3];
    std::vector<Operation*> reads;
    for (std::uint32_t lane = 0; lane < 3; ++lane) reads.push_back(&read_in(lane, streams[lane]));
    for (const Stream& stream : streams) send_all(stream.peer.get(), "x", 1);
    const auto done = [&] {
      return !reads[0]->is_pending() && !reads[1]->is_pending() && !reads[2]->is_pending();
    };
    wait_until([&] {
      call();
      return done();
    });
    for (const Operation* read : reads) EXPECT_FALSE(read->error());
    destroy();
  }
}

// The same inside a handler, which would wait for ever for a result that only its own thread can
// bring.
TEST_P(Crews, a_handler_that_drives_drives_all_lanes) {
  use_lanes(2);
  Stream streams[2];
  Operation* reads[] = {&read_in(0, streams[0]), &read_in(1, streams[1])};
  bool both = false;
  post([&] {
    for (const Stream& stream : streams) send_all(stream.peer.get(), "x", 1);
    while (reads[0]->is_pending() || reads[1]->is_pending()) {
      proactor().handle_events(Deadline::after(1ms));
    }
    both = true;
  });
  run_until(proactor(), [&] { return both; });
}

TEST_P(Crews, new_handles_get_a_lane_that_has_a_thread) {
  use_lanes(3);
  run(1);
  // Until six handles in a row get the same lane: the first ones may get lanes whose threads are
  // still expected.
  std::uint32_t home = 99;
  int same = 0;
  wait_until([&] {
    Stream stream;
    Handle* const handle = adopt(stream.ours);
    const std::uint32_t lane = proactor().home_lane(*handle);
    same = lane == home ? same + 1 : 1;
    home = lane;
    proactor().close_detached(*handle);
    EXPECT_TRUE(at_end(stream.peer.get()));  // a thread has come, and few descriptors are open
    return same == 6;
  });
  std::atomic<std::uint32_t> from{99};
  std::atomic<std::uint32_t> to{99};
  post(
      [&] {
        Stream stream;
        from = proactor().current_lane();
        to = proactor().home_lane(*adopt(stream.ours));
      },
      Notify::strong, Home{(home + 1) % 3});
  wait_until([&] { return to != 99; });
  EXPECT_EQ(from, (home + 1) % 3);
  EXPECT_EQ(to, home) << "the lane that its thread leads besides is to become empty";
}

// The program of the README: as many lanes as there are cores, and one thread.
TEST_P(Crews, a_server_with_one_thread_serves_every_connection) {
  use_lanes(0);
  Peer listener{::socket(AF_INET, SOCK_STREAM, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 16), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  Operation& accept = operation();
  Handle* handle = adopt(listener, HandleKind::listener);
  const auto accept_next = [&] {
    accept.prepare(OperationKind::accept, handle);
    static_cast<void>(proactor().start(accept));
  };
  accept.set_handler([&](Operation& done) {
    if (done.failed()) return;
    Peer connection{static_cast<int>(done.bytes())};
    Handle* session = adopt(connection, HandleKind::stream_socket, Home{Home::by_policy});
    echoes().emplace_back(proactor(), session).start();
    accept_next();
  });
  accept_next();
  run(1);
  std::vector<Peer> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(clients.back().get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    round_trip(clients.back().get());
  }
  serve(clients, 3);
  stop();
}

// Work that no thread serves is reported.
TEST_P(Crews, a_pinned_engine_without_its_thread_is_an_error) {
  if (!pinned()) return;
  use(2);
  Stream streams[2];
  read_in(0, streams[0]);
  read_in(1, streams[1]);
  try {
    proactor().run();
    ADD_FAILURE() << "one lane has no thread";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), errc::wrong_thread);
    EXPECT_NE(std::string{error.what()}.find("profile=pinned"), std::string::npos) << error.what();
  }
}

Task<std::error_code> read_one(StreamSocket& stream, char* byte) {
  const auto result = co_await stream.read(MutableBuffer{byte, 1});
  co_return result ? std::error_code{} : result.error();
}

// A task that this thread cannot drive is left, cancelled, to the thread that can.
TEST_P(Crews, a_task_in_a_pinned_lane_without_its_thread_is_an_error) {
  if (!pinned()) return;
  use(2);
  Stream streams[2];
  Operation& other = read_in(0, streams[0]);
  Result<StreamSocket> socket =
      StreamSocket::adopt(proactor(), streams[1].ours.release(), Ownership::owned, Home{1});
  ASSERT_TRUE(socket);
  post([] {}, Notify::strong, Home{0});
  ASSERT_TRUE(proactor().run_one());  // this thread keeps the first lane
  EXPECT_TRUE(other.is_pending());
  bool ended = false;
  const auto task = [&]() -> Task<void> {
    const std::error_code error = co_await read_one(*socket, memory(1));
    EXPECT_EQ(error, std::errc::operation_canceled);
    ended = true;
  };
  expect_no_thread_for(task(), "the lane of the task has no thread");
  EXPECT_FALSE(ended);
  EXPECT_TRUE(other.is_pending()) << "this lane is not concerned";
  std::thread{[this] { proactor().run_one(); }}.join();
  EXPECT_TRUE(ended);
}

TEST_P(Crews, a_task_in_a_lane_that_another_thread_keeps_is_an_error) {
  if (!pinned()) return;
  use(1);
  Stream streams[2];
  read_in(0, streams[0]);
  Result<StreamSocket> socket =
      StreamSocket::adopt(proactor(), streams[1].ours.release(), Ownership::owned);
  ASSERT_TRUE(socket);
  Gate kept;
  Gate failed;
  std::thread keeper{[&] {
    post([] {});
    EXPECT_TRUE(proactor().run_one());
    kept.open();
    failed.wait();
    proactor().run_one();
  }};
  kept.wait();
  bool ended = false;
  const auto task = [&]() -> Task<void> {
    static_cast<void>(co_await read_one(*socket, memory(1)));
    ended = true;
  };
  expect_no_thread_for(task(), "another thread keeps the lane");
  EXPECT_FALSE(ended);
  failed.open();
  keeper.join();
  EXPECT_TRUE(ended);
}

// A thread that would lead two lanes needs another ring for that.
class CrewsWithoutRings : public Crews {
 protected:
  /// The system's answer from now on; 0: the real one.
  static inline std::atomic<int> setup_error{0};
  static inline std::atomic<int> enter_error{0};

  static int answer(std::atomic<int>& error) {
    errno = error;
    return error == 0 ? 0 : -1;
  }
  static const os::System& system() {
    static const os::System table = [] {
      os::System changed = watched_system();
      changed.io_uring_setup = [](unsigned entries, void* parameters) {
        const int answered = answer(setup_error);
        return answered != 0 ? answered : watched_system().io_uring_setup(entries, parameters);
      };
      changed.io_uring_enter = [](int ring, unsigned submit, unsigned complete, unsigned flags,
                                  const void* argument, std::size_t size) {
        const int answered = answer(enter_error);
        return answered != 0
                   ? answered
                   : watched_system().io_uring_enter(ring, submit, complete, flags, argument, size);
      };
      return changed;
    }();
    return table;
  }
  void use_two_lanes() {
    use(2, [](Config& config) {
      sockets(config).profile = "auto";
      config.system = &system();
    });
  }
  void finish_by_deadlines(const Operation& operation) {
    while (operation.is_pending()) proactor().run_one(Deadline::after(20ms, proactor().now()));
  }
  void run_says_so() {
    try {
      proactor().run();
      ADD_FAILURE() << "one lane has no thread";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), errc::wrong_thread);
      EXPECT_NE(std::string{error.what()}.find("another ring could not be opened"),
                std::string::npos)
          << error.what();
    }
    setup_error = enter_error = 0;
  }
};

TEST_P(CrewsWithoutRings, a_lane_that_is_not_led_is_an_error) {
  if (!pinned()) return;
  use_two_lanes();
  Stream streams[2];
  Operation* const reads[] = {&read_in(0, streams[0]), &read_in(1, streams[1])};
  setup_error = EMFILE;
  run_says_so();
  for (const Stream& stream : streams) send_all(stream.peer.get(), "x", 1);
  run(1);
  // This thread has kept the lane that it had, for it could not give the ring away.
  for (const Operation* const read : reads) {
    finish_by_deadlines(*read);
    EXPECT_FALSE(read->failed()) << read->error().message();
  }
}

// A lane that was idle when its thread left has a pinned ring, which its next thread cannot enter.
TEST_P(CrewsWithoutRings, a_lane_whose_next_thread_gets_no_ring_does_its_other_work) {
  use_two_lanes();
  run(2);
  wait_until_asleep(2);
  stop();
  proactor().restart();
  setup_error = EMFILE;
  run(2);
  Stream pending[2];
  for (const std::uint32_t lane : {0U, 1U}) {
    read_in(lane, pending[lane]);
    Stream stream;
    Handle* const closed = adopt(stream.ours, HandleKind::stream_socket, Home{lane});
    Operation& cancelled = operation();
    read_byte(closed, cancelled);
    proactor().close_detached(*closed);
    EXPECT_TRUE(at_end(stream.peer.get()));
    EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
    Gate& ran = gate();
    post([&] { ran.open(); }, Notify::strong, Home{lane});
    ran.wait();
    EXPECT_TRUE(ran.is_open());
  }
  if (HasFailure()) setup_error = 0;  // so that the test ends
  stop();                             // its threads come out of run()
  proactor().restart();
  run(2);
  setup_error = 0;
  for (const std::uint32_t lane : {0U, 1U}) {
    const Peer session = echo(Home{lane});
    round_trip(session.get());
  }
}

// The engine of the first lane is lost, and any thread may lead that lane. The engine of the second
// lane was never entered.
TEST_P(CrewsWithoutRings, a_lane_that_is_not_led_beside_a_lost_engine_is_an_error) {
  if (!pinned()) return;
  use_two_lanes();
  Stream streams[2];
  const Operation& first = read_in(0, streams[0]);
  read_in(1, streams[1]);
  setup_error = enter_error = EPERM;
  run_says_so();
  finish_by_deadlines(first);  // the kernel may let go of the lost ring later
  EXPECT_EQ(first.error(), errc::engine_lost);
}

BATON_CONFORMANCE_SUITE_IN(CrewsWithoutRings, Mode::per_thread);
BATON_CONFORMANCE_SUITE_IN(Crews, Mode::per_thread);

}  // namespace
}  // namespace baton::conformance
