// The submission entry of an operation: flags that no result shows, or only on some kernels.
#include "engines/io_uring/prepare.hpp"

#include <sys/socket.h>

#include "baton/buffer_pool.hpp"
#include "baton/endpoint.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

namespace abi = engines::uring::abi;
using engines::uring::Message;
using engines::uring::prepare;
using engines::uring::prepare_merged;
using engines::uring::Progress;

class Prepare : public testing::Test {
 protected:
  // The first step of the engine.
  static void enter(Operation& operation) { operation.engine_state<Progress>() = Progress{}; }

  abi::Sqe prepared(Operation& operation, Message* message = nullptr) {
    enter(operation);
    abi::Sqe request{};
    prepare(request, operation, message, {});
    return request;
  }

  Driver driver{Form::any};
  Message message;
};

TEST_F(Prepare, no_write_to_a_socket_raises_sigpipe) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  const std::string text = "text";
  Operation first;
  Operation second;
  set_write(first, handle, ConstBuffer{text});
  set_write(second, handle, ConstBuffer{text});
  for (Message* const with : {static_cast<Message*>(nullptr), &message}) {
    const abi::Sqe request = prepared(first, with);
    EXPECT_EQ(request.opcode, with == nullptr ? abi::op_send : abi::op_sendmsg);
    EXPECT_EQ(request.operation_flags & MSG_NOSIGNAL, std::uint32_t{MSG_NOSIGNAL});
  }
  OperationList queued;
  queued.push_back(first);
  queued.push_back(second);
  abi::Sqe request{};
  EXPECT_EQ(prepare_merged(request, first, message), 2U);
  EXPECT_EQ(request.opcode, abi::op_sendmsg);
  EXPECT_EQ(request.operation_flags & MSG_NOSIGNAL, std::uint32_t{MSG_NOSIGNAL});
  queued.erase(first);
  queued.erase(second);
  ::close(pair.right);
}

TEST_F(Prepare, a_sync_says_whether_it_is_about_data_only) {
  Handle* const handle = driver.adopt(temporary_file(), HandleKind::file);
  Operation sync;
  sync.prepare(OperationKind::sync_file, handle, 0);
  EXPECT_EQ(prepared(sync).operation_flags, 0U);
  sync.prepare(OperationKind::sync_file, handle, Operation::data_only);
  EXPECT_EQ(prepared(sync).operation_flags, abi::fsync_data_only);
}

// Another reader may have been quicker since the socket was ready.
TEST_F(Prepare, a_pooled_read_of_a_socket_does_not_wait_with_its_block) {
  const Pair pair = stream_pair();
  BufferPool pool{64, 1};
  Operation read;
  read.prepare(OperationKind::read_stream, driver.adopt(pair.left, HandleKind::stream_socket), 0);
  read.set_pool(&pool);
  enter(read);
  auto& state = read.engine_state<Progress>();
  state.pool = &pool;
  state.block = pool.take();
  abi::Sqe request{};
  prepare(request, read, nullptr, {});
  EXPECT_EQ(request.opcode, abi::op_recv);
  EXPECT_EQ(request.operation_flags & MSG_DONTWAIT, std::uint32_t{MSG_DONTWAIT});
  pool.give(state.block);
  ::close(pair.right);
}

TEST_F(Prepare, only_what_is_for_a_worker_goes_to_one_at_once) {
  Operation read;
  std::string into(8, '\0');
  read.prepare(OperationKind::read_file, driver.adopt(temporary_file(), HandleKind::file), 0);
  read.set_buffer(MutableBuffer{into});
  for (const bool by_worker : {false, true}) {
    enter(read);
    read.engine_state<Progress>().by_worker = by_worker;
    abi::Sqe request{};
    prepare(request, read, nullptr, {});
    EXPECT_EQ((request.flags & abi::sqe_async) != 0, by_worker);
  }
}

// The thread that makes the entry would linger. A file has nothing to wait for, and the kernel's
// worker ends its locks after the completion.
TEST_F(Prepare, the_close_of_a_socket_goes_to_a_worker) {
  const Pair pair = stream_pair();
  Operation socket;
  Operation file;
  socket.prepare(OperationKind::close, driver.adopt(pair.left, HandleKind::stream_socket));
  file.prepare(OperationKind::close, driver.adopt(temporary_file(), HandleKind::file));
  EXPECT_EQ(prepared(socket).opcode, abi::op_close);
  EXPECT_EQ(prepared(socket).flags, abi::sqe_async);
  EXPECT_EQ(prepared(file).opcode, abi::op_close);
  EXPECT_EQ(prepared(file).flags, 0U);
  ::close(pair.right);
}

TEST_F(Prepare, an_accepted_socket_is_closed_by_exec) {
  Handle* const handle = driver.adopt(::socket(AF_INET, SOCK_STREAM, 0), HandleKind::listener);
  Operation accept;
  accept.prepare(OperationKind::accept, handle, 0);
  const std::uint32_t flags = prepared(accept).operation_flags;
  EXPECT_EQ(flags & SOCK_CLOEXEC, std::uint32_t{SOCK_CLOEXEC});
}

}  // namespace
}  // namespace baton::test
