// How operations end: cancel, close, deadlines, drain, stop, the destructor.
#include <array>
#include <chrono>

#include "baton/acceptor.hpp"
#include "baton/stream_socket.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

using namespace std::chrono_literals;

const std::error_code cancelled = std::make_error_code(std::errc::operation_canceled);

/// Reads that never get data, on two sockets.
struct Reads {
  explicit Reads(World& in, std::error_code expected = cancelled)
      : world(in), accounts{{{in, expected}, {in, expected}, {in, expected}}} {
    auto made = StreamSocket::pair(world.proactor());
    if (!world.take(made)) return;
    left = std::move(made->first);
    right = std::move(made->second);
  }
  bool begin() {
    if (!left.is_open() || !right.is_open()) return false;
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      if (!read(accounts[i], i == 0 ? left : right)) return false;
    }
    return true;
  }
  bool read(Account& account, StreamSocket& socket) {
    return world.start(account,
                       [&](auto& op, auto handler) { return socket.read(op, buffer, handler); });
  }
  /// Cancelled, or the end of the stream: its peer was closed first.
  [[nodiscard]] bool all_ended() const {
    return std::all_of(accounts.begin(), accounts.end(), [&](const Account& each) {
      return each.done() && each.bytes == 0 && (!each.error || same(each.error, cancelled));
    });
  }
  [[nodiscard]] bool all(std::error_code error) const {
    return std::all_of(accounts.begin(), accounts.end(),
                       [&](const Account& each) { return each.done() && same(each.error, error); });
  }

  World& world;
  char buffer[8] = {};
  std::array<Account, 3> accounts;
  StreamSocket left;
  StreamSocket right;
};

void cancel_one(World& world) {
  Reads reads(world);
  if (!reads.begin()) return;
  for (Account& each : reads.accounts) world.proactor().cancel(each.operation);
  world.settle();
  world.check(reads.all(cancelled), "each was cancelled");
}

void cancel_a_handle(World& world) {
  Reads reads(world);
  if (!reads.begin()) return;
  reads.left.cancel();
  reads.right.cancel();
  world.settle();
  world.check(reads.all(cancelled), "all of both were cancelled");
}

void cancel_everything(World& world) {
  Reads reads(world);
  if (!reads.begin()) return;
  world.proactor().cancel_all();
  world.settle();
  world.check(reads.all(cancelled), "all were cancelled");
}

void cancel_and_wait(World& world) {
  Reads reads(world);
  if (!reads.begin()) return;
  for (Account& each : reads.accounts) {
    const CancelWait answer = world.proactor().cancel_wait(
        each.operation, each.operation.activation(), Deadline::never());
    EXPECT_NE(answer, CancelWait::still_running) << "waited until it was over";
  }
  world.settle();
  world.check(reads.all(cancelled), "each was cancelled");
}

void close_with_reads(World& world) {
  Reads reads(world);
  Account first(world), second(world);
  if (!reads.begin()) return;
  world.start(first, [&](auto& op, auto handler) { return reads.left.close(op, handler); });
  world.start(second, [&](auto& op, auto handler) { return reads.right.close(op, handler); });
  world.settle();
  world.check(first.ok() && second.ok() && reads.all_ended(), "closed, the reads first");
}

// The destructors close, and no operation reports it.
void let_go_with_reads(World& world) {
  Reads reads(world);
  if (!reads.begin()) return;
  reads.left = {};
  reads.right = {};
  world.settle();
  world.check(reads.all_ended(), "ended by the close");
}

void deadlines_pass(World& world) {
  Reads reads(world, make_error_code(errc::timed_out));
  if (!reads.left.is_open()) return;
  for (Account& each : reads.accounts) {
    each.operation.set_deadline(Deadline::after(1ms, world.proactor().now()));
    if (!reads.read(each, reads.left)) return;
  }
  world.settle();
  world.check(reads.all(make_error_code(errc::timed_out)), "all were too late");
}

void deadlines_far_away(World& world) {
  const Text<8> text;
  Reads reads(world, {});
  Account writing(world);
  if (!reads.left.is_open()) return;
  reads.accounts[0].operation.set_deadline(Deadline::after(1h, world.proactor().now()));
  if (!reads.read(reads.accounts[0], reads.left)) return;
  writing.operation.set_deadline(Deadline::after(1h, world.proactor().now()));
  world.start(writing, [&](auto& op, auto handler) {
    return reads.right.write_all(op, text.all(), handler);
  });
  world.settle();
  world.check(reads.accounts[0].ok(), "in time");
}

