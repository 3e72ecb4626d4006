// Buffered files and ordered operations: completed at once from the page cache, otherwise by
// workers; and the order of writes and syncs, whichever thread runs them.
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <deque>

#include "core/access.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

class Buffered : public testing::TestWithParam<Form> {
 protected:
  Buffered() : driver(with_workers()), handle(driver.adopt(temporary_file())) {}
  static Form with_workers() {
    Form form = GetParam();
    form.workers = 2;
    return form;
  }
  std::string content(const Handle* file) const {
    std::string all(1'000'000, '\0');
    const ssize_t size = ::pread(file->native(), all.data(), all.size(), 0);
    all.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return all;
  }
  Driver driver;
  Handle* handle;
  std::string text = "0123456789";
};
INSTANTIATE_TEST_SUITE_P(forms, Buffered, testing::ValuesIn(forms()), form_name);

TEST_P(Buffered, cached_bytes_need_no_thread) {
  ASSERT_EQ(::pwrite(handle->native(), "hello", 5, 0), 5);
  char buffer[5];
  Operation read;
  set_read(read, handle, buffer, 0);
  EXPECT_EQ(driver.submit(read), Submission::completed);
  EXPECT_EQ(std::string_view(buffer, *read.result()), "hello");
  EXPECT_EQ(driver.engine().worker_threads(), 0U);
  faults().cold(true);
  set_read(read, handle, buffer, 0);
  EXPECT_EQ(driver.submit(read), Submission::pending);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 5U);
  EXPECT_EQ(driver.engine().counters().worker_jobs, 1U);
  EXPECT_EQ(aio_faults().submits, 0U) << "io_submit would have waited for the disk";
}

TEST_P(Buffered, are_closed_by_a_worker_where_that_may_block) { expect_closes_by_a_worker(driver); }

TEST_P(Buffered, short_transfers_are_continued) {
  faults().cold(true);
  faults().cut(7);
  std::string long_text = pattern(2'000);
  std::string back(long_text.size(), '\0');
  Operation write;
  Operation read;
  set_write(write, handle, long_text, 5, Operation::exactly);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), long_text.size());
  set_read(read, handle, back, 5, Operation::exactly);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(back, long_text);
  set_read(read, handle, back, 1'005, Operation::exactly);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(read.error(), errc::end_of_stream);
  EXPECT_EQ(read.bytes(), 1'000U);
}

TEST_P(Buffered, appends_are_written_in_order) {
  Handle* const log = driver.adopt(temporary_file(O_APPEND));
  faults().cold(true);
  faults().cut(3);
  std::deque<std::string> texts;
  std::deque<Operation> writes;
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    expected += texts.emplace_back("line " + std::to_string(i) + "\n");
    set_write(writes.emplace_back(), log, texts.back(), 0, Operation::append | Operation::exactly);
    driver.start(writes.back());
  }
  for (const Operation& write : writes) ASSERT_TRUE(driver.run(write));
  for (std::size_t i = 0; i < writes.size(); ++i) EXPECT_EQ(driver.history()[i], &writes[i]);
  EXPECT_TRUE(same(content(log), expected));
}

TEST_P(Buffered, a_sync_waits_for_earlier_writes_of_workers) {
  faults().cold(true);
  faults().close_gate();
  std::array<Operation, 2> early;
  Operation sync;
  Operation late;
  for (std::size_t i = 0; i < early.size(); ++i) {
    set_write(early[i], handle, text, i * 10);
    driver.start(early[i]);
  }
  sync.prepare(OperationKind::sync_file, handle);
  EXPECT_EQ(driver.start(sync), Submission::pending);
  set_write(late, handle, text, 100);
  EXPECT_EQ(driver.start(late), Submission::pending);
  faults().until_at_gate(2);
  EXPECT_EQ(aio_faults().submits, 0U) << "the sync is held";
  faults().open_gate(1);
  while (!driver.is_done(early[0]) && !driver.is_done(early[1])) driver.wait_once();
  EXPECT_EQ(aio_faults().submits, 0U);
  faults().open_gate(1);
  while (!driver.is_done(early[0]) || !driver.is_done(early[1])) driver.wait_once();
  ASSERT_TRUE(driver.run(sync)) << "the later write stands at the gate, and does not hold it";
  EXPECT_FALSE(sync.failed());
  EXPECT_FALSE(driver.is_done(late));
  faults().open_gate();
  ASSERT_TRUE(driver.run(late));
  EXPECT_EQ(aio_faults().submitted, 1U);
}

