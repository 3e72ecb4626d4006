// Handlers may call everything (contract.md, "Threads"), the library holds no lock meanwhile, and
// the stack does not grow.
#include "threads.hpp"

namespace baton::conformance {
namespace {

class Handlers : public Threads {
 protected:
  /// Runs `body` as a handler in one of two threads.
  void inside(const std::function<void()>& body) {
    std::atomic<bool> done{false};
    post([&] {
      body();
      done = true;
    });
    wait_until([&] { return done.load(); });
  }
};

TEST_P(Handlers, may_start_cancel_close_and_post) {
  use(2);
  run(2);
  Stream stream;
  Operation& read = operation();
  Operation& close = operation();
  std::atomic<int> posted{0};
  static thread_local bool in_handler = false;
  inside([&] {
    in_handler = true;
    Handle* handle = adopt(stream.ours);
    read_byte(handle, read);
    EXPECT_TRUE(read.is_pending());
    EXPECT_EQ(proactor().cancel(read), CancelResult::requested);
    close.prepare(OperationKind::close, handle);
    EXPECT_FALSE(proactor().start(close));
    EXPECT_EQ(proactor().close(*handle, operation()), errc::handle_closed);
    post([&] {
      EXPECT_FALSE(in_handler) << "never inside the call";
      posted.fetch_add(1);
    });
    in_handler = false;
  });
  wait_until([&] { return posted == 1 && !read.is_pending() && !close.is_pending(); });
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  EXPECT_TRUE(at_end(stream.peer.get()));
}

TEST_P(Handlers, may_destroy_their_own_operation) {
  use(1);
  run(1);
  Stream stream;
  struct Owned {
    Operation operation;
    std::atomic<bool>* gone;
    char byte;
  };
  std::atomic<bool> gone{false};
  auto* owned = new Owned{.operation = {}, .gone = &gone, .byte = 0};
  owned->operation.set_handler([owned](Operation&) {
    std::atomic<bool>& flag = *owned->gone;
    delete owned;
    flag = true;
  });
  owned->operation.prepare(OperationKind::read_stream, adopt(stream.ours));
  owned->operation.set_buffer(MutableBuffer{&owned->byte, 1});
  ASSERT_FALSE(proactor().start(owned->operation));
  send_all(stream.peer.get(), "x", 1);
  wait_until([&] { return gone.load(); });
}

// The handler closes its own handle: it is pending there until it has returned.
TEST_P(Handlers, may_close_their_own_handle) {
  use(1);
  run(1);
  Stream stream;
  Operation& read = operation();
  struct Shared {
    Proactor& proactor;
    Handle* handle;
  } shared{proactor(), adopt(stream.ours)};
  read.set_handler([to = &shared](Operation&) { to->proactor.close_detached(*to->handle); });
  read_byte(shared.handle, read);
  send_all(stream.peer.get(), "x", 1);
  EXPECT_TRUE(at_end(stream.peer.get()));
}

TEST_P(Handlers, may_start_their_operation_again_a_thousand_times) {
  use(1);
  run(1);
  Stream stream;
  struct Shared {
    Proactor& proactor;
    Handle* handle;
    char byte = 0;
    std::atomic<int> times{0};
    std::uintptr_t stack_low = ~std::uintptr_t{0};
    std::uintptr_t stack_high = 0;
  } shared{proactor(), adopt(stream.ours)};
  Operation& read = operation();
  read.set_handler([to = &shared](Operation& self) {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    to->stack_low = std::min(to->stack_low, here);
    to->stack_high = std::max(to->stack_high, here);
    if (to->times.fetch_add(1) == 999) return;
    // Data is there: an engine may finish the read inside start, but the handler does not run
    // there.
    self.prepare(OperationKind::read_stream, to->handle);
    self.set_buffer(MutableBuffer{&to->byte, 1});
    EXPECT_FALSE(to->proactor.start(self));
    EXPECT_TRUE(self.is_pending());
  });
  const std::string bytes(1'000, 'x');
  send_all(stream.peer.get(), bytes.data(), bytes.size());
  read_byte(shared.handle, read);
  wait_until([&] { return shared.times == 1'000 && !read.is_pending(); });
  EXPECT_LT(shared.stack_high - shared.stack_low, 1'000U) << "depth must not grow";
}

TEST_P(Handlers, may_post_themselves_while_io_goes_on) {
  use(1);
  Peer session = echo();
  std::atomic<bool> over{false};
  std::atomic<bool> ended{false};
  std::function<void()> again = [&] {
    if (over) {
      ended = true;
    } else {
      EXPECT_FALSE(proactor().post([&] { again(); }));
    }
  };
  run(1);
  post(again);
  for (int i = 0; i < 20; ++i) round_trip(session.get());
  over = true;
  wait_until([&] { return ended.load(); });
}

TEST_P(Handlers, may_drive_another_proactor) {
  use(1);
  run(1);
  inside([&] {
    auto other = open(1);
    ASSERT_NE(other, nullptr);
    int ran = 0;
    ASSERT_FALSE(other->post([&] { ++ran; }));
    EXPECT_TRUE(other->run_one());
    EXPECT_EQ(ran, 1);
    Stream stream;
    Handle* handle = other->adopt(stream.ours.get(), HandleKind::stream_socket).value();
    static_cast<void>(stream.ours.release());
    Operation read;
    char byte = 0;
    read.prepare(OperationKind::read_stream, handle);
    read.set_buffer(MutableBuffer{&byte, 1});
    ASSERT_FALSE(other->start(read));
    send_all(stream.peer.get(), "x", 1);
    while (read.is_pending()) other->handle_events(test::at_last());
    EXPECT_EQ(byte, 'x');
  });
  Peer session = echo();
  round_trip(session.get());
}

// While a handler runs, another thread may call everything: no lock of ours is held.
TEST_P(Handlers, hold_no_lock) {
  use(1);
  run(1);
  Stream stream;
  Handle* handle = adopt(stream.ours);
  Operation& read = operation();
  Operation& late = operation();
  inside([&] {
    std::thread other{[&] {
      read_byte(handle, read);
      EXPECT_EQ(proactor().cancel(read), CancelResult::requested);
      post([] {});
      EXPECT_FALSE(proactor().start_timer(late, proactor().now()));
      static_cast<void>(proactor().statistics());
      Stream fresh;
      proactor().close_detached(*adopt(fresh.ours));
    }};
    other.join();
  });
  wait_until([&] { return !read.is_pending() && !late.is_pending(); });
}

TEST_P(Handlers, nested_turns_of_the_same_proactor_do_not_lose_anything) {
  use(1);
  run(1);
  std::atomic<int> inner{0};
  inside([&] {
    for (int i = 0; i < 5; ++i) post([&] { inner.fetch_add(1); });
    while (inner < 5) proactor().run_one(test::at_last());
  });
  Peer session = echo();
  for (int i = 0; i < 5; ++i) round_trip(session.get());
}

// The thread that polls leads, and is in the handler: no other thread would fetch results from the
// engine.
TEST_P(Handlers, nested_turns_deliver_new_events) {
  if (mode() == Mode::dedicated) return;  // its leader is another thread
  use(1);
  Stream stream;
  Stream quiet;
  Handle* const handle = adopt(stream.ours);
  read_byte(adopt(quiet.ours), operation());
  run(1);
  wait_until([&] { return sleepers().waiting >= 1; });
  inside([&] {
    Operation& read = operation();
    read_byte(handle, read);
    send_all(stream.peer.get(), "x", 1);
    wait_until([&] {
      proactor().poll();
      return !read.is_pending();
    });
    EXPECT_FALSE(read.failed());
  });
  Peer session = echo();
  for (int i = 0; i < 5; ++i) round_trip(session.get());
}

BATON_CONFORMANCE_SOCKET_SUITE(Handlers);

}  // namespace
}  // namespace baton::conformance
