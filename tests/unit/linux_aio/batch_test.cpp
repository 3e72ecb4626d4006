// Requests that the kernel refuses, cuts short or delays: nothing is lost, and nothing is wrongly
// repeated.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <deque>

#include "core/access.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

class Batch : public EveryForm {
 protected:
  void start_reads(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t offset = reads.size() * block;
      set_read(reads.emplace_back(), handle, buffers.emplace_back(block), offset);
      EXPECT_EQ(driver->submit(reads.back()), Submission::pending);
    }
  }
  void expect_all() {
    for (std::size_t i = 0; i < reads.size(); ++i) {
      ASSERT_TRUE(driver->run(reads[i]));
      EXPECT_TRUE(same(buffers[i].text(), text.substr(i * block, block))) << i;
    }
  }
  std::deque<Operation> reads;
  std::deque<Block> buffers;
};
INSTANTIATE_TEST_SUITE_P(forms, Batch, testing::ValuesIn(forms()), form_name);

TEST_P(Batch, one_that_is_cut_short_goes_on_where_it_ended) {
  aio_faults().submit_max = 1;
  start_reads(10);
  expect_all();
  EXPECT_EQ(aio_faults().submits, 10U);
  EXPECT_EQ(aio_faults().submitted, 10U);
}

TEST_P(Batch, no_room_now_is_busy_and_then_there_is_room) {
  start_reads(5);
  aio_faults().submit_error = EAGAIN;
  aio_faults().submit_failures = 1;
  driver->engine().flush();
  Operation late;
  const Block buffer{block};
  set_read(late, handle, buffer, 0);
  EXPECT_EQ(driver->submit(late), Submission::busy);
  EXPECT_FALSE(driver->engine().due().is_never()) << "a time that no descriptor tells";
  expect_all();
  EXPECT_EQ(driver->submit(late), Submission::pending);
  ASSERT_TRUE(driver->run(late));
  EXPECT_TRUE(same(buffer.text(), text.substr(0, block)));
  EXPECT_NE(driver->engine().descriptor(), invalid_handle);
}

// A leader of several engines flushes before it sleeps: congested, it woke itself for ever, a
// million times in two seconds.
TEST_P(Batch, a_flush_without_room_wakes_no_thread_twice) {
  start_reads(1);
  aio_faults().submit_error = EAGAIN;
  aio_faults().submit_failures = 1;
  driver->engine().flush();  // wakes the leader
  const unsigned tried = aio_faults().submits;
  driver->engine().flush();  // the leader's own: no wake-up
  EXPECT_EQ(aio_faults().submits, tried);
  expect_all();
  EXPECT_TRUE(driver->engine().due().is_never());
}

TEST_P(Batch, no_room_in_the_middle_of_one) {
  aio_faults().submit_max = 2;
  start_reads(2);
  driver->engine().flush();
  aio_faults().submit_error = EAGAIN;
  aio_faults().submit_failures = 3;
  Operation third;
  const Block buffer{block};
  set_read(third, handle, buffer, 9 * block);
  EXPECT_EQ(driver->start(third), Submission::pending);
  expect_all();
  ASSERT_TRUE(driver->run(third));
  EXPECT_TRUE(same(buffer.text(), text.substr(9 * block, block)));
}

TEST_P(Batch, cancelled_while_there_is_no_room) {
  start_reads(2);
  aio_faults().submit_error = EAGAIN;
  aio_faults().submit_failures = 2;  // a cancel while other threads may wait tries again, too
  driver->engine().flush();
  EXPECT_EQ(driver->cancel(reads[0]), CancelAnswer::completed);
  EXPECT_EQ(reads[0].error(), std::errc::operation_canceled);
  EXPECT_EQ(driver->cancel(reads[1]), CancelAnswer::completed);
  // No operation waits for room any more: the next wait finds that out, and returns.
  EXPECT_EQ(driver->wait_once(), 0U);
  Operation next;
  const Block buffer{block};
  set_read(next, handle, buffer, 0);
  ASSERT_TRUE(driver->complete(next));
}

