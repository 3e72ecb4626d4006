// The system calls that an echo costs: requests are submitted with the wait, many at a time.
#include <unistd.h>

#include <deque>
#include <tuple>

#include "baton/buffer_pool.hpp"
#include "engines/io_uring/request.hpp"
#include "exercise.hpp"
#include "faults.hpp"

namespace baton::test {
namespace {

constexpr std::size_t connections = 100;
constexpr std::size_t rounds = 50;
constexpr std::size_t block = 512;

class Echo {
 public:
  Echo(Driver& driver, bool pooled) : driver_(driver), pooled_(pooled), pool_(block, connections) {
    for (Connection& connection : connections_) {
      const Pair pair = stream_pair();
      connection.handle = driver.adopt(pair.left, HandleKind::stream_socket);
      connection.peer = pair.right;
      start_read(connection);
    }
  }
  ~Echo() {
    for (Connection& connection : connections_) {
      driver_.cancel(connection.operation);
      EXPECT_TRUE(driver_.run_until(connection.operation));
      ::close(connection.peer);
    }
  }

  /// The peers write, everything is echoed, the peers read.
  void run_round(unsigned number) {
    const std::string text = pattern(block, number);
    for (const Connection& connection : connections_) write_all(connection.peer, text);
    for (std::size_t echoed = 0; echoed < connections;) {
      driver_.forget();
      ASSERT_GT(driver_.wait_once(), 0U);
      const auto completed = driver_.history();
      for (const Operation* operation : completed) echoed += go_on(connections_[operation->tag()]);
    }
    for (const Connection& connection : connections_) {
      ASSERT_EQ(read_all(connection.peer), text);
    }
  }

 private:
  struct Connection {
    Operation operation;
    Handle* handle = nullptr;
    int peer = -1;
    bool writing = false;
    std::array<char, block> buffer{};
  };

  void start_read(Connection& connection) {
    connection.writing = false;
    connection.operation.set_tag(static_cast<std::uint32_t>(&connection - connections_.data()));
    if (pooled_) {
      connection.operation.prepare(OperationKind::read_stream, connection.handle);
      connection.operation.set_pool(&pool_);
    } else {
      set_read(connection.operation, connection.handle, connection.buffer);
    }
    driver_.submit(connection.operation);
  }
  // One more echoed?
  std::size_t go_on(Connection& connection) {
    EXPECT_FALSE(connection.operation.failed());
    if (connection.writing) {
      start_read(connection);
      return 1;
    }
    connection.writing = true;
    const std::size_t size = connection.operation.bytes();
    if (pooled_) {
      void* const taken = connection.operation.buffer().data;
      std::memcpy(connection.buffer.data(), taken, size);
      pool_.give(taken);
    }
    set_write(connection.operation, connection.handle, ConstBuffer{connection.buffer.data(), size},
              Operation::exactly);
    driver_.submit(connection.operation);
    return 0;
  }

  Driver& driver_;
  const bool pooled_;
  BufferPool pool_;
  std::array<Connection, connections> connections_;
};

class Count : public testing::TestWithParam<std::tuple<Form, bool>> {};
INSTANTIATE_TEST_SUITE_P(Forms, Count,
                         testing::Combine(testing::Values(Form::any, Form::single, Form::pinned),
                                          testing::Bool()),
                         [](const auto& each) {
                           return testing::PrintToString(std::get<0>(each.param)) +
                                  (std::get<1>(each.param) ? "_pooled" : "");
                         });

TEST_P(Count, system_calls_of_an_echo) {
  const auto [form, pooled] = GetParam();
  const os::System& system = faulty_system();
  Driver driver{{.form = form, .system = &system}};
  Echo echo{driver, pooled};
  echo.run_round(0);
  const unsigned before = faults().enters;
  for (unsigned i = 1; i <= rounds; ++i) echo.run_round(i);
  const double per_message =
      static_cast<double>(faults().enters - before) / static_cast<double>(connections * rounds);
  RecordProperty("calls_per_message", std::to_string(per_message));
  EXPECT_LE(per_message, 0.2);
}

// The disk gets the first two reads of a batch while the rest is still being started, instead of
// waiting until all are prepared. Reads from the page cache go in larger batches.
TEST(Lots, transfers_of_files_go_in_lots) {
  constexpr std::size_t smallest = 2, largest = 16;
  Driver driver{{.form = Form::single, .system = &faulty_system()}};
  Handle* const handle = driver.adopt(temporary_file(), HandleKind::file);
  std::deque<Operation> writes(4 * largest);
  char byte = 'x';
  const unsigned before = faults().enters;
  for (Operation& write : writes) {
    write.prepare(OperationKind::write_file, handle);
    write.set_buffer(MutableBuffer{&byte, 1});
    write.set_offset(0);
    driver.submit(write);
  }
  EXPECT_GE(faults().enters - before, writes.size() / largest);
  EXPECT_LE(faults().enters - before, writes.size() / smallest);
  for (const Operation& write : writes) ASSERT_TRUE(driver.run_until(write));
}

TEST(Size, of_what_an_idle_connection_holds) {
  EXPECT_LE(sizeof(engines::uring::Request), 24U);
  EXPECT_LE(sizeof(engines::uring::HandleRecord), 80U);
}

}  // namespace
}  // namespace baton::test
