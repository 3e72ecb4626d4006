// Order: appends, and syncs behind the writes before them.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <deque>
#include <string>

#include "driver.hpp"

namespace baton::test::aio {
namespace {

class Order : public EveryForm {
 protected:
  bool run_all(const std::deque<Operation>& operations) {
    for (const Operation& operation : operations) {
      if (!driver.run(operation)) return false;
    }
    return true;
  }
};
BATON_AIO_SUITE(Order);

TEST_P(Order, appends_keep_it_though_each_takes_several_requests) {
  Handle* const handle = driver.adopt(temporary_file(O_APPEND));
  std::deque<std::string> texts;
  std::deque<Operation> operations;
  std::string expected;
  faults().cut(3);
  for (int i = 0; i < 40; ++i) {
    texts.push_back("block " + std::to_string(i) + "\n");
    expected += texts.back();
    set_file(operations.emplace_back(), OperationKind::write_file, handle, texts.back(), 0,
             Operation::append | Operation::exactly);
    ASSERT_EQ(driver.start(operations.back()), Submission::pending);
  }
  ASSERT_TRUE(run_all(operations));
  EXPECT_EQ(content(handle->native()), expected);
  EXPECT_EQ(faults().count(Call::seek_end), 0U)
      << "only the file system knows it, and may be far away";
}

TEST_P(Order, a_sync_waits_for_the_writes_before_it_with_all_their_pieces) {
  Handle* const handle = driver.adopt(temporary_file());
  std::string text = pattern(10);
  faults().close_gate();
  faults().cut(4);
  Operation before;
  Operation sync;
  Operation behind;
  Operation read;
  set_file(before, OperationKind::write_file, handle, text, 0, Operation::exactly);
  sync.prepare(OperationKind::sync_file, handle);
  set_file(behind, OperationKind::write_file, handle, text, 100);
  set_file(read, OperationKind::read_file, handle, text, 1'000);
  for (Operation* operation : {&before, &sync, &behind, &read}) {
    EXPECT_EQ(driver.start(*operation), Submission::pending);
  }
  driver.wait_once(Deadline::immediately());
  EXPECT_EQ(faults().count(Call::fsync), 0U);
  EXPECT_EQ(faults().count(Call::write), 1U);  // the system gets one request of a handle at a time
  EXPECT_EQ(faults().count(Call::read), 0U);
  faults().open_gate();
  for (const Operation* operation : {&before, &sync, &behind, &read}) {
    ASSERT_TRUE(driver.run(*operation));
    EXPECT_FALSE(operation->failed());
  }
  std::size_t at[2] = {};
  for (std::size_t i = 0; i < driver.history().size(); ++i) {
    if (driver.history()[i] == &before) at[0] = i;
    if (driver.history()[i] == &sync) at[1] = i;
  }
  EXPECT_LT(at[0], at[1]);
}

TEST_P(Order, a_held_operation_can_be_cancelled_and_later_ones_go_on) {
  Handle* const handle = driver.adopt(temporary_file());
  std::string text = "text";
  faults().close_gate();
  Operation write;
  Operation sync;
  Operation behind;
  set_file(write, OperationKind::write_file, handle, text);
  sync.prepare(OperationKind::sync_file, handle);
  set_file(behind, OperationKind::write_file, handle, text, 10);
  for (Operation* operation : {&write, &sync, &behind}) driver.start(*operation);
  EXPECT_EQ(faults().count(Call::write), 1U);
  EXPECT_EQ(driver.cancel(sync), CancelAnswer::completed);
  EXPECT_EQ(sync.error_value(), ECANCELED);
  EXPECT_EQ(driver.cancel(sync), CancelAnswer::too_late);
  faults().open_gate();
  ASSERT_TRUE(driver.run(write));
  ASSERT_TRUE(driver.run(behind));
  EXPECT_FALSE(behind.failed());
}

// glibc loses the requests behind a cancelled one, so it never gets a second one of a handle.
TEST_P(Order, the_system_has_one_request_of_a_handle_at_a_time) {
  Handle* const handle = driver.adopt(temporary_file());
  std::string text = "text";
  faults().close_gate();
  std::deque<Operation> reads(3);
  for (Operation& read : reads) {
    set_file(read, OperationKind::read_file, handle, text);
    ASSERT_EQ(driver.start(read), Submission::pending);
  }
  EXPECT_EQ(faults().count(Call::read), 1U);
  EXPECT_EQ(driver.cancel(reads[0]), CancelAnswer::requested);
  ASSERT_TRUE(driver.run(reads[0]));
  EXPECT_EQ(reads[0].error_value(), ECANCELED);
  EXPECT_EQ(faults().count(Call::read), 2U);
  faults().open_gate();
  ASSERT_TRUE(driver.run(reads[1]));
  ASSERT_TRUE(driver.run(reads[2]));
  EXPECT_FALSE(reads[1].failed() || reads[2].failed());
}

// Two handles of one descriptor: the request of one runs to its end, so that the other's is not
// lost.
TEST_P(Order, no_request_is_cancelled_beside_another_of_its_descriptor) {
  const int file = temporary_file();
  Handle* const one = driver.adopt(file);
  Handle* const other = driver.borrow(file, HandleKind::file);
  std::string text = "text";
  faults().close_gate();
  std::deque<Operation> writes(2);
  set_file(writes[0], OperationKind::write_file, one, text);
  set_file(writes[1], OperationKind::write_file, other, text, 4);
  for (Operation& write : writes) ASSERT_EQ(driver.start(write), Submission::pending);
  EXPECT_EQ(driver.cancel(writes[0]), CancelAnswer::requested);
  EXPECT_EQ(faults().count(Call::cancel), 0U);
  faults().open_gate();
  ASSERT_TRUE(run_all(writes));
  EXPECT_EQ(content(file), "texttext");
}

// The same against glibc itself: all its threads are kept busy, so that nothing of the file has
// begun when the first of three is cancelled.
TEST_P(Order, those_behind_a_cancelled_request_are_not_lost) {
  constexpr int threads_of_glibc = 20;  // for the whole process, unless aio_init says otherwise
  int ends[threads_of_glibc][2];
  char bytes[threads_of_glibc];
  aiocb busy[threads_of_glibc] = {};
  for (int i = 0; i < threads_of_glibc; ++i) {
    ASSERT_EQ(::pipe2(ends[i], O_CLOEXEC), 0);
    busy[i].aio_fildes = ends[i][0];
    busy[i].aio_buf = &bytes[i];
    busy[i].aio_nbytes = 1;
    busy[i].aio_sigevent.sigev_notify = SIGEV_NONE;
    ASSERT_EQ(::aio_read(&busy[i]), 0);
  }
  Handle* const handle = driver.adopt(temporary_file());
  std::string text = "text";
  std::deque<Operation> writes(3);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_file(writes[i], OperationKind::write_file, handle, text, 4 * i);
    ASSERT_EQ(driver.start(writes[i]), Submission::pending);
  }
  EXPECT_EQ(driver.cancel(writes[0]), CancelAnswer::requested);
  for (auto& end : ends) ASSERT_EQ(::write(end[1], "x", 1), 1);
  ASSERT_TRUE(run_all(writes));
  EXPECT_FALSE(writes[1].failed() || writes[2].failed());
  EXPECT_EQ(content(handle->native()).substr(4), "texttext");
  for (int i = 0; i < threads_of_glibc; ++i) {
    const aiocb* const list[] = {&busy[i]};
    while (::aio_error(&busy[i]) == EINPROGRESS) ::aio_suspend(list, 1, nullptr);
    ::aio_return(&busy[i]);
    ::close(ends[i][0]);
    ::close(ends[i][1]);
  }
}

// Operations that fail without the system end in their turn, however many there are.
TEST_P(Order, a_row_of_failures_behind_a_sync) {
  Handle* const handle = driver.adopt(temporary_file());
  std::string text = "text";
  faults().close_gate();
  std::deque<Operation> operations;
  set_file(operations.emplace_back(), OperationKind::write_file, handle, text);
  operations.emplace_back().prepare(OperationKind::sync_file, handle);
  for (int i = 0; i < 100; ++i) {
    set_file(operations.emplace_back(), OperationKind::write_file, handle, text, ~std::uint64_t{0});
  }
  for (Operation& operation : operations) ASSERT_EQ(driver.start(operation), Submission::pending);
  faults().open_gate();
  ASSERT_TRUE(run_all(operations));
  EXPECT_FALSE(operations[1].failed());
  for (std::size_t i = 2; i < operations.size(); ++i)
    EXPECT_EQ(operations[i].error_value(), EINVAL);
}

}  // namespace
}  // namespace baton::test::aio