// If one thread does everything, the next wait finds out that nothing waits for room any more. It
// ends, so that what was refused as busy is offered again.
TEST_P(Batch, room_again_ends_the_wait) {
  if (GetParam().concurrent) return;  // a cancel takes back what it has made room for
  start_reads(1);
  aio_faults().submit_error = EAGAIN;
  aio_faults().submit_failures = 3;
  driver->engine().flush();
  driver->expect_nothing();  // takes the interrupt, and tries twice in vain
  Operation late;
  const Block buffer{block};
  set_read(late, handle, buffer, 0);
  EXPECT_EQ(driver->submit(late), Submission::busy);
  EXPECT_EQ(driver->cancel(reads[0]), CancelAnswer::completed);
  const Deadline limit = at_last();
  EXPECT_EQ(driver->wait_once(limit), 0U);
  EXPECT_TRUE(is_ahead(limit));
  ASSERT_TRUE(driver->complete(late));
}

TEST_P(Batch, starts_without_room_keep_their_order) {
  start_reads(5);
  aio_faults().submit_error = EAGAIN;
  aio_faults().submit_failures = 1;
  driver->engine().flush();
  expect_all();
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i < 5; ++i) expected.push_back(static_cast<std::int64_t>(i * block));
  EXPECT_EQ(aio_faults().offsets, expected);
}

// Cancelled during io_submit, for which the kernel has no room.
TEST_P(Batch, cancelled_while_it_is_refused) {
  start_reads(2);
  CancelAnswer answer{};
  aio_faults().on_refusal = [&] { answer = driver->cancel(reads[0]); };
  aio_faults().submit_error = EAGAIN;
  aio_faults().submit_failures = 1;
  driver->engine().flush();
  aio_faults().on_refusal = nullptr;
  ASSERT_TRUE(driver->run(reads[0]));
  ASSERT_TRUE(driver->run(reads[1]));
  EXPECT_EQ(answer, CancelAnswer::requested);
  EXPECT_EQ(reads[0].error_value(), ECANCELED);
  EXPECT_FALSE(reads[1].failed());
}

TEST_P(Batch, a_request_that_is_refused_is_that_operations_outcome) {
  start_reads(3);
  aio_faults().submit_error = EBADF;
  aio_faults().submit_failures = 1;
  ASSERT_TRUE(driver->run(reads[0]));
  EXPECT_EQ(reads[0].error(), std::errc::bad_file_descriptor);
  for (std::size_t i = 1; i < 3; ++i) {
    ASSERT_TRUE(driver->run(reads[i]));
    EXPECT_TRUE(same(buffers[i].text(), text.substr(i * block, block)));
  }
}

TEST_P(Batch, without_an_asynchronous_form_a_worker_does_it) {
  aio_faults().submit_error = EINVAL;
  aio_faults().submit_failures = 1;
  start_reads(2);
  expect_all();
  EXPECT_EQ(driver->engine().counters().worker_jobs, 1U);
}

TEST_P(Batch, a_file_system_without_nowait_is_asked_once) {
  aio_faults().refused = EOPNOTSUPP;
  start_reads(1);
  expect_all();
  start_reads(3);
  expect_all();
  EXPECT_EQ(aio_faults().submits, 1U);
  EXPECT_EQ(driver->engine().counters().worker_jobs, 4U) << "io_submit would wait";
}

/// The kernel's results, by io_getevents.
class Results : public Direct {
 protected:
  void SetUp() override { open({.hide_ring = true}); }
  void say(std::int64_t result) {
    aio_faults().result = result;
    aio_faults().results = 1;
  }
};

TEST_F(Results, a_signal_is_no_error) {
  const Block buffer{block};
  Operation read;
  set_read(read, handle, buffer, 0);
  driver->submit(read);
  aio_faults().interrupted = 2;
  EXPECT_EQ(driver->wait_once(), 0U);
  EXPECT_EQ(driver->wait_once(), 0U);
  ASSERT_TRUE(driver->run(read));
  EXPECT_TRUE(same(buffer.text(), text.substr(0, block)));
}

