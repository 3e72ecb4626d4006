// The calls of one thread take effect in order, even if the thread that carries them out is late
// and finds all of them at once. A cancel or a close ends operations started before it, and leaves
// those started after it (contract.md, rules 5 and 6).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "threads.hpp"

namespace baton::conformance {
namespace {

class Calls : public Threads {
 protected:
  /// The only thread in run() stays in a handler until let_go().
  void hold() {
    use(1);
    run(1);
    post([this] {
      held_.open();
      gate_.wait();
    });
    held_.wait();
  }
  void let_go() { gate_.open(); }
  Operation& read(Handle* handle) {
    Operation& fresh = operation();
    read_byte(handle, fresh);
    return fresh;
  }
  static void ends_cancelled(const Operation& operation) {
    wait_until([&] { return !operation.is_pending(); });
    EXPECT_EQ(operation.error(), std::errc::operation_canceled);
  }
  static void ends_well(const Operation& operation) {
    wait_until([&] { return !operation.is_pending(); });
    EXPECT_EQ(operation.error(), std::error_code{});
  }
  void gets_its_byte(const Operation& read, const Stream& stream) {
    EXPECT_TRUE(read.is_pending());
    send_all(stream.peer.get(), "x", 1);
    ends_well(read);
  }
  /// A listener that is adopted, and a client of it.
  struct Door {
    Peer listening{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    Peer client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
  };
  Operation& accept(Door& door) {
    door.address.sin_family = AF_INET;
    door.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const address = reinterpret_cast<sockaddr*>(&door.address);
    socklen_t size = sizeof(door.address);
    EXPECT_EQ(::bind(door.listening.get(), address, size), 0);
    EXPECT_EQ(::listen(door.listening.get(), 8), 0);
    EXPECT_EQ(::getsockname(door.listening.get(), address, &size), 0);
    Operation& fresh = operation();
    fresh.prepare(OperationKind::accept, adopt(door.listening, HandleKind::listener));
    EXPECT_FALSE(proactor().start(fresh));
    return fresh;
  }
  static void gets_its_connection(const Operation& accept, const Door& door) {
    EXPECT_TRUE(accept.is_pending());
    EXPECT_EQ(::connect(door.client.get(), reinterpret_cast<const sockaddr*>(&door.address),
                        sizeof(door.address)),
              0);
    ends_well(accept);
    if (!accept.failed()) ::close(accept.accepted());
  }
  Operation& timer(Duration after) {
    Operation& fresh = operation();
    EXPECT_FALSE(proactor().start_timer(fresh, Deadline::after(after, proactor().now())));
    return fresh;
  }

