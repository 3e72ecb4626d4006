// Handlers that post their next work at once do not starve I/O, for every way to drive the proactor
// and for the shortest turns (P-22).
#include <fcntl.h>
#include <sys/un.h>

#include <array>
#include <cstdint>
#include <utility>

#include "baton/file.hpp"
#include "baton/stream_socket.hpp"
#include "operations.hpp"

namespace baton::conformance {
namespace {

using Drive = std::pair<const char*, void (*)(Proactor&)>;
constexpr std::array drives{
    Drive{"poll", [](Proactor& proactor) { proactor.poll(); }},
    Drive{"run_one", [](Proactor& proactor) { proactor.run_one(); }},
    Drive{"handle_events", [](Proactor& proactor) { proactor.handle_events(); }},
    Drive{"handle_events, a few handlers at a time",
          [](Proactor& proactor) { proactor.handle_events(Deadline::never(), 3); }},
};

class Driving : public Operations {
 public:
  using Operations::start;

 protected:
  /// Far more than what runs between two looks at an engine.
  static constexpr int many = 100'000;

  /// An arriving byte is read while `busy` runs, however the proactor is driven.
  template <class Busy>
  void expect_a_share_beside(Busy& busy) {
    Pair pair = unix_pair();
    Handle* const handle = adopt(pair.ours);
    Probe& read = operation();
    char byte[1];
    for (const auto& [name, drive] : drives) {
      SCOPED_TRACE(name);
      busy.steps = 0;
      busy.begin();
      read.prepare(OperationKind::read_stream, handle, 0);
      read.set_buffer(MutableBuffer{byte, 1});
      start(read);
      for (int i = 0; i < 5; ++i) drive(proactor());  // the engine has it, and waits for data
      send_all(pair.peer.get(), "x");
      // A dedicated leader has its own thread, and the kernel decides when it runs.
      const bool by_another = GetParam().mode == Mode::dedicated;
      const Deadline end = test::at_last();
      while (!read.done() && (by_another ? test::is_ahead(end) : busy.steps < many)) {
        drive(proactor());
      }
      EXPECT_TRUE(read.done());
      busy.ended = true;
      run([&] { return read.done() && busy.at_rest(); });
      busy.ended = false;
    }
  }