TEST_F(Results, the_remainder_of_a_cancelled_transfer_is_not_started) {
  const Block buffer{2 * block};
  Operation read;
  set_read(read, handle, buffer, 0);
  EXPECT_EQ(driver->start(read), Submission::pending);
  OperationAccess::ask_cancel(read);
  EXPECT_EQ(driver->cancel(read), CancelAnswer::requested);
  say(block);
  ASSERT_TRUE(driver->run(read));
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  EXPECT_EQ(read.bytes(), block) << "what was moved is told";
  EXPECT_EQ(driver->engine().counters().worker_jobs, 0U);
}

TEST_F(Results, a_short_transfer_is_continued_by_a_worker) {
  const Block buffer{2 * block};
  Operation read;
  set_read(read, handle, buffer, 0);
  say(block);
  ASSERT_TRUE(driver->complete(read));
  EXPECT_EQ(*read.result(), 2 * block);
  EXPECT_TRUE(same(buffer.text(), text.substr(0, 2 * block)));
  const Block fresh{pattern(2 * block, 9)};
  Operation write;
  set_write(write, handle, fresh, 0, Operation::exactly);
  say(block);
  ASSERT_TRUE(driver->complete(write));
  EXPECT_EQ(*write.result(), 2 * block);
  EXPECT_TRUE(same(content(0, 2 * block), fresh.text()));
  EXPECT_EQ(driver->engine().counters().worker_jobs, 2U);
}

TEST_F(Results, transfers_that_would_wait_are_a_workers) {
  const Block buffer{block};
  Operation read;
  for (const int error : {EAGAIN, EINTR, ECANCELED}) {
    set_read(read, handle, buffer, 2 * block);
    say(-error);
    ASSERT_TRUE(driver->complete(read));
    EXPECT_EQ(*read.result(), block) << error;
    EXPECT_TRUE(same(buffer.text(), text.substr(2 * block, block)));
  }
  EXPECT_EQ(driver->engine().counters().worker_jobs, 3U);
}

TEST_F(Results, errors_are_reported_once) {
  const Block buffer{block};
  Operation operation;
  for (const int error : {EIO, ENOSPC, EDQUOT, EFBIG}) {
    set_write(operation, handle, buffer, 0);
    say(-error);
    ASSERT_TRUE(driver->complete(operation));
    EXPECT_EQ(operation.error_value(), error);
  }
  operation.prepare(OperationKind::sync_file, handle);
  say(-EIO);
  ASSERT_TRUE(driver->complete(operation));
  EXPECT_EQ(operation.error(), std::errc::io_error);
  EXPECT_EQ(driver->engine().counters().worker_jobs, 0U);
}

TEST_F(Results, a_file_system_that_learns_late_that_it_has_no_nowait) {
  const Block buffer{block};
  Operation read;
  set_read(read, handle, buffer, 0);
  say(-EOPNOTSUPP);
  ASSERT_TRUE(driver->complete(read));
  EXPECT_TRUE(same(buffer.text(), text.substr(0, block)));
  EXPECT_EQ(driver->engine().counters().worker_jobs, 1U);
}

TEST_F(Results, without_a_thread_the_operation_fails_and_the_next_may_succeed) {
  faults().fail(Call::thread_start, EAGAIN, 1);
  const Block buffer{block};
  Operation read;
  set_read(read, handle, buffer, 0);
  say(-EAGAIN);
  ASSERT_TRUE(driver->complete(read));
  EXPECT_EQ(read.error(), std::errc::not_enough_memory);
  set_read(read, handle, buffer, 0);
  ASSERT_TRUE(driver->complete(read));
  EXPECT_TRUE(same(buffer.text(), text.substr(0, block)));
}

}  // namespace
}  // namespace baton::test
