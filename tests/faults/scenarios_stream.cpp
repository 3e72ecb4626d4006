// Streams: every form of read and write.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "baton/buffer_pool.hpp"
#include "baton/pipe.hpp"
#include "baton/stream_socket.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

struct Pair {
  explicit Pair(World& world) {
    auto made = StreamSocket::pair(world.proactor());
    if (!world.take(made)) return;
    left = std::move(made->first);
    right = std::move(made->second);
  }
  [[nodiscard]] bool is_open() const { return left.is_open() && right.is_open(); }
  StreamSocket left;
  StreamSocket right;
};

void read_and_write(World& world) {
  const Text<40> text;
  char buffer[40] = {};
  Account reading(world), writing(world);
  Pair pair(world);
  if (!pair.is_open()) return;
  world.start(reading,
              [&](auto& op, auto handler) { return pair.right.read(op, buffer, handler); });
  world.start(writing,
              [&](auto& op, auto handler) { return pair.left.write(op, text.all(), handler); });
  world.settle();
  world.check(reading.bytes > 0 && reading.bytes <= writing.bytes, "what was written was read");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

template <std::size_t Size>
void transfer(World& world, Stream& from, Stream& to) {
  static const Text<Size> text;
  static char buffer[Size];
  std::fill(buffer, buffer + Size, '\0');
  Account reading(world), writing(world);
  world.start(reading,
              [&](auto& op, auto handler) { return to.read_exactly(op, buffer, handler); });
  world.start(writing,
              [&](auto& op, auto handler) { return from.write_all(op, text.all(), handler); });
  world.settle();
  world.check(reading.bytes == Size && writing.bytes == Size, "all bytes have been moved");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void read_exactly(World& world) {
  Pair pair(world);
  if (pair.is_open()) transfer<1'000>(world, pair.left, pair.right);
}

// More than the sockets hold.
void a_million_bytes(World& world) {
  Pair pair(world);
  if (pair.is_open()) transfer<1'000'000>(world, pair.left, pair.right);
}

void read_until(World& world) {
  static constexpr std::string_view delimiter = "\r\n";
  char buffer[64] = {};
  Account reading(world), first(world), second(world);
  Pair pair(world);
  if (!pair.is_open()) return;
  world.start(reading, [&](auto& op, auto handler) {
    return pair.right.read_until(op, buffer, 0, delimiter, handler);
  });
  // The delimiter in two pieces.
  world.start(first, [&](auto& op, auto handler) {
    return pair.left.write_all(op, std::string_view{"some text\r"}, handler);
  });
  world.start(second, [&](auto& op, auto handler) {
    return pair.left.write_all(op, std::string_view{"\nmore"}, handler);
  });
  world.settle();
  const std::string_view got{buffer, reading.bytes};
  world.check(got.find(delimiter) == 9, "the delimiter is in the buffer");
  world.check(std::string_view{"some text\r\nmore"}.starts_with(got), "what was sent");
}

// Lack of memory does not cut a record.
void records(World& world) {
  int fd[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) != 0) return;
  const Text<40> text;
  EXPECT_EQ(::send(fd[1], text.data, sizeof(text.data), 0), 40);
  {
    auto adopted = StreamSocket::adopt(world.proactor(), fd[0]);
    StreamSocket socket;
    if (world.take(adopted)) {
      socket = std::move(*adopted);
      char buffer[40] = {};
      const MutableBuffer to[] = {{buffer, 10}, {buffer + 10, 30}};
      const ConstBuffer from[] = {text.part(0, 10), text.part(10, 30)};
      Account reading(world), writing(world);
      world.start(reading,
                  [&](auto& op, auto handler) { return socket.read_vectored(op, to, handler); });
      world.start(writing, [&](auto& op, auto handler) {
        return socket.write_all_vectored(op, from, handler);
      });
      world.settle();
      EXPECT_TRUE(reading.bytes == 40 || reading.bytes == 0) << reading.bytes;
      const ssize_t record = ::recv(fd[1], buffer, sizeof(buffer), MSG_DONTWAIT);
      EXPECT_TRUE(record == 40 || record <= 0) << record;
    } else {
      ::close(fd[0]);
    }
  }
  ::close(fd[1]);
}

void vectored(World& world) {
  const Text<60> text;
  char buffer[60] = {};
  const std::array from{text.part(0, 10), text.part(10, 0), text.part(10, 50)};
  const std::array to{MutableBuffer{buffer, 5}, MutableBuffer{buffer + 5, 55}};
  Account reading(world), writing(world);
  Pair pair(world);
  if (!pair.is_open()) return;
  world.start(writing, [&](auto& op, auto handler) {
    return pair.left.write_all_vectored(op, from, handler);
  });
  world.start(reading,
              [&](auto& op, auto handler) { return pair.right.read_vectored(op, to, handler); });
  world.settle();
  world.check(reading.bytes > 0 && writing.bytes == 60, "the list was written");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void pooled(World& world) {
  const Text<40> text;
  BufferPool pool{64, 2};
  Account reading(world), writing(world);
  Pair pair(world);
  if (!pair.is_open()) return;
  world.start(reading,
              [&](auto& op, auto handler) { return pair.right.read_pooled(op, pool, handler); });
  world.start(writing,
              [&](auto& op, auto handler) { return pair.left.write_all(op, text.all(), handler); });
  world.settle();
  if (!reading.done()) return;
  const auto block = StreamSocket::take_pooled(reading.operation, pool);
  world.check(block && !block->bytes().empty(), "a block was taken");
  if (!block) return;
  const auto bytes = block->bytes();
  EXPECT_TRUE(is_sent(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void wait_ready(World& world) {
  const Text<4> text;
  Account readable(world), writable(world), both(world), writing(world);
  Pair pair(world);
  if (!pair.is_open()) return;
  world.start(readable, [&](auto& op, auto handler) {
    return pair.right.wait_ready(op, Interest::in, handler);
  });
  world.start(writable, [&](auto& op, auto handler) {
    return pair.left.wait_ready(op, Interest::out, handler);
  });
  world.start(both, [&](auto& op, auto handler) {
    return pair.left.wait_ready(op, Interest::in | Interest::out, handler);
  });
  world.start(writing,
              [&](auto& op, auto handler) { return pair.left.write_all(op, text.all(), handler); });
  world.settle();
}

void half_close(World& world) {
  const Text<20> text;
  char buffer[20] = {};
  char more[8] = {};
  Account writing(world), closing(world), reading(world), at_end(world);
  Pair pair(world);
  if (!pair.is_open()) return;
  world.start(writing,
              [&](auto& op, auto handler) { return pair.left.write_all(op, text.all(), handler); });
  world.start(closing, [&](auto& op, auto handler) { return pair.left.shutdown(op, handler); });
  world.start(reading,
              [&](auto& op, auto handler) { return pair.right.read_exactly(op, buffer, handler); });
  world.start(at_end, [&](auto& op, auto handler) { return pair.right.read(op, more, handler); });
  world.settle();
  world.check(at_end.bytes == 0, "the end of the stream was read");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

// Writes in a queue may be merged; the first is longer than the socket's buffer.
void queued_writes(World& world) {
  static const Text<300'000> text;
  static char buffer[300'000];
  std::fill(buffer, buffer + sizeof buffer, '\0');
  Account reading(world), a(world), b(world), c(world), d(world);
  Pair pair(world);
  if (!pair.is_open()) return;
  std::size_t at = 0;
  for (const auto& [account, size] : {std::pair{&a, std::size_t{299'000}},
                                      {&b, std::size_t{1}},
                                      {&c, std::size_t{900}},
                                      {&d, std::size_t{99}}}) {
    world.start(*account, [&](auto& op, auto handler) {
      return pair.left.write_all(op, text.part(at, size), handler);
    });
    at += size;
  }
  world.start(reading,
              [&](auto& op, auto handler) { return pair.right.read_exactly(op, buffer, handler); });
  world.settle();
  // A failed write leaves a gap, and the next write does not see it.
  world.check(reading.bytes == sizeof buffer && is_sent(buffer, reading.bytes), "all, in order");
}

void both_ways(World& world) {
  const Text<200> text;
  char there[200] = {};
  char back[200] = {};
  Account a(world), b(world), c(world), d(world);
  Pair pair(world);
  if (!pair.is_open()) return;
  world.start(a, [&](auto& op, auto handler) { return pair.left.read_exactly(op, back, handler); });
  world.start(b,
              [&](auto& op, auto handler) { return pair.right.read_exactly(op, there, handler); });
  world.start(c,
              [&](auto& op, auto handler) { return pair.left.write_all(op, text.all(), handler); });
  world.start(
      d, [&](auto& op, auto handler) { return pair.right.write_all(op, text.all(), handler); });
  world.settle();
  EXPECT_TRUE(is_sent(back, a.bytes) && is_sent(there, b.bytes));
}

// Each handler starts the next operation.
struct PingPong {
  explicit PingPong(World& in) : world(in), pair(in), ping(in), pong(in) {}

  void send(Account& account, StreamSocket& by) {
    world.start(account,
                [&](auto& op, auto handler) { return by.write_all(op, text.all(), handler); });
  }
  void receive(Account& account, StreamSocket& by) {
    world.start(account,
                [&](auto& op, auto handler) { return by.read_exactly(op, buffer, handler); });
  }
  void begin() {
    ping.then(
        [](Account& account) {
          auto& self = *static_cast<PingPong*>(account.of);
          if (account.error || ++self.rounds == 8) return;
          self.send(account, self.pair.left);
        },
        this);
    pong.then(
        [](Account& account) {
          auto& self = *static_cast<PingPong*>(account.of);
          EXPECT_TRUE(is_sent(self.buffer, account.bytes));
          if (account.error || ++self.received == 8) return;
          self.receive(account, self.pair.right);
        },
        this);
    if (!pair.is_open()) return;
    receive(pong, pair.right);
    send(ping, pair.left);
  }

  World& world;
  Text<10> text;
  char buffer[10] = {};
  int rounds = 0;
  int received = 0;
  Pair pair;
  Account ping, pong;  // last: their handlers use the others
};

void chains_of_handlers(World& world) {
  PingPong game(world);
  game.begin();
  world.settle();
  world.check(game.received == 8, "every handler has started its next");
}

void several_connections(World& world) {
  PingPong a(world), b(world), c(world);
  for (PingPong* game : {&a, &b, &c}) game->begin();
  world.settle();
  world.check(a.received + b.received + c.received == 24, "every handler has started its next");
}

void operations_of_the_cache(World& world) {
  const Text<10> text;
  char buffer[10] = {};
  std::atomic<int> handlers{0};
  const Account last(world);  // waits for them
  Pair pair(world);
  if (!pair.is_open()) return;
  const auto handler = [&](Operation& operation) {
    ++handlers;
    world.came(operation.error());
  };
  world.expect_one();
  if (const auto error = pair.right.read_exactly(buffer, handler)) world.came_not(error);
  world.expect_one();
  if (const auto error = pair.left.write_all(text.all(), handler)) world.came_not(error);
  world.settle();
  world.check(handlers == 2, "both handlers ran");
}

void pipes(World& world) {
  const Text<30> text;
  char buffer[30] = {};
  char more[4] = {};
  Account reading(world), writing(world), closing(world), at_end(world);
  auto pipe = Pipe::create(world.proactor());
  if (!world.take(pipe)) return;
  world.start(reading, [&](auto& op, auto handler) {
    return pipe->reader.read_exactly(op, buffer, handler);
  });
  world.start(writing, [&](auto& op, auto handler) {
    return pipe->writer.write_all(op, text.all(), handler);
  });
  if (!world.settle()) return;
  world.start(closing, [&](auto& op, auto handler) { return pipe->writer.close(op, handler); });
  world.start(at_end, [&](auto& op, auto handler) { return pipe->reader.read(op, more, handler); });
  world.settle();
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void a_full_pipe(World& world) {
  auto pipe = Pipe::create(world.proactor());
  if (world.take(pipe)) transfer<200'000>(world, pipe->writer, pipe->reader);
}

}  // namespace

void add_streams(std::vector<Scenario>& list) {
  list.insert(list.end(), {{"read_and_write", read_and_write},
                           {"read_exactly", read_exactly},
                           {"a_million_bytes", a_million_bytes},
                           {"read_until", read_until},
                           {"vectored", vectored},
                           {"records", records},
                           {"pooled", pooled},
                           {"wait_ready", wait_ready},
                           {"half_close", half_close},
                           {"queued_writes", queued_writes},
                           {"both_ways", both_ways},
                           {"chains_of_handlers", chains_of_handlers},
                           {"several_connections", several_connections, 2},
                           {"operations_of_the_cache", operations_of_the_cache},
                           {"pipes", pipes},
                           {"a_full_pipe", a_full_pipe}});
}

}  // namespace baton::faults