  struct Busy {
    int steps = 0;
    bool ended = false;
  };
};
BATON_CONFORMANCE_SOCKET_SUITE(Driving);

TEST_P(Driving, posts_that_post_starve_no_io) {
  struct Posts : Busy {
    explicit Posts(Proactor& to) : proactor(to) {}
    void begin() {
      ++queued;
      ASSERT_FALSE(proactor.post([this] {
        --queued;
        ++steps;
        if (!ended) begin();
      }));
    }
    [[nodiscard]] bool at_rest() const { return queued == 0; }
    Proactor& proactor;
    int queued = 0;
  } posts{proactor()};
  expect_a_share_beside(posts);
}

TEST_P(Driving, reads_that_end_in_their_start_starve_no_io) {
  struct Reads : Busy {
    Reads(Driving& test, Probe& read) : test(test), read(read) {
      read.then = [this] {
        ++steps;
        if (!ended) begin();
      };
    }
    void begin() {
      read.prepare(OperationKind::read_file, read.handle(), 0);
      read.set_buffer(MutableBuffer{in, sizeof(in)});
      test.start(read);
    }
    [[nodiscard]] bool at_rest() const { return read.done(); }
    Driving& test;
    Probe& read;
    char in[6];
  };
  Fd fd = temporary(O_RDWR);
  ASSERT_EQ(::pwrite(fd.get(), "cached", 6, 0), 6);
  Reads reads{*this, plain(OperationKind::read_file, adopt(fd, HandleKind::file))};
  expect_a_share_beside(reads);
}

// There is always a connection at the door.
TEST_P(Driving, accepts_that_end_in_their_start_starve_no_io) {
  struct Accepts : Busy {
    Accepts(Driving& test, Probe& accept, Endpoint& address)
        : test(test), accept(accept), address(address) {
      accept.then = [this] {
        ++steps;
        client.reset();
        ::close(this->accept.accepted());
        if (!ended) begin();
      };
    }
    void begin() {
      client.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(::connect(client.get(), static_cast<sockaddr*>(address.data()), address.size()), 0);
      accept.prepare(OperationKind::accept, accept.handle(), 0);
      test.start(accept);
    }
    [[nodiscard]] bool at_rest() const { return accept.done(); }
    Driving& test;
    Probe& accept;
    Endpoint& address;
    Fd client;
  };
  Fd door = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_un any{};
  any.sun_family = AF_UNIX;
  // Without a path the system chooses a name.
  ASSERT_EQ(::bind(door.get(), reinterpret_cast<sockaddr*>(&any), sizeof(sa_family_t)), 0);
  ASSERT_EQ(::listen(door.get(), 8), 0);
  Endpoint address = bound_to(door.get());
  Accepts accepts{*this, plain(OperationKind::accept, adopt(door, HandleKind::listener)), address};
  expect_a_share_beside(accepts);
}

TEST_P(Driving, a_busy_connection_starves_no_other) {
  struct Echo : Busy {
    Echo(Driving& test, Probe& read, Probe& write) : test(test), read(read), write(write) {
      read.then = write.then = [this] {
        ++steps;
        if (!ended && at_rest()) begin();
      };
    }
    void begin() {
      read.prepare(OperationKind::read_stream, read.handle(), Operation::exactly);
      read.set_buffer(MutableBuffer{in, sizeof(in)});
      write.prepare(OperationKind::write_stream, write.handle(), Operation::exactly);
      write.set_buffer(ConstBuffer{out, sizeof(out)});
      test.start(read);
      test.start(write);
    }
    [[nodiscard]] bool at_rest() const { return read.done() && write.done(); }
    Driving& test;
    Probe& read;
    Probe& write;
    char in[64];
    char out[64] = {};
  };
  SocketPair ends;
  Fd one = ends.release(0);
  Fd other = ends.release(1);
  Echo echo{*this, plain(OperationKind::read_stream, adopt(one), Operation::exactly),
            plain(OperationKind::write_stream, adopt(other), Operation::exactly)};
  expect_a_share_beside(echo);
}

// Nothing is pending: a thread that waits sleeps on a futex, or in an engine.
TEST_P(Driving, a_deadline_before_the_boot_is_past) {
  for (const std::int64_t ns : {std::int64_t{-1}, std::int64_t{-1'000'000'000'000}, INT64_MIN}) {
    const Deadline past = Deadline::at_ns(ns);
    EXPECT_FALSE(proactor().run_one(past));
    EXPECT_EQ(proactor().handle_events(past), 0U);
  }
  Pair pair = unix_pair();
  Probe& read = reading(adopt(pair.ours), memory(1));
  start(read);
  EXPECT_EQ(proactor().handle_events(Deadline::at_ns(-1)), 0U);
}

// A loop of another library waits for the descriptor after that poll, which shows no close.
TEST_P(Driving, the_poll_that_ends_the_last_operation_ends_the_close) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  Probe& read = reading(handle, memory(1));
  start(read);
  proactor().poll();
  Probe& close = plain(OperationKind::close, handle);
  start(close);
  const bool by_another = GetParam().mode == Mode::dedicated;
  run([&] {
    proactor().poll();
    EXPECT_TRUE(by_another || close.done() == read.done());
    return read.done() && close.done();
  });
}

TEST_P(Driving, a_closed_file_frees_its_handle) {
  use([](Config& config) { config.handles_max = 256; });
  for (const auto& [name, drive] : drives) {
    SCOPED_TRACE(name);
    const auto run_a_handler = [&, drive = drive] {
      bool done = false;
      ASSERT_FALSE(proactor().post([&] { done = true; }));
      while (!done) drive(proactor());
    };
    for (int i = 0; i < 400; ++i) {
      Fd fd = temporary(O_RDWR);
      auto file = baton::File::adopt(proactor(), fd.get());
      // A worker of the engine may need a while for a close, but no turn is without handlers.
      const Deadline end = test::at_last();
      while (!file && test::is_ahead(end)) {
        run_a_handler();
        file = baton::File::adopt(proactor(), fd.get());
      }
      ASSERT_TRUE(file.has_value()) << i << ": " << file.error().message();
      static_cast<void>(fd.release());
      char buffer[6];
      bool done = false;
      ASSERT_FALSE(file->read_at(0, MutableBuffer{buffer, 6}, [&](Operation&) { done = true; }));
      while (!done) drive(proactor());
    }
  }
}

}  // namespace
}  // namespace baton::conformance
