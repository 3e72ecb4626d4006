// Requests that the system refuses, cancels, or continues: nothing is lost, and answers are
// correct.
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <iterator>
#include <string>

#include "core/access.hpp"
#include "driver.hpp"

namespace baton::test::aio {
namespace {

class System : public EveryForm {
 protected:
  System() { handle = driver.adopt(temporary_file()); }
  /// A write whose rest finds no room, so that it waits in the engine.
  void start_deferred(Operation& write) {
    faults().cut(5);
    faults().fail(Call::write, EAGAIN, 1'000, 1);
    set_file(write, OperationKind::write_file, handle, text, 0, Operation::exactly);
    ASSERT_EQ(driver.start(write), Submission::pending);
    while (faults().count(Call::write) < 2) driver.wait_once();
  }
  std::string text = pattern(12);
  Handle* handle;
};
BATON_AIO_SUITE(System);

TEST_P(System, no_room_is_busy_and_the_next_wait_ends_soon) {
  faults().fail(Call::write, EAGAIN);
  Operation write;
  set_file(write, OperationKind::write_file, handle, text);
  EXPECT_EQ(driver.start(write), Submission::busy);
  // Nothing is in flight, so nothing would end this wait.
  EXPECT_EQ(driver.wait_once(Deadline::never()), 0U);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), text.size());
}

// A limit on threads may let the system start none (EAGAIN), and then nothing will make room.
TEST_P(System, no_room_for_long_with_nothing_in_flight_is_an_error) {
  faults().fail(Call::write, EAGAIN, 1'000);
  Operation write;
  set_file(write, OperationKind::write_file, handle, text);
  Submission answer = Submission::busy;
  for (int tries = 0; answer == Submission::busy; ++tries) {
    ASSERT_LT(tries, 100);
    answer = driver.start(write);
    if (answer != Submission::busy) break;
    EXPECT_EQ(driver.wait_once(Deadline::never()), 0U);
  }
  EXPECT_EQ(answer, Submission::completed);
  EXPECT_EQ(write.error(), std::errc::not_enough_memory);
  faults().clear();
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), text.size());
}

// A refused request is never reported: an engine that expects it would wait for it at its end, and
// leak its descriptors.
TEST_P(System, refused_operations_are_not_expected_any_more) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
  };
  const auto before = descriptors();
  {
    Driver other{GetParam()};
    Handle* const file = other.adopt(temporary_file());
    for (const int error : {EAGAIN, ENOSYS}) {
      faults().fail(Call::write, error);
      Operation write;
      set_file(write, OperationKind::write_file, file, text);
      EXPECT_EQ(other.start(write), error == EAGAIN ? Submission::busy : Submission::completed);
      if (error == EAGAIN) {
        ASSERT_TRUE(other.complete(write));
      }
    }
  }
  EXPECT_EQ(descriptors(), before);
}

TEST_P(System, no_room_in_the_middle_is_waited_out) {
  faults().cut(5);
  faults().fail(Call::write, EAGAIN, 3, 1);
  Operation write;
  set_file(write, OperationKind::write_file, handle, text, 0, Operation::exactly);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), text.size());
  EXPECT_EQ(content(handle->native()), text);
}

TEST_P(System, deferred_starts_can_be_cancelled_and_are_not_overtaken) {
  Operation write;
  start_deferred(write);
  Operation read;
  set_file(read, OperationKind::read_file, driver.adopt(temporary_file()), text);
  EXPECT_EQ(driver.start(read), Submission::busy);
  EXPECT_EQ(driver.cancel(write), CancelAnswer::completed);
  EXPECT_EQ(write.error_value(), ECANCELED);
  EXPECT_EQ(write.bytes(), 5U);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_FALSE(read.failed());
}

TEST_P(System, a_deferred_start_that_is_cancelled_lets_the_next_one_go) {
  Operation write;
  start_deferred(write);
  Operation read;
  set_file(read, OperationKind::read_file, handle, text);
  EXPECT_EQ(driver.start(read), Submission::pending) << "behind the write";
  EXPECT_EQ(driver.cancel(write), CancelAnswer::completed);
  ASSERT_TRUE(driver.run(read));
  EXPECT_FALSE(read.failed());
}

// Three that have moved a part find no room for the rest, each again and again. The first that was
// refused is the first that is taken.
TEST_P(System, deferred_starts_keep_their_order) {
  faults().cut(5);
  faults().fail(Call::write, EAGAIN, 6, 3);  // not so often that it is an error
  std::array<Operation, 3> writes;
  for (Operation& write : writes) {
    Handle* const file = driver.adopt(temporary_file());
    set_file(write, OperationKind::write_file, file, text, 0, Operation::exactly);
    ASSERT_EQ(driver.start(write), Submission::pending);
  }
  for (const Operation& write : writes) ASSERT_TRUE(driver.run(write));
  std::vector<int> refused;
  std::vector<int> taken_later;
  const auto is_in = [](const std::vector<int>& list, int fd) {
    return std::find(list.begin(), list.end(), fd) != list.end();
  };
  for (const Faults::Attempt& attempt : faults().attempts()) {
    std::vector<int>& list = attempt.taken ? taken_later : refused;
    if (attempt.taken && !is_in(refused, attempt.fd)) continue;
    if (!is_in(list, attempt.fd)) list.push_back(attempt.fd);
  }
  EXPECT_FALSE(refused.empty());
  EXPECT_EQ(taken_later, refused);
}