void drain(World& world) {
  const Text<8> text;
  Account accepting(world, cancelled), reading(world), writing(world);
  char buffer[8] = {};
  auto acceptor = Acceptor::listen(world.proactor(), Endpoint::loopback(0));
  if (!world.take(acceptor)) return;
  auto pair = StreamSocket::pair(world.proactor());
  if (!world.take(pair)) return;
  world.start(accepting, [&](auto& op, auto handler) { return acceptor->accept(op, handler); });
  world.start(reading, [&](auto& op, auto handler) {
    return pair->first.read_exactly(op, buffer, handler);
  });
  world.drain(Deadline::never());
  // Operations in flight continue; the drain waits for them.
  world.start(writing, [&](auto& op, auto handler) {
    return pair->second.write_all(op, text.all(), handler);
  });
  if (!world.settle()) return;
  world.join();
  world.check(accepting.error == std::errc::operation_canceled, "the accept was cancelled");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void drain_with_a_deadline(World& world) {
  Reads reads(world);
  if (!reads.begin()) return;
  world.drain(Deadline::after(2ms, world.proactor().now()));
  world.settle();
  if (!world.ending()) world.join();
  world.check(reads.all(cancelled), "cancelled at the deadline");
}

void stop_and_go_on(World& world) {
  const Text<8> text;
  char buffer[8] = {};
  Account reading(world), writing(world);
  auto pair = StreamSocket::pair(world.proactor());
  if (!world.take(pair)) return;
  // A pinned engine's operations end with their thread.
  if (world.pinned()) reading.expected = cancelled;
  world.start(reading, [&](auto& op, auto handler) {
    return pair->first.read_exactly(op, buffer, handler);
  });
  world.proactor().stop();
  world.join();
  world.proactor().restart();
  world.run();
  world.start(writing, [&](auto& op, auto handler) {
    return pair->second.write_all(op, text.all(), handler);
  });
  world.settle();
  world.check(world.pinned() || reading.ok(), "it was pending all the time");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

// Its thread has waited before and has its memory.
bool has_waited(World& world, Account& timing) {
  world.start(timing, [&](auto& op, auto handler) {
    op.set_handler(handler);
    return world.proactor().start_timer(op, Deadline::after(1ms, world.proactor().now()));
  });
  return world.until([&] { return timing.done(); });
}

void another_thread_waits(World& world) {
  const Text<8> text;
  char buffer[8] = {};
  Account reading(world), writing(world), before(world), after(world);
  auto pair = StreamSocket::pair(world.proactor());
  if (!world.take(pair)) return;
  if (world.pinned()) reading.expected = cancelled;
  world.start(reading, [&](auto& op, auto handler) {
    return pair->first.read_exactly(op, buffer, handler);
  });
  if (!has_waited(world, before)) return;
  world.proactor().stop();
  world.join();
  world.proactor().restart();
  world.run();
  if (!has_waited(world, after)) return;
  world.start(writing, [&](auto& op, auto handler) {
    return pair->second.write_all(op, text.all(), handler);
  });
  world.settle();
  world.check(world.pinned() || reading.ok(), "it was pending all the time");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void destroy_with_reads(World& world) {
  Reads reads(world);
  if (!reads.begin()) return;
  static_cast<void>(reads.left.release());
  static_cast<void>(reads.right.release());
  world.destroy();
  world.check(reads.all_ended(), "all were complete when the destructor returned");
}

void destroy_with_work(World& world) {
  const Text<8> text;
  char buffer[8] = {};
  Account reading(world, cancelled), writing(world, cancelled), timing(world, cancelled),
      posted(world);
  auto pair = StreamSocket::pair(world.proactor());
  if (!world.take(pair)) return;
  world.start(reading, [&](auto& op, auto handler) {
    return pair->first.read_exactly(op, buffer, handler);
  });
  world.start(writing, [&](auto& op, auto handler) {
    return pair->second.write_all(op, text.all(), handler);
  });
  world.start(timing, [&](auto& op, auto handler) {
    op.set_handler(handler);
    return world.proactor().start_timer(op, Deadline::after(1h, world.proactor().now()));
  });
  world.start(posted, [&](auto& op, auto handler) {
    op.set_handler(handler);
    return world.proactor().post(op);
  });
  static_cast<void>(pair->first.release());
  static_cast<void>(pair->second.release());
  world.destroy();
  for (const Account* each : {&reading, &writing, &timing, &posted}) {
    world.check(each->done(), "complete when the destructor returned");
  }
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

}  // namespace

void add_ends(std::vector<Scenario>& list) {
  list.insert(list.end(), {{"cancel_one", cancel_one},
                           {"cancel_a_handle", cancel_a_handle},
                           {"cancel_everything", cancel_everything},
                           {"cancel_and_wait", cancel_and_wait},
                           {"close_with_reads", close_with_reads},
                           {"let_go_with_reads", let_go_with_reads},
                           {"deadlines_pass", deadlines_pass},
                           {"deadlines_far_away", deadlines_far_away},
                           {"drain", drain},
                           {"drain_with_a_deadline", drain_with_a_deadline},
                           {"stop_and_go_on", stop_and_go_on},
                           {"another_thread_waits", another_thread_waits},
                           {"destroy_with_reads", destroy_with_reads},
                           {"destroy_with_work", destroy_with_work}});
}

}  // namespace baton::faults