// The start of the write is not over when the sync comes, and no completion follows it.
TEST_P(Buffered, a_sync_that_comes_during_a_try_goes_on_after_it) {
  Operation write;
  Operation sync;
  set_write(write, handle, text, 0);
  sync.prepare(OperationKind::sync_file, handle);
  faults().before_try([&] {
    EXPECT_EQ(driver.start(sync), Submission::pending);
    EXPECT_EQ(aio_faults().submits, 0U) << "it is held";
  });
  EXPECT_EQ(driver.start(write), Submission::completed);
  ASSERT_TRUE(driver.run(sync));
  EXPECT_FALSE(sync.failed());
}

TEST_P(Buffered, cancel_of_an_operation_before_and_in_a_worker) {
  faults().cold(true);
  faults().close_gate();
  std::array<Operation, 3> writes;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_write(writes[i], handle, text, i * 10);
    EXPECT_EQ(driver.start(writes[i]), Submission::pending);
  }
  faults().until_at_gate(2);
  EXPECT_EQ(driver.cancel(writes[2]), CancelAnswer::completed);
  EXPECT_EQ(driver.cancel(writes[0]), CancelAnswer::requested);
  faults().open_gate();
  ASSERT_TRUE(driver.run(writes[0]));
  EXPECT_EQ(*writes[0].result(), text.size()) << "it was too far";
  ASSERT_TRUE(driver.run(writes[1]));
}

TEST_P(Buffered, cancel_in_a_row_of_appends_lets_the_others_go) {
  Handle* const log = driver.adopt(temporary_file(O_APPEND));
  faults().cold(true);
  faults().close_gate();
  std::array<std::string, 3> texts{"one", "two", "three"};
  std::array<Operation, 3> writes;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_write(writes[i], log, texts[i], 0, Operation::append | Operation::exactly);
    driver.start(writes[i]);
  }
  faults().until_at_gate(1);
  EXPECT_EQ(driver.cancel(writes[1]), CancelAnswer::completed);
  faults().open_gate();
  ASSERT_TRUE(driver.run(writes[0]));
  ASSERT_TRUE(driver.run(writes[2]));
  EXPECT_TRUE(same(content(log), "onethree"));
}

TEST_P(Buffered, another_kind_than_a_file_has_the_kernels_error) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  Handle* const socket = driver.adopt(ends[0], HandleKind::stream_socket);
  Operation operation;
  set_read(operation, socket, text, 0);
  EXPECT_EQ(driver.submit(operation), Submission::completed);
  EXPECT_EQ(operation.error(), std::errc::invalid_seek);
  operation.prepare(OperationKind::sync_file, socket);
  EXPECT_EQ(driver.submit(operation), Submission::completed);
  EXPECT_EQ(operation.error(), std::errc::invalid_argument);
  Handle* const folder = driver.adopt(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  set_read(operation, folder, text, 0);
  ASSERT_TRUE(driver.complete(operation));
  EXPECT_EQ(operation.error(), std::errc::is_a_directory);
  ::close(ends[1]);
}

TEST_P(Buffered, all_slots_are_in_use) {
  Driver small{{.concurrent = GetParam().concurrent, .started_max = 2}};
  Handle* const file = small.adopt(temporary_file());
  faults().cold(true);
  faults().close_gate();
  std::array<Operation, 3> writes;
  for (Operation& write : writes) set_write(write, file, text, 0);
  EXPECT_EQ(small.start(writes[0]), Submission::pending);
  EXPECT_EQ(small.start(writes[1]), Submission::pending);
  EXPECT_EQ(small.start(writes[2]), Submission::busy);
  faults().open_gate();
  ASSERT_TRUE(small.run(writes[0]));
  EXPECT_EQ(small.start(writes[2]), Submission::pending);
  ASSERT_TRUE(small.run(writes[1]));
  ASSERT_TRUE(small.run(writes[2]));
  // One operation at a time, and its slot is free again.
  for (int i = 0; i < 10; ++i) {
    set_write(writes[0], file, text, 0);
    ASSERT_EQ(small.start(writes[0]), Submission::pending) << i;
    ASSERT_TRUE(small.run(writes[0]));
  }
}

}  // namespace
}  // namespace baton::test
