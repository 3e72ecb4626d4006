// Files opened with O_DIRECT: transfers in the kernel without a worker, byte by byte.
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <unistd.h>

#include <deque>

#include "baton/buffer_pool.hpp"
#include "driver.hpp"
#include "engines/linux_aio/context.hpp"

namespace baton::test {
namespace {

using DirectFile = EveryForm;
INSTANTIATE_TEST_SUITE_P(forms, DirectFile, testing::ValuesIn(forms()), form_name);

TEST_P(DirectFile, reads_and_writes_without_a_worker) {
  Block buffer{2 * block};
  Operation read;
  set_read(read, handle, buffer, 3 * block);
  EXPECT_EQ(driver->start(read), Submission::pending);
  ASSERT_TRUE(driver->run(read));
  EXPECT_EQ(*read.result(), 2 * block);
  EXPECT_TRUE(same(buffer.text(), text.substr(3 * block, 2 * block)));

  const Block fresh{pattern(block, 7)};
  Operation write;
  set_write(write, handle, fresh, 5 * block, Operation::exactly);
  ASSERT_TRUE(driver->complete(write));
  EXPECT_EQ(*write.result(), block);
  EXPECT_TRUE(same(content(5 * block, block), fresh.text()));
  EXPECT_EQ(driver->engine().worker_threads(), 0U);
}

TEST_P(DirectFile, lists_of_buffers) {
  const Block first{block};
  const Block second{2 * block};
  const MutableBuffer list[] = {first, {}, second};
  Operation read;
  read.prepare(OperationKind::read_file, handle, Operation::exactly);
  read.set_buffers(MutableBuffers{list});
  read.set_offset(block);
  ASSERT_TRUE(driver->complete(read));
  EXPECT_EQ(*read.result(), 3 * block);
  EXPECT_TRUE(same(first.text(), text.substr(block, block)));
  EXPECT_TRUE(same(second.text(), text.substr(2 * block, 2 * block)));

  Operation write;
  write.prepare(OperationKind::write_file, handle);
  write.set_buffers(MutableBuffers{list});
  write.set_offset(0);
  ASSERT_TRUE(driver->complete(write));
  EXPECT_EQ(*write.result(), 3 * block);
  EXPECT_TRUE(same(content(0, 3 * block), text.substr(block, 3 * block)));
}

TEST_P(DirectFile, many_at_once_in_lots_and_every_byte) {
  std::deque<Operation> reads;
  std::deque<Block> buffers;
  for (std::size_t i = 0; i < blocks; ++i) {
    set_read(reads.emplace_back(), handle, buffers.emplace_back(block), i * block);
    EXPECT_EQ(driver->submit(reads.back()), Submission::pending);
  }
  EXPECT_EQ(aio_faults().submits, 0U) << "they go with the wait";
  for (const Operation& read : reads) ASSERT_TRUE(driver->run(read));
  constexpr std::size_t lot = engines::linux_aio::Context::lot_max;
  EXPECT_EQ(aio_faults().submits, (blocks + lot - 1) / lot);
  for (std::size_t i = 0; i < blocks; ++i) {
    EXPECT_TRUE(same(buffers[i].text(), text.substr(i * block, block))) << i;
  }
}

TEST_P(DirectFile, misaligned_is_the_kernels_error) {
  const Block buffer{2 * block};
  Operation operation;
  for (const OperationKind kind : {OperationKind::read_file, OperationKind::write_file}) {
    set_file(operation, kind, handle, {buffer.data() + 1, block}, 0);
    ASSERT_TRUE(driver->complete(operation));
    EXPECT_EQ(operation.error(), std::errc::invalid_argument);
    set_file(operation, kind, handle, {buffer.data(), block}, 100);
    ASSERT_TRUE(driver->complete(operation));
    EXPECT_EQ(operation.error(), std::errc::invalid_argument);
    EXPECT_EQ(operation.bytes(), 0U);
  }
  EXPECT_TRUE(same(content(0, text.size()), text));
}

TEST_P(DirectFile, the_end_of_the_file_between_two_blocks) {
  ASSERT_EQ(::ftruncate(handle->native(), 2 * block + 100), 0);
  // The last page is dirty now, and a direct read has to wait until it is written.
  ASSERT_EQ(::fsync(handle->native()), 0);
  const Block buffer{2 * block};
  Operation read;
  for (const bool all : {false, true}) {
    const std::uint16_t flags = all ? std::uint16_t{Operation::exactly} : std::uint16_t{0};
    set_read(read, handle, buffer, block, flags);
    ASSERT_TRUE(driver->complete(read));
    EXPECT_EQ(read.bytes(), block + 100);
    EXPECT_EQ(read.error(), all ? make_error_code(errc::end_of_stream) : std::error_code{});
    EXPECT_TRUE(same(buffer.text().substr(0, block + 100), text.substr(block, block + 100)));
    set_read(read, handle, buffer, 8 * block, flags);
    ASSERT_TRUE(driver->complete(read));
    EXPECT_EQ(read.bytes(), 0U);
    EXPECT_EQ(read.error(), all ? make_error_code(errc::end_of_stream) : std::error_code{});
  }
  EXPECT_EQ(driver->engine().counters().worker_jobs, 2U)
      << "the size of the file, which may be far away, is no question of the leader's";
}

// Such a request would wait for the file system inside io_submit.
TEST_P(DirectFile, a_write_that_makes_the_file_longer_is_a_workers) {
  const Block fresh{pattern(block, 3)};
  Operation write;
  set_write(write, handle, fresh, 2 * text.size(), Operation::exactly);
  ASSERT_TRUE(driver->complete(write));
  EXPECT_EQ(*write.result(), block);
  EXPECT_TRUE(same(content(2 * text.size(), block), fresh.text()));
}

TEST_P(DirectFile, syncs) {
  Operation sync;
  for (const std::uint16_t flags : {std::uint16_t{0}, std::uint16_t{Operation::data_only}}) {
    sync.prepare(OperationKind::sync_file, handle, flags);
    EXPECT_EQ(driver->start(sync), Submission::pending);
    ASSERT_TRUE(driver->run(sync));
    EXPECT_FALSE(sync.failed()) << sync.error().message();
  }
  // The whole file, and then its data only.
  EXPECT_EQ(aio_faults().commands, (std::vector<unsigned>{IOCB_CMD_FSYNC, IOCB_CMD_FDSYNC}));
  EXPECT_EQ(driver->engine().worker_threads(), 0U);
}

TEST_P(DirectFile, nothing_to_move_and_offsets_that_do_not_fit) {
  const Block buffer{block};
  Operation read;
  set_read(read, handle, {buffer.data(), 0}, 0);
  EXPECT_EQ(driver->submit(read), Submission::completed);
  EXPECT_EQ(*read.result(), 0U);
  set_read(read, handle, buffer, std::uint64_t{1} << 63);
  EXPECT_EQ(driver->submit(read), Submission::completed);
  EXPECT_EQ(read.error(), std::errc::invalid_argument);
}

TEST_P(DirectFile, pooled_blocks_come_back_when_nothing_came) {
  BufferPool pool{block, 1};
  Operation read;
  read.prepare(OperationKind::read_file, handle);
  read.set_pool(&pool);
  read.set_offset(4 * text.size());
  ASSERT_TRUE(driver->complete(read));
  EXPECT_EQ(pool.available(), 1U);
  EXPECT_EQ(read.buffer().size, 0U);
  void* const taken = pool.take();
  read.prepare(OperationKind::read_file, handle);
  read.set_pool(&pool);
  ASSERT_TRUE(driver->complete(read));
  EXPECT_EQ(read.error(), errc::pool_exhausted);
  pool.give(taken);
}

TEST_P(DirectFile, errors_are_completions) {
  const Block buffer{block};
  Operation write;
  const std::string path = "/proc/self/fd/" + std::to_string(handle->native());
  Handle* const read_only = driver->adopt(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  set_write(write, read_only, buffer, 0);
  ASSERT_TRUE(driver->complete(write));
  EXPECT_EQ(write.error(), std::errc::bad_file_descriptor);
  Operation read;
  set_read(read, handle, {reinterpret_cast<void*>(Block::alignment), block}, 0);
  ASSERT_TRUE(driver->complete(read));
  EXPECT_EQ(read.error(), std::errc::bad_address);
}

}  // namespace
}  // namespace baton::test
