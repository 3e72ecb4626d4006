// Transfers: pieces, parts, ends, errors, blocks of a pool; and refusals.
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "baton/buffer_pool.hpp"
#include "driver.hpp"

namespace baton::test::aio {
namespace {

class Files : public EveryForm {
 protected:
  Files() { handle = driver.adopt(temporary_file()); }
  Handle* handle;
};
BATON_AIO_SUITE(Files);

TEST_P(Files, are_written_synced_and_read) {
  std::string text = pattern(5'000);
  std::string back(text.size() + 10, '\0');
  constexpr std::uint64_t far = 5'368'709'120 + 123;
  Operation write;
  set_file(write, OperationKind::write_file, handle, text, far);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), text.size());
  for (const std::uint16_t flags : {std::uint16_t{0}, std::uint16_t{Operation::data_only}}) {
    Operation sync;
    sync.prepare(OperationKind::sync_file, handle, flags);
    ASSERT_TRUE(driver.complete(sync));
    EXPECT_FALSE(sync.failed());
  }
  EXPECT_EQ(faults().count(Call::fsync), 1U);
  EXPECT_EQ(faults().count(Call::fdatasync), 1U) << "of the data only";
  Operation read;
  set_file(read, OperationKind::read_file, handle, back, far);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(*read.result(), text.size());  // to the end of the file
  EXPECT_EQ(back.substr(0, text.size()), text);
  set_file(read, OperationKind::read_file, handle, back, far + text.size());
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(*read.result(), 0U);
  set_file(read, OperationKind::read_file, handle, back, far, Operation::exactly);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(read.error(), errc::end_of_stream);
  EXPECT_EQ(read.bytes(), text.size());
}

TEST_P(Files, lists_and_short_transfers_go_on_where_they_ended) {
  std::string text = pattern(1'000);
  std::string back(text.size(), '\0');
  faults().cut(7);
  std::vector<ConstBuffer> out;
  for (std::size_t at = 0; at < text.size(); at += 100) {
    out.emplace_back(std::string_view{text}.substr(at, 100));
  }
  out.emplace_back(std::string_view{});
  Operation write;
  write.prepare(OperationKind::write_file, handle, Operation::exactly);
  write.set_buffers(ConstBuffers{out});
  write.set_offset(3);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), text.size());
  EXPECT_EQ(faults().count(Call::write), 10U * 15U);
  const MutableBuffer in[] = {{back.data(), 50}, {back.data() + 50, back.size() - 50}};
  Operation read;
  read.prepare(OperationKind::read_file, handle);
  read.set_buffers(MutableBuffers{in});
  read.set_offset(3);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(*read.result(), text.size());
  EXPECT_EQ(back, text);
}

TEST_P(Files, an_error_after_a_part_is_a_short_transfer_unless_all_was_wanted) {
  std::string text = pattern(30);
  for (const bool all : {false, true}) {
    faults().clear();
    faults().cut(10);
    faults().end_with(ENOSPC, 1, 2);
    Operation write;
    set_file(write, OperationKind::write_file, handle, text, 0, all ? Operation::exactly : 0);
    ASSERT_TRUE(driver.complete(write));
    EXPECT_EQ(write.bytes(), 20U);
    EXPECT_EQ(write.error_value(), all ? ENOSPC : 0);
  }
  faults().clear();
  faults().end_with(EIO);
  Operation read;
  set_file(read, OperationKind::read_file, handle, text);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(read.error_value(), EIO);
  faults().end_with(EIO);
  Operation sync;
  sync.prepare(OperationKind::sync_file, handle);
  ASSERT_TRUE(driver.complete(sync));
  EXPECT_EQ(sync.error_value(), EIO);
}

// A direct read that was cut short by the end of the file cannot continue there, and the file may
// have grown since.
TEST_P(Files, a_short_read_at_an_unaligned_end_of_a_grown_file_is_the_end) {
  ASSERT_EQ(::pwrite(handle->native(), "0123456789", 10, 0), 10);
  faults().cut(6);
  faults().end_with(EINVAL, 1, 1);
  char buffer[64];
  Operation read;
  set_file(read, OperationKind::read_file, handle, buffer, 0, Operation::exactly);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(read.bytes(), 6U);
  EXPECT_EQ(read.error(), errc::end_of_stream);
}