TEST_P(System, an_error_of_the_call_is_a_completion) {
  faults().fail(Call::read, ENOSYS);
  Operation read;
  set_file(read, OperationKind::read_file, handle, text);
  EXPECT_EQ(driver.start(read), Submission::completed);
  EXPECT_EQ(read.error_value(), ENOSYS);
}

// A wait over several engines polls first and then sleeps on the descriptors: an engine that had no
// room for a descriptor must have none after the poll either, or it would never be polled again.
TEST_P(System, a_look_does_not_forget_that_there_was_no_room) {
  faults().fail(Call::read, EAGAIN);
  Operation read;
  set_file(read, OperationKind::read_file, handle, text);
  ASSERT_EQ(driver.start(read), Submission::busy);
  OperationQueue completed;
  driver.engine().wait(completed, Deadline::immediately());
  EXPECT_TRUE(completed.empty());
  // A wait over several engines polls again when the pause is over.
  EXPECT_FALSE(driver.engine().due().is_never());
  ASSERT_TRUE(driver.complete(read));
}

TEST_P(System, takes_256_and_says_so_beyond) {
  EXPECT_EQ(driver.engine().info().operations_max, 256U);
  faults().close_gate();
  std::deque<Operation> reads(257);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    // The system has one request of a handle at a time.
    set_file(reads[i], OperationKind::read_file, driver.adopt(temporary_file()), text);
    EXPECT_EQ(driver.start(reads[i]), i < 256 ? Submission::pending : Submission::busy);
  }
  faults().open_gate();
  for (std::size_t i = 0; i < 256; ++i) ASSERT_TRUE(driver.run(reads[i]));
  ASSERT_TRUE(driver.complete(reads[256]));
}

// -- cancel ---------------------------------------------------------------------------------------

TEST_P(System, a_request_that_has_not_begun_is_cancelled) {
  faults().close_gate();
  Operation read;
  set_file(read, OperationKind::read_file, handle, text);
  ASSERT_EQ(driver.start(read), Submission::pending);
  EXPECT_EQ(driver.cancel(read), CancelAnswer::requested);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(read.error_value(), ECANCELED);
  EXPECT_EQ(driver.cancel(read), CancelAnswer::too_late);
}

TEST_P(System, one_that_runs_is_not_and_its_outcome_says_so) {
  faults().never_cancel(true);
  faults().close_gate();
  Operation write;
  set_file(write, OperationKind::write_file, handle, text);
  ASSERT_EQ(driver.start(write), Submission::pending);
  EXPECT_EQ(driver.cancel(write), CancelAnswer::requested);
  EXPECT_EQ(faults().count(Call::cancel), 1U);
  faults().open_gate();
  ASSERT_TRUE(driver.run(write));
  EXPECT_FALSE(write.failed());
  EXPECT_EQ(write.bytes(), text.size());
}

TEST_P(System, one_of_several_requests_that_runs_is_the_last) {
  faults().never_cancel(true);
  faults().cut(5);
  faults().close_gate();
  Operation write;
  set_file(write, OperationKind::write_file, handle, text, 0, Operation::exactly);
  ASSERT_EQ(driver.start(write), Submission::pending);
  EXPECT_EQ(driver.cancel(write), CancelAnswer::requested);
  faults().open_gate();
  ASSERT_TRUE(driver.run(write));
  EXPECT_EQ(write.error_value(), ECANCELED);
  EXPECT_EQ(write.bytes(), 5U);
  EXPECT_EQ(faults().count(Call::write), 1U);
}

TEST_P(System, a_cancel_that_comes_before_the_submit_wins) {
  Operation read;
  set_file(read, OperationKind::read_file, handle, text);
  OperationAccess::ask_cancel(read);
  EXPECT_EQ(driver.start(read), Submission::completed);
  EXPECT_EQ(read.error_value(), ECANCELED);
  EXPECT_EQ(faults().count(Call::read), 0U);
}

// The real queue of the C library, which works on one request of a descriptor at a time.
TEST_P(System, each_of_many_that_are_cancelled_at_once_comes_out_once) {
  std::string big = pattern(100'000);
  std::deque<Operation> writes(100);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_file(writes[i], OperationKind::write_file, handle, big, i * big.size());
    ASSERT_EQ(driver.start(writes[i]), Submission::pending);
  }
  for (Operation& write : writes) driver.cancel(write);
  for (Operation& write : writes) {
    ASSERT_TRUE(driver.run(write));
    EXPECT_TRUE(write.error_value() == ECANCELED || write.bytes() == big.size());
  }
  EXPECT_EQ(driver.history().size(), writes.size());
}

}  // namespace
}  // namespace baton::test::aio
