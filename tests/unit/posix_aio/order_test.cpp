// Order: appends, the current position, and syncs behind the writes before them.
#include <errno.h>
#include <fcntl.h>
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
  EXPECT_EQ(::lseek(handle->native(), 0, SEEK_CUR), static_cast<off_t>(expected.size()));
}

TEST_P(Order, without_an_offset_the_position_moves_as_with_read_and_write) {
  Handle* const handle = driver.adopt(temporary_file());
  ASSERT_EQ(::pwrite(handle->native(), "0123456789", 10, 0), 10);
  char parts[3][4] = {};
  std::deque<Operation> reads;
  faults().cut(2);
  for (auto& part : parts) {
    set_file(reads.emplace_back(), OperationKind::read_file, handle, MutableBuffer{part, 4}, 0,
             Operation::append);
    driver.start(reads.back());
  }
  ASSERT_TRUE(run_all(reads));
  EXPECT_EQ(std::string(parts[0], 4) + std::string(parts[1], 4) + std::string(parts[2], 2),
            "0123456789");
  EXPECT_EQ(reads[2].bytes(), 2U);
  std::string text = "xyz";
  Operation write;
  set_file(write, OperationKind::write_file, handle, text, 0, Operation::append);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(content(handle->native()), "0123456789xyz");
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
  EXPECT_EQ(faults().count(Call::write), 1U);  // the one behind is held behind the sync
  EXPECT_EQ(faults().count(Call::read), 1U);   // reads are not
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

TEST_P(Order, what_is_held_can_be_cancelled_and_those_behind_it_go_on) {
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
  EXPECT_EQ(faults().count(Call::write), 2U);
  EXPECT_EQ(driver.cancel(sync), CancelAnswer::too_late);
  faults().open_gate();
  ASSERT_TRUE(driver.run(write));
  ASSERT_TRUE(driver.run(behind));
  EXPECT_FALSE(behind.failed());
}

// What fails without the system ends where its turn comes, however many there are.
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