 private:
  Gate held_;
  Gate gate_;
};

TEST_P(Calls, a_cancel_of_a_handle_spares_later_starts) {
  hold();
  Stream stream;
  Handle* const handle = adopt(stream.ours);
  Operation& before = read(handle);
  EXPECT_EQ(proactor().cancel(*handle), CancelResult::requested);
  Operation& after = read(handle);
  let_go();
  ends_cancelled(before);
  gets_its_byte(after, stream);
}

// Each cancel ends the operations before it, even if an earlier request to the lane is still
// waiting.
TEST_P(Calls, starts_and_cancels_of_a_handle_take_turns) {
  hold();
  Stream stream;
  Handle* const handle = adopt(stream.ours);
  std::vector<Operation*> before;
  for (int i = 0; i < 3; ++i) {
    before.push_back(&read(handle));
    EXPECT_EQ(proactor().cancel(*handle), CancelResult::requested);
  }
  Operation& after = read(handle);
  // This cancel names an operation, so its place does not matter; the cancel of the handle stays.
  Operation& named = read(handle);
  EXPECT_EQ(proactor().cancel(named), CancelResult::requested);
  let_go();
  for (const Operation* each : before) ends_cancelled(*each);
  ends_cancelled(named);
  gets_its_byte(after, stream);
}

TEST_P(Calls, cancels_of_several_handles_each_have_their_place) {
  hold();
  Stream streams[3];
  Handle* handles[3];
  for (int i = 0; i < 3; ++i) handles[i] = adopt(streams[i].ours);
  std::vector<Operation*> before;
  std::vector<Operation*> after;
  for (Handle* handle : handles) {
    before.push_back(&read(handle));
    EXPECT_EQ(proactor().cancel(*handle), CancelResult::requested);
    after.push_back(&read(handle));
  }
  // The first operation goes behind the others.
  EXPECT_EQ(proactor().cancel(*handles[0]), CancelResult::requested);
  before.push_back(after[0]);
  after[0] = &read(handles[0]);
  let_go();
  for (const Operation* each : before) ends_cancelled(*each);
  for (int i = 0; i < 3; ++i) gets_its_byte(*after[static_cast<std::size_t>(i)], streams[i]);
}

TEST_P(Calls, cancel_all_spares_later_starts) {
  hold();
  Stream stream;
  Handle* const handle = adopt(stream.ours);
  Door doors[2];
  const Operation* before[] = {&read(handle), &timer(1h), &accept(doors[0])};
  proactor().cancel_all();
  Operation& read_after = read(handle);
  Operation& timer_after = timer(1ms);
  Operation& accept_after = accept(doors[1]);
  let_go();
  for (const Operation* each : before) ends_cancelled(*each);
  gets_its_byte(read_after, stream);
  ends_well(timer_after);
  gets_its_connection(accept_after, doors[1]);
}

// The thread that was held sees the cancel, too.
TEST_P(Calls, cancel_all_leaves_a_timer_that_a_handler_starts_after_it) {
  use(1);
  run(1);
  Gate held;
  Gate gate;
  Gate started;
  Operation& after = operation();
  post([&] {
    held.open();
    gate.wait();
    EXPECT_FALSE(proactor().start_timer(after, Deadline::after(1ms, proactor().now())));
    started.open();
  });
  held.wait();
  proactor().cancel_all();
  gate.open();
  started.wait();
  ends_well(after);
}

// The same before there is any thread.
TEST_P(Calls, cancel_all_before_run_spares_later_starts) {
  use(1);
  Stream stream;
  Handle* const handle = adopt(stream.ours);
  Operation& before = read(handle);
  proactor().cancel_all();
  Operation& after = read(handle);
  Operation& timer_after = timer(1ms);
  run(1);
  ends_cancelled(before);
  ends_well(timer_after);
  gets_its_byte(after, stream);
}

TEST_P(Calls, a_cancel_of_a_timer_spares_later_starts) {
  hold();
  Operation& before = timer(1h);
  EXPECT_EQ(proactor().cancel(before), CancelResult::requested);
  Operation& after = timer(1ms);
  let_go();
  ends_cancelled(before);
  ends_well(after);
}

// The lane's thread takes them while another thread starts more: none counts as mailed and as
// started at once, or a start is refused although there is room.
TEST_P(Calls, starts_from_outside_fill_the_room_to_the_last) {
  constexpr std::uint32_t room = 4;
  use(1, [](Config& config) {
    for (ProcessorConfig& processor : config.processors) processor.operations_max = room;
  });
  run(1);
  Stream stream;
  Handle* const handle = adopt(stream.ours);
  Operation reads[room];
  char bytes[room];
  for (int round = 0; round < tries(2'000); ++round) {
    for (std::uint32_t i = 0; i < room; ++i) {
      reads[i].prepare(OperationKind::read_stream, handle);
      reads[i].set_buffer(MutableBuffer{&bytes[i], 1});
      const std::error_code refused = proactor().start(reads[i]);
      if (refused) {
        proactor().cancel(*handle);
        ADD_FAILURE() << refused.message() << ": round " << round << ", read " << i;
        round = tries(2'000);
        break;
      }
    }
    send_all(stream.peer.get(), "1234", room);
    wait_until([&] {
      return std::none_of(std::begin(reads), std::end(reads),
                          [](const Operation& read) { return read.is_pending(); });
    });
  }
  stop();
}

// A thread that runs one handler a call looks for I/O between them, and goes on to take the mail,
// when stop() ends the drain.
class CallsAtALook : public Calls {
 protected:
  static inline std::atomic<bool> armed{false};
  static inline Gate* looks = nullptr;
  static inline Gate* goes_on = nullptr;

  static const os::System& system() {
    static const os::System table = [] {
      os::System changed = watched_system();
      changed.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                               const sigset_t* mask) {
        if (timeout == 0 && armed.exchange(false)) {
          looks->open();
          goes_on->wait();
        }
        return watched_system().epoll_pwait(epoll, events, count, timeout, mask);
      };
      return changed;
    }();
    return table;
  }
};

TEST_P(CallsAtALook, a_stop_ends_a_drain_and_cancels_nothing) {
  if (GetParam().engine != "emulated" || GetParam().wait != "epoll") return;
  armed = false;
  looks = &gate();
  goes_on = &gate();
  use(1, [](Config& config) { config.system = &system(); });
  Stream watched;
  Operation& other = read(adopt(watched.ours));
  Operation& link = operation();
  link.set_handler([to = &proactor()](Operation& self) {
    if (looks->is_open()) return;
    armed = true;
    EXPECT_FALSE(to->post(self, Notify::strong, Home{0}));
  });
  ASSERT_FALSE(proactor().post(link, Notify::strong, Home{0}));
  std::thread driver{[this] {
    while (!goes_on->is_open()) proactor().handle_events(Deadline::immediately(), 1);
  }};
  looks->wait();
  Stream stream;
  Operation& pending = read(adopt(stream.ours));
  proactor().drain(Deadline::never());
  proactor().stop();
  goes_on->open();
  driver.join();
  EXPECT_TRUE(looks->is_open());
  proactor().restart();
  run(1);
  gets_its_byte(pending, stream);
  gets_its_byte(other, watched);
  stop();
}

TEST_P(Calls, a_drain_that_is_over_leaves_the_accepts_after_it) {
  for (const bool with_a_thread : {false, true}) {
    SCOPED_TRACE(with_a_thread);
    use(1);
    if (with_a_thread) run(1);
    Stream stream;
    Operation& pending = read(adopt(stream.ours));
    proactor().drain(Deadline::never());
    proactor().stop();
    join();
    proactor().restart();
    Door door;
    Operation& after = accept(door);
    run(1);
    if (with_a_thread && GetParam().profile == "pinned") {
      // A ring that stays with its thread has ended the read with it, if the read was there.
      send_all(stream.peer.get(), "x", 1);
      wait_until([&] { return !pending.is_pending(); });
    } else {
      gets_its_byte(pending, stream);
    }
    gets_its_connection(after, door);
    stop();
    destroy();
  }
}

// The old handle's read waits on the descriptor until the close.
TEST_P(Calls, a_borrowed_descriptor_is_adopted_anew_right_after_a_close) {
  if (with_troubles()) GTEST_SKIP() << "the chaos engine lets go of a handle later";
  hold();
  Stream stream;
  const auto borrow = [&] {
    auto handle = proactor().adopt(stream.ours.get(), HandleKind::stream_socket,
                                   Ownership::borrowed, Home{0});
    EXPECT_TRUE(handle.has_value());
    return *handle;
  };
  Handle* handle = borrow();
  std::vector<Operation*> before{&read(handle)};
  for (int i = 0; i < 3; ++i) {
    proactor().close_detached(*handle);
    handle = borrow();
    before.push_back(&read(handle));
  }
  Operation& after = *before.back();
  before.pop_back();
  let_go();
  for (const Operation* each : before) ends_cancelled(*each);
  gets_its_byte(after, stream);
}

BATON_CONFORMANCE_SUITE(Calls);
BATON_CONFORMANCE_SUITE_IN(CallsAtALook, Mode::per_thread);

}  // namespace
}  // namespace baton::conformance
