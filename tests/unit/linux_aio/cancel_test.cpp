// Cancel at every stage of an operation: it completes once, and its result tells which one won.
#include <errno.h>

#include <array>

#include "core/access.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

using Cancel = EveryForm;
INSTANTIATE_TEST_SUITE_P(forms, Cancel, testing::ValuesIn(forms()), form_name);

TEST_P(Cancel, before_it_is_handed_over) {
  const Block buffer{block};
  Operation read;
  set_read(read, handle, buffer, 0);
  EXPECT_EQ(driver->submit(read), Submission::pending);
  EXPECT_EQ(driver->cancel(read), CancelAnswer::completed);
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  EXPECT_EQ(read.bytes(), 0U);
  EXPECT_EQ(driver->cancel(read), CancelAnswer::too_late);
  EXPECT_EQ(driver->wait_once(Deadline::immediately()), 0U);
  EXPECT_EQ(aio_faults().submits, 0U);
}

// The kernel cannot cancel a file transfer: it completes as usual.
TEST_P(Cancel, in_the_kernel) {
  const Block buffer{block};
  Operation read;
  set_read(read, handle, buffer, block);
  EXPECT_EQ(driver->start(read), Submission::pending);
  EXPECT_EQ(driver->cancel(read), CancelAnswer::requested);
  EXPECT_EQ(aio_faults().cancels, 1U);
  ASSERT_TRUE(driver->run(read));
  EXPECT_FALSE(read.failed());
  EXPECT_TRUE(same(buffer.text(), text.substr(block, block)));
  EXPECT_EQ(driver->cancel(read), CancelAnswer::too_late);
}

TEST_P(Cancel, asked_before_submit) {
  const Block buffer{block};
  Operation read;
  set_read(read, handle, buffer, 0);
  OperationAccess::ask_cancel(read);
  EXPECT_EQ(driver->submit(read), Submission::completed);
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
}

TEST_P(Cancel, never_submitted) {
  Operation read;
  const Block buffer{block};
  set_read(read, handle, buffer, 0);
  EXPECT_EQ(driver->cancel(read), CancelAnswer::too_late);
}

TEST_P(Cancel, a_sync_that_is_held_lets_the_next_go) {
  const Block fresh{pattern(block, 5)};
  std::array<Operation, 2> writes;
  Operation sync;
  set_write(writes[0], handle, fresh, 0);
  driver->submit(writes[0]);
  sync.prepare(OperationKind::sync_file, handle);
  EXPECT_EQ(driver->submit(sync), Submission::pending);
  set_write(writes[1], handle, fresh, block);
  EXPECT_EQ(driver->submit(writes[1]), Submission::pending);
  EXPECT_EQ(driver->cancel(sync), CancelAnswer::completed);
  EXPECT_EQ(sync.error(), std::errc::operation_canceled);
  for (const Operation& write : writes) ASSERT_TRUE(driver->run(write));
  EXPECT_TRUE(same(content(block, block), fresh.text()));
}

TEST_P(Cancel, a_write_that_is_cancelled_lets_its_sync_go) {
  const Block fresh{pattern(block, 5)};
  Operation write;
  Operation sync;
  set_write(write, handle, fresh, 0);
  driver->submit(write);
  sync.prepare(OperationKind::sync_file, handle);
  driver->submit(sync);
  EXPECT_EQ(driver->cancel(write), CancelAnswer::completed);
  ASSERT_TRUE(driver->run(sync));
  EXPECT_FALSE(sync.failed());
  EXPECT_TRUE(same(content(0, block), text.substr(0, block)));
}

}  // namespace
}  // namespace baton::test