// Blocks of 4 KiB: the file has ended where one of 512 bytes would.
TEST_P(Files, an_end_within_a_large_block_was_the_end) {
  const std::string text = pattern(1'024);
  ASSERT_EQ(::pwrite(handle->native(), text.data(), text.size(), 0), 1'024);
  faults().cut(512);
  faults().end_with(EINVAL, 1, 1);
  char buffer[1'024];
  Operation read;
  set_file(read, OperationKind::read_file, handle, buffer, 0, Operation::exactly);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(read.bytes(), 512U);
  EXPECT_EQ(read.error(), errc::end_of_stream);
}

// Other code called aio_cancel for the descriptor, or a signal disturbed the request.
TEST_P(Files, an_end_beyond_the_requested_bytes_is_no_end) {
  ASSERT_EQ(::pwrite(handle->native(), "hello", 5, 0), 5);
  for (const int error : {ECANCELED, EINTR}) {
    std::string back(5, '\0');
    faults().end_with(error);
    Operation read;
    set_file(read, OperationKind::read_file, handle, back, 0, Operation::exactly);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_FALSE(read.failed()) << read.error().message();
    EXPECT_EQ(back, "hello");
  }
}

TEST_P(Files, requests_without_a_system_call_are_answered_at_once) {
  std::string text = "text";
  Operation nothing;
  set_file(nothing, OperationKind::write_file, handle, MutableBuffer{text.data(), 0});
  EXPECT_EQ(driver.start(nothing), Submission::completed);
  EXPECT_FALSE(nothing.failed());
  Operation beyond;
  set_file(beyond, OperationKind::read_file, handle, text, ~std::uint64_t{0});
  EXPECT_EQ(driver.start(beyond), Submission::completed);
  EXPECT_EQ(beyond.error_value(), EINVAL);
  EXPECT_EQ(faults().count(Call::read) + faults().count(Call::write), 0U);
}

// The C library also reads and writes descriptors without a position, and waits there.
TEST_P(Files, sockets_and_pipes_are_refused_not_starved_on) {
  std::string text = "text";
  int sockets[2];
  int pipes[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  for (const int fd : {sockets[0], pipes[0]}) {
    Operation read;
    set_file(read, OperationKind::read_file, driver.adopt(fd), text);
    EXPECT_EQ(driver.start(read), Submission::completed);
    EXPECT_EQ(read.error_value(), ESPIPE);
  }
  Operation sync;
  sync.prepare(OperationKind::sync_file, driver.adopt(sockets[1]));
  ASSERT_TRUE(driver.complete(sync));
  EXPECT_EQ(sync.error_value(), EINVAL);
  Operation folder;
  set_file(folder, OperationKind::read_file,
           driver.adopt(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), text);
  ASSERT_TRUE(driver.complete(folder));
  EXPECT_EQ(folder.error_value(), EISDIR);
  ::close(pipes[1]);
}

TEST_P(Files, are_closed_by_a_worker_where_that_may_block) { expect_closes_by_a_worker(driver); }

TEST_P(Files, a_pooled_read_takes_a_block_and_gives_it_back_if_nothing_came) {
  ASSERT_EQ(::pwrite(handle->native(), "hello", 5, 0), 5);
  BufferPool pool{16, 1};
  Operation read;
  const auto prepare = [&](std::uint64_t offset) {
    read.prepare(OperationKind::read_file, handle);
    read.set_pool(&pool);
    read.set_offset(offset);
  };
  prepare(5);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(*read.result(), 0U);
  EXPECT_EQ(read.buffer().size, 0U);
  faults().fail(Call::read, EAGAIN);
  prepare(0);
  EXPECT_EQ(driver.start(read), Submission::busy);
  EXPECT_EQ(read.pool(), &pool);  // as it came
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(std::string_view(static_cast<char*>(read.buffer().data), *read.result()), "hello");
  Operation second;
  second.prepare(OperationKind::read_file, handle);
  second.set_pool(&pool);
  EXPECT_EQ(driver.start(second), Submission::completed);
  EXPECT_EQ(second.error(), errc::pool_exhausted);
  pool.give(read.buffer().data);
}

}  // namespace
}  // namespace baton::test::aio
