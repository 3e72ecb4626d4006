// The destructor (contract.md, rule 9), and cycles of creation and destruction.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>

#include "baton/log.hpp"
#include "baton/stream_socket.hpp"
#include "threads.hpp"

namespace baton::conformance {
namespace {

class End : public Threads {
 protected:
  /// Observations of the handlers in the destructor.
  struct Seen {
    std::atomic<int> completed{0};
    std::atomic<int> elsewhere{0};  // in another thread than the destructor's
    std::atomic<int> started{0};    // starts that succeeded in there
    std::thread::id thread;
    Proactor* proactor = nullptr;
  };

  /// An operation whose handler looks around and tries to start itself again.
  Operation& curious() {
    Operation& fresh = operation();
    fresh.set_handler([seen = &seen_](Operation& self) {
      seen->completed.fetch_add(1);
      if (seen->thread != std::this_thread::get_id()) seen->elsewhere.fetch_add(1);
      if (!seen->proactor->start(self)) seen->started.fetch_add(1);
    });
    return fresh;
  }
  void start(Operation& operation) { ASSERT_FALSE(proactor().start(operation)); }
  Operation& prepared(OperationKind kind, Handle* handle, std::uint16_t flags = 0) {
    Operation& fresh = curious();
    fresh.prepare(kind, handle, flags);
    fresh.set_buffer(MutableBuffer{memory(1'048'576), 1'048'576});
    return fresh;
  }
  Peer bound_socket(int type, sockaddr_in& address) {
    Peer fd{::socket(AF_INET, type | SOCK_CLOEXEC, 0)};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  /// One of every kind that can be pending for ever; how many.
  int start_every_kind() {
    int count = 0;
    streams_.resize(3);
    start((++count, prepared(OperationKind::read_stream, adopt(streams_[0].ours))));
    Handle* writing = adopt(streams_[1].ours);
    // More than the socket takes: the write waits for room, and a half close waits behind it.
    for (int i = 0; i < 3; ++i) {
      start((++count, prepared(OperationKind::write_stream, writing, Operation::exactly)));
    }
    start((++count, prepared(OperationKind::shutdown, writing)));
    start((++count,
           prepared(OperationKind::wait_ready, adopt(streams_[2].ours), Operation::readable)));
    sockaddr_in address{};
    Peer door = bound_socket(SOCK_STREAM, address);
    EXPECT_EQ(::listen(door.get(), 8), 0);
    start((++count, prepared(OperationKind::accept, adopt(door, HandleKind::listener))));
    Peer datagrams = bound_socket(SOCK_DGRAM, address);
    Operation& receiving =
        prepared(OperationKind::read_datagram, adopt(datagrams, HandleKind::datagram_socket));
    receiving.set_endpoint(nullptr);
    start((++count, receiving));
    Operation& timer = curious();
    EXPECT_FALSE(proactor().start_timer(timer, Deadline::after(1h, proactor().now())));
    ++count;
    EXPECT_FALSE(proactor().post(curious(), Notify::none));
    return ++count;
  }
  std::vector<Stream> streams_;
  Seen seen_;
};

TEST_P(End, runs_pending_operations_of_every_kind_in_its_own_thread) {
  seen_.proactor = &use(2);
  seen_.thread = std::this_thread::get_id();
  const int pending = start_every_kind();
  destroy();
  EXPECT_EQ(seen_.completed, pending);
  EXPECT_EQ(seen_.elsewhere, 0);
  EXPECT_EQ(seen_.started, 0) << "starts in there fail as stopped";
}

TEST_P(End, finish_does_the_same_before_the_destructor) {
  seen_.proactor = &use(2);
  seen_.thread = std::this_thread::get_id();
  const int pending = start_every_kind();
  proactor().finish();
  EXPECT_EQ(seen_.completed, pending);
  EXPECT_EQ(seen_.elsewhere, 0);
  EXPECT_EQ(seen_.started, 0) << "starts in there fail as stopped";
  EXPECT_TRUE(proactor().stopped());
  proactor().run();  // at its end already
  proactor().restart();
  EXPECT_EQ(proactor().post(curious()), errc::stopped) << "it stays finished";
  proactor().finish();
  destroy();
  EXPECT_EQ(seen_.completed, pending) << "nothing is left for the destructor";
}

TEST_P(End, its_objects_are_closed_afterwards) {
  use(2);
  auto [left, right] = StreamSocket::pair(proactor()).value();
  EXPECT_TRUE(left.is_open());
  proactor().finish();
  for (StreamSocket* end : {&left, &right}) {
    EXPECT_FALSE(end->is_open());
    EXPECT_EQ(end->native(), invalid_handle);
    EXPECT_EQ(end->cancel(), CancelResult::nothing_pending);
    char byte = 0;
    EXPECT_TRUE(end->read(MutableBuffer{&byte, 1}, [](Operation&) {}));
    EXPECT_EQ(end->close([](Operation&) {}), errc::handle_closed);
  }
}

TEST_P(End, runs_pending_operations_after_threads_have_run_it) {
  seen_.proactor = &use(2);
  seen_.thread = std::this_thread::get_id();
  run(2);
  Peer session = echo();
  round_trip(session.get());
  wait_until_asleep(2);
  stop();
  proactor().restart();
  const int pending = start_every_kind();
  destroy();
  EXPECT_EQ(seen_.completed, pending);
  EXPECT_EQ(seen_.elsewhere, 0);
}

// What is not refused completes, whichever of two threads is first, and in the thread that ends the
// proactor: the other one may hold what the handler needs.
TEST_P(End, finish_completes_what_other_threads_start_meanwhile) {
  // Late cancels keep finish() busy, and the others start a hundred thousand operations meanwhile.
  const int rounds = with_troubles() ? 1 : 8;
  for (int round = 0; round < rounds; ++round) {
    use(2);
    Stream stream;
    Handle* const handle = adopt(stream.ours);
    std::deque<Operation> started[2];
    std::atomic<int> ready{0};
    std::atomic<int> elsewhere{0};
    const std::thread::id ending = std::this_thread::get_id();
    const auto start_on = [&](int thread) {
      ready.fetch_add(1);
      for (int i = 0;; ++i) {
        Operation& fresh = started[thread].emplace_back();
        fresh.set_handler([&](Operation&) {
          if (std::this_thread::get_id() != ending) elsewhere.fetch_add(1);
        });
        std::error_code error;
        if (i % 3 == 0) error = proactor().post(fresh);
        if (i % 3 == 1) error = proactor().start_timer(fresh, Deadline::never());
        if (i % 3 == 2) {
          fresh.prepare(OperationKind::wait_ready, handle, Operation::readable);
          error = proactor().start(fresh);
        }
        if (!error) continue;
        started[thread].pop_back();
        return;
      }
    };
    std::thread threads[2] = {std::thread{start_on, 0}, std::thread{start_on, 1}};
    while (ready.load() < 2) std::this_thread::yield();
    proactor().finish();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(elsewhere.load(), 0);
    for (const auto& each : started) {
      for (const Operation& operation : each) {
        ASSERT_FALSE(operation.is_pending()) << to_string(operation.kind()) << ", round " << round;
      }
    }
    destroy();
  }
}

TEST_P(End, logs_the_exceptions_that_it_drops) {
  struct Lines final : Log {
    void write(LogLevel level, std::string_view, std::string_view message) noexcept override {
      if (level == LogLevel::error) text += std::string{message} + '\n';
    }
    std::string text;
  } lines;
  use(2, [&](Config& config) { config.log = &lines; });
  Stream streams[2];
  for (Stream& stream : streams) {
    Operation& read = operation();
    read.set_handler([first = &stream == &streams[0]](Operation&) {
      if (first) throw std::runtime_error{"of the first"};
      throw 2;
    });
    read_byte(adopt(stream.ours), read);
  }
  proactor().finish();
  EXPECT_EQ(proactor().statistics().exceptions, 2U);
  destroy();
  EXPECT_NE(lines.text.find("drops an exception of a handler: of the first\n"), std::string::npos);
  EXPECT_NE(lines.text.find("drops an exception of a handler that is no std"), std::string::npos);
}

TEST_P(End, survives_handlers_that_stop_drain_and_restart_it) {
  Proactor& proactor = use(2);
  Stream streams[4];
  for (Stream& stream : streams) {
    Operation& read = operation();
    read.set_handler([&proactor](Operation& self) {
      proactor.stop();
      proactor.drain(Deadline::never());
      proactor.restart();
      self.prepare(OperationKind::read_stream, self.handle());
      EXPECT_EQ(proactor.start(self), errc::stopped);
    });
    read_byte(adopt(stream.ours), read);
  }
  destroy();
}

TEST_P(End, closes_only_owned_descriptors) {
  use(1);
  Stream owned;
  adopt(owned.ours);
  Stream borrowed;
  ASSERT_TRUE(
      proactor().adopt(borrowed.ours.get(), HandleKind::stream_socket, Ownership::borrowed));
  destroy();
  EXPECT_TRUE(at_end(owned.peer.get()));
  char byte = 0;
  EXPECT_EQ(::send(borrowed.peer.get(), "x", 1, 0), 1);
  EXPECT_EQ(::recv(borrowed.ours.get(), &byte, 1, 0), 1);
}

// 10^5 operations born, started, completed and gone; each in memory of its own, so that a touch
// too late is seen by the address sanitizer.
TEST_P(End, of_a_hundred_thousand_operations) {
  use(1);
  const int cycles = tries(100'000);
  Stream stream;
  Handle* handle = adopt(stream.ours);
  int completed = 0;
  struct Shared {
    int& completed;
  } shared{completed};
  for (int i = 0; i < cycles;) {
    constexpr int batch = 50;
    char bytes[batch];
    send_all(stream.peer.get(), bytes, batch / 2);
    for (int k = 0; k < batch; ++k, ++i) {
      auto* fresh = new Operation;
      fresh->set_handler([to = &shared](Operation& self) {
        ++to->completed;
        delete &self;
      });
      if (k % 2 == 0) {
        ASSERT_FALSE(proactor().post(*fresh));
      } else {
        fresh->prepare(OperationKind::read_stream, handle);
        fresh->set_buffer(MutableBuffer{&bytes[k], 1});
        ASSERT_FALSE(proactor().start(*fresh));
      }
    }
    run_until(proactor(), [&] { return completed == i; });
  }
}

TEST_P(End, of_two_hundred_proactors) {
  for (int i = 0; i < 200 / slowness; ++i) {
    use(1);
    Stream stream;
    read_byte(adopt(stream.ours), operation());
    if (i % 4 == 0) {
      run(1);
      stop();
    }
    destroy();
  }
}

BATON_CONFORMANCE_SUITE(End);

}  // namespace
}  // namespace baton::conformance
