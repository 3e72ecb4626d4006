#include "exercise.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>

#include "baton/buffer_pool.hpp"

namespace baton::test {
namespace {

void exercise_streams(Driver& driver, Pair pair, HandleKind kind) {
  Handle* const left = driver.adopt(pair.left, kind);
  Handle* const right = driver.adopt(pair.right, kind);
  const std::string text = pattern(200'000);
  std::string received(text.size(), '\0');
  std::deque<Operation> writes(10);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_write(writes[i], kind == HandleKind::pipe ? right : left,
              ConstBuffer{text.data() + i * 20'000, 20'000}, Operation::exactly);
    driver.start(writes[i]);
  }
  Operation read;
  set_read(read, kind == HandleKind::pipe ? left : right, received, Operation::exactly);
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_TRUE(received == text);
  ASSERT_TRUE(driver.run_until(writes.back()));
}

void exercise_file(Driver& driver) {
  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  const std::string text = pattern(50'000);
  std::deque<Operation> writes(4);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    writes[i].prepare(OperationKind::write_file, file, Operation::exactly);
    writes[i].set_buffer(ConstBuffer{std::string_view{text}});
    writes[i].set_offset(i * text.size());
    driver.submit(writes[i]);
  }
  Operation sync, read;
  sync.prepare(OperationKind::sync_file, file, Operation::data_only);
  driver.start(sync);
  ASSERT_TRUE(driver.run_until(sync));
  EXPECT_FALSE(sync.failed());
  std::string received(text.size(), '\0');
  read.prepare(OperationKind::read_file, file, Operation::exactly);
  read.set_buffer(MutableBuffer{received});
  read.set_offset(3 * text.size());
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_TRUE(received == text);
}

void exercise_connection(Driver& driver) {
  Endpoint address;
  Operation accept, connect, shutdown, read;
  accept.prepare(OperationKind::accept, driver.adopt(listener(address), HandleKind::listener));
  Handle* const client = driver.adopt(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), HandleKind::stream_socket);
  connect.prepare(OperationKind::connect, client);
  connect.set_endpoint(&address);
  driver.start(accept);
  driver.start(connect);
  ASSERT_TRUE(driver.run_until(accept));
  ASSERT_TRUE(driver.run_until(connect));
  ASSERT_FALSE(accept.failed()) << accept.error().message();
  Handle* const server = driver.adopt(accept.accepted(), HandleKind::stream_socket);
  shutdown.prepare(OperationKind::shutdown, client);
  driver.start(shutdown);
  char byte = 0;
  set_read(read, server, MutableBuffer{&byte, 1});
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  ASSERT_TRUE(driver.run_until(shutdown));
  EXPECT_FALSE(shutdown.failed());
  EXPECT_EQ(*read.result(), 0U);
}

void exercise_pool_and_cancel(Driver& driver) {
  BufferPool pool{128, 4};
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  Operation read;
  for (int i = 0; i < 3; ++i) {
    read.prepare(OperationKind::read_stream, handle);
    read.set_pool(&pool);
    driver.start(read);
    if (i == 1) {
      driver.cancel(read);
    } else {
      write_all(pair.right, "data");
    }
    ASSERT_TRUE(driver.run_until(read));
    if (i == 1) {
      EXPECT_EQ(read.error(), std::errc::operation_canceled);
    } else {
      EXPECT_EQ(read.bytes(), 4U);
      pool.give(read.buffer().data);
    }
  }
  EXPECT_EQ(pool.available(), 4U);
  ::close(pair.right);
}

}  // namespace

void exercise(Driver& driver) {
  exercise_streams(driver, stream_pair(), HandleKind::stream_socket);
  exercise_streams(driver, tcp_pair(), HandleKind::stream_socket);
  exercise_streams(driver, pipe_pair(O_NONBLOCK), HandleKind::pipe);
  exercise_file(driver);
  exercise_connection(driver);
  exercise_pool_and_cancel(driver);
  driver.engine().interrupt();
  EXPECT_EQ(driver.wait_once(), 0U);
}

}  // namespace baton::test
