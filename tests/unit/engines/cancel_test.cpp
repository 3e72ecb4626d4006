// Cancel in every state, borrowed descriptors, and closed handles.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "core/access.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

using Cancels = EveryForm;
INSTANTIATE_TEST_SUITE_P(forms, Cancels, testing::ValuesIn(forms()), form_name);

TEST_P(Cancels, before_submit_is_seen_by_submit) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  char buffer[4];
  Operation read;
  set_read(read, handle, buffer);
  OperationAccess::ask_cancel(read);
  EXPECT_EQ(driver.engine().cancel(read), CancelAnswer::too_late) << "it is not here yet";
  EXPECT_EQ(driver.start(read), Submission::completed);
  EXPECT_EQ(read.error(), std::errc::operation_canceled);

  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  faults().cold(true);
  Operation write;
  set_file(write, OperationKind::write_file, file, buffer, 0);
  OperationAccess::ask_cancel(write);
  EXPECT_EQ(driver.start(write), Submission::completed);
  EXPECT_EQ(write.error(), std::errc::operation_canceled);
  ::close(pair.peer);
}

// Another thread cancels between the account of the start and its submit.
TEST(CancelOfAKnownHandle, before_submit_is_seen_by_submit) {
  faults().clear();
  Driver driver;
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  char byte = 0;
  Operation read;
  set_read(read, handle, MutableBuffer{&byte, 1});
  EXPECT_EQ(driver.start(read), Submission::pending);
  ASSERT_EQ(::write(pair.peer, "x", 1), 1);
  ASSERT_TRUE(driver.run(read));  // from now on it is watched
  set_read(read, handle, MutableBuffer{&byte, 1});
  OperationAccess::ask_cancel(read);
  void* const record = driver.engine().handle_record(*handle);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(driver.engine().submit(read, record), Submission::completed);
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  ::close(pair.peer);
}

TEST_P(Cancels, the_first_the_middle_and_the_last) {
  for (std::size_t victim = 0; victim < 3; ++victim) {
    const Pair pair = stream_pair();
    Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
    std::array<char, 3> bytes{};
    std::array<Operation, 3> reads;
    for (std::size_t i = 0; i < 3; ++i) {
      set_read(reads[i], handle, MutableBuffer{&bytes[i], 1});
      driver.start(reads[i]);
    }
    EXPECT_EQ(driver.cancel(reads[victim]), CancelAnswer::completed);
    EXPECT_EQ(reads[victim].error(), std::errc::operation_canceled);
    EXPECT_EQ(driver.cancel(reads[victim]), CancelAnswer::too_late);
    EXPECT_EQ(::write(pair.peer, "ab", 2), 2);
    std::string got;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == victim) continue;
      ASSERT_TRUE(driver.run(reads[i]));
      got += bytes[i];
    }
    EXPECT_EQ(got, "ab") << "nothing is lost";
    ::close(pair.peer);
  }
}

TEST_P(Cancels, tells_what_was_moved) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  char buffer[8];
  Operation read;
  set_read(read, handle, buffer, Operation::exactly);
  driver.start(read);
  EXPECT_EQ(::write(pair.peer, "abc", 3), 3);
  driver.wait_once();
  EXPECT_EQ(driver.cancel(read), CancelAnswer::completed);
  EXPECT_EQ(read.bytes(), 3U);

  Operation write;
  const std::size_t full = fill(pair.ours);
  std::string more(full, 'x');
  set_write(write, handle, std::string_view{more}, Operation::exactly);
  EXPECT_EQ(driver.start(write), Submission::pending);
  const std::size_t taken = read_all(pair.peer).size();
  driver.wait_once();
  if (!driver.is_done(write)) {
    EXPECT_EQ(driver.cancel(write), CancelAnswer::completed);
  }
  EXPECT_EQ(read_all(pair.peer).size() + taken, full + write.bytes());
  ::close(pair.peer);
}

TEST_P(Cancels, a_cancel_after_the_completion_is_too_late) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  Operation write;
  set_write(write, handle, std::string_view{"x"});
  EXPECT_EQ(driver.start(write), Submission::completed);
  EXPECT_EQ(driver.cancel(write), CancelAnswer::too_late);
  char buffer[4];
  Operation read;
  set_read(read, handle, buffer);
  driver.start(read);
  EXPECT_EQ(::write(pair.peer, "x", 1), 1);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(driver.cancel(read), CancelAnswer::too_late);
  EXPECT_EQ(*read.result(), 1U);
  ::close(pair.peer);
}

TEST_P(Cancels, an_operation_is_used_again_at_once) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  char buffer[4];
  Operation read;
  for (int i = 0; i < 100; ++i) {
    set_read(read, handle, buffer);
    driver.start(read);
    if (i % 2 == 0) {
      EXPECT_EQ(driver.cancel(read), CancelAnswer::completed);
    } else {
      EXPECT_EQ(::write(pair.peer, "x", 1), 1);
      ASSERT_TRUE(driver.run(read));
    }
  }
  ::close(pair.peer);
}

TEST_P(Cancels, waits_for_both_directions) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
  fill(pair.ours);
  Operation both;
  both.prepare(OperationKind::wait_ready, handle, Operation::readable | Operation::writable);
  EXPECT_EQ(driver.start(both), Submission::pending);
  EXPECT_EQ(driver.cancel(both), CancelAnswer::completed);
  read_all(pair.peer);
  driver.expect_nothing();
  driver.expect_nothing();
  ::close(pair.peer);
}

// -- borrowed descriptors, and numbers that come again --------------------------------------------

TEST_P(Cancels, a_borrowed_descriptor_may_be_closed_between_operations) {
  for (int i = 0; i < 3; ++i) {
    const Pair pair = stream_pair();
    Handle* const handle = driver.borrow(pair.ours, HandleKind::stream_socket);
    char buffer[4];
    Operation read;
    set_read(read, handle, buffer);
    driver.start(read);
    EXPECT_EQ(::write(pair.peer, "x", 1), 1);
    ASSERT_TRUE(driver.run(read));
    set_read(read, handle, buffer);
    driver.start(read);
    EXPECT_EQ(driver.cancel(read), CancelAnswer::completed);
    // Closed by its owner while the handle lives on; a hang-up reported now would be a spin.
    ::close(pair.peer);
    ::close(pair.ours);
    driver.expect_nothing();
    driver.release(handle);
  }
}

TEST_P(Cancels, a_number_that_comes_again_is_another_descriptor) {
  for (int i = 0; i < 10; ++i) {
    const Pair pair = stream_pair();
    Handle* const handle = driver.adopt(pair.ours, HandleKind::stream_socket);
    char buffer[4];
    Operation read;
    set_read(read, handle, buffer);
    driver.start(read);
    driver.expect_nothing();
    EXPECT_EQ(driver.cancel(read), CancelAnswer::completed);
    EXPECT_EQ(::write(pair.peer, "old", 3), 3);
    driver.release(handle);
    const Pair next = stream_pair();
    Handle* const successor = driver.adopt(next.ours, HandleKind::stream_socket);
    set_read(read, successor, buffer);
    driver.start(read);
    driver.expect_nothing();
    EXPECT_EQ(::write(next.peer, "new", 3), 3);
    ASSERT_TRUE(driver.run(read));
    EXPECT_EQ(std::string_view(buffer, 3), "new");
    driver.release(successor);
    ::close(pair.peer);
    ::close(next.peer);
  }
}

}  // namespace
}  // namespace baton::test
