// Order for one handle and direction, partial transfers, merged writes, the barrier of a sync.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <random>

#include "../../support/counting_system.hpp"
#include "driver.hpp"
#include "faults.hpp"

namespace baton::test {
namespace {

class Order : public testing::TestWithParam<Form> {
 protected:
  Driver driver{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Forms, Order, testing::Values(Form::any, Form::pinned), form_name);

void shrink(int fd) {
  const int size = 4096;
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

TEST_P(Order, reads_are_filled_in_start_order) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  std::deque<Operation> reads(20);
  std::array<std::array<char, 4>, 20> buffers{};
  for (std::size_t i = 0; i < reads.size(); ++i) {
    set_read(reads[i], handle, buffers[i], Operation::exactly);
    driver.start(reads[i]);
  }
  driver.expect_quiet();
  const std::string text = pattern(80);
  for (std::size_t at = 0; at < text.size(); at += 5) {
    write_all(pair.right, std::string_view{text}.substr(at, 5));
    driver.wait_once(Deadline::after(std::chrono::milliseconds{50}));
  }
  ASSERT_TRUE(driver.run_until(reads.back()));
  ASSERT_EQ(driver.history().size(), reads.size());
  for (std::size_t i = 0; i < reads.size(); ++i) {
    EXPECT_EQ(driver.history()[i], &reads[i]);
    EXPECT_EQ(std::string_view(buffers[i].data(), 4), std::string_view{text}.substr(4 * i, 4));
  }
  ::close(pair.right);
}

// Queued writes are merged; each completes in its turn with its own bytes.
TEST_P(Order, many_writes_arrive_as_one_stream) {
  const Pair pair = stream_pair();
  shrink(pair.left);
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  std::mt19937 random{7};
  std::deque<std::string> texts;
  std::deque<Operation> writes(300);
  std::deque<std::array<ConstBuffer, 3>> lists;
  std::string sent;
  for (Operation& write : writes) {
    texts.push_back(pattern(random() % 3000, static_cast<unsigned>(random())));
    const std::string_view text = texts.back();
    if (random() % 4 == 0) {
      const std::size_t cut = text.size() / 3;
      lists.push_back({text.substr(0, cut), text.substr(cut, cut), text.substr(2 * cut)});
      write.prepare(OperationKind::write_stream, handle, Operation::exactly);
      write.set_buffers(ConstBuffers{lists.back()});
    } else {
      set_write(write, handle, text, Operation::exactly);
    }
    sent += text;
    driver.start(write);
  }
  std::string received;
  for (int i = 0; i < 100'000 && !driver.is_done(writes.back()); ++i) {
    received += read_all(pair.right);
    driver.wait_once(Deadline::after(std::chrono::milliseconds{1}));
  }
  received += read_all(pair.right);
  EXPECT_TRUE(received == sent);
  ASSERT_EQ(driver.history().size(), writes.size());
  for (std::size_t i = 0; i < writes.size(); ++i) {
    EXPECT_EQ(driver.history()[i], &writes[i]);
    EXPECT_EQ(*writes[i].result(), texts[i].size());
  }
  ::close(pair.right);
}

// Plain writes may be short, but never out of order.
TEST_P(Order, short_writes_report_the_moved_bytes) {
  const Pair pair = stream_pair();
  shrink(pair.left);
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  const std::string text = pattern(100'000);
  std::deque<Operation> writes(5);
  for (Operation& write : writes) {
    set_write(write, handle, text);
    driver.start(write);
  }
  std::string received;
  for (int i = 0; i < 100'000 && !driver.is_done(writes.back()); ++i) {
    received += read_all(pair.right);
    driver.wait_once(Deadline::after(std::chrono::milliseconds{1}));
  }
  received += read_all(pair.right);
  std::string expected;
  for (const Operation& write : writes) {
    EXPECT_GT(write.bytes(), 0U);
    expected += text.substr(0, write.bytes());
  }
  EXPECT_TRUE(received == expected);
  ::close(pair.right);
}

TEST_P(Order, merged_writes_and_an_error) {
  const Pair pair = stream_pair();
  shrink(pair.left);
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  const std::string text = pattern(20'000);
  std::deque<Operation> writes(6);
  for (Operation& write : writes) {
    set_write(write, handle, text, Operation::exactly);
    driver.start(write);
  }
  driver.expect_quiet();
  ::close(pair.right);
  ASSERT_TRUE(driver.run_until(writes.back()));
  ASSERT_EQ(driver.history().size(), writes.size());
  for (const Operation& write : writes) {
    EXPECT_TRUE(write.error() == std::errc::broken_pipe ||
                write.error() == std::errc::connection_reset)
        << write.error().message();
  }
}

// The rest waits until the descriptor is writable again, and is not tried all the time.
TEST_P(Order, merged_writes_that_find_no_room_wait_for_it) {
  Driver own{test::Setup{.form = GetParam(), .system = &faulty_system()}};
  faults().hasty_sends = 100'000;
  const Pair pair = stream_pair();
  shrink(pair.left);
  Handle* const handle = own.adopt(pair.left, HandleKind::stream_socket);
  const std::string text = pattern(20'000);
  std::deque<Operation> writes(6);
  for (Operation& write : writes) {
    set_write(write, handle, text, Operation::exactly);
    own.start(write);
  }
  std::string received;
  while (received.size() < writes.size() * text.size()) {
    const Sleepless sleepless;
    while (sleepless.sleeps() == 0) own.wait_once();
    received += read_all(pair.right);
  }
  ASSERT_TRUE(own.run_until(writes.back()));
  EXPECT_GT(faults().hasty_sends, 0U);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    EXPECT_EQ(received.substr(i * text.size(), text.size()), text);
  }
  ::close(pair.right);
}

TEST_P(Order, full_duplex_on_one_handle) {
  const Pair pair = tcp_pair();
  Handle* const left = driver.adopt(pair.left, HandleKind::stream_socket);
  Handle* const right = driver.adopt(pair.right, HandleKind::stream_socket);
  const std::string there = pattern(3'000'000, 1), back = pattern(3'000'000, 2);
  std::string got_there(there.size(), '\0'), got_back(back.size(), '\0');
  Operation write_left, write_right, read_left, read_right;
  set_write(write_left, left, there, Operation::exactly);
  set_write(write_right, right, back, Operation::exactly);
  set_read(read_left, left, got_back, Operation::exactly);
  set_read(read_right, right, got_there, Operation::exactly);
  Operation* const all[] = {&write_left, &write_right, &read_left, &read_right};
  for (Operation* operation : all) driver.start(*operation);
  ASSERT_TRUE(driver.run_until(all));
  EXPECT_TRUE(got_there == there);
  EXPECT_TRUE(got_back == back);
}

TEST_P(Order, long_lists_in_pieces) {
  const Pair pair = stream_pair();
  Handle* const left = driver.adopt(pair.left, HandleKind::stream_socket);
  Handle* const right = driver.adopt(pair.right, HandleKind::stream_socket);
  const std::string text = pattern(1'000 * 777);
  std::string received(text.size(), '\0');
  std::vector<ConstBuffer> out;
  std::vector<MutableBuffer> in;
  for (std::size_t i = 0; i < 1'000; ++i) {
    out.emplace_back(text.data() + i * 777, 777);
    in.emplace_back(received.data() + i * 777, 777);
  }
  Operation write, read;
  write.prepare(OperationKind::write_stream, left, Operation::exactly);
  write.set_buffers(ConstBuffers{out});
  read.prepare(OperationKind::read_stream, right, Operation::exactly);
  read.set_buffers(MutableBuffers{in});
  driver.start(write);
  driver.start(read);
  Operation* const both[] = {&read, &write};
  ASSERT_TRUE(driver.run_until(both));
  EXPECT_TRUE(received == text);
}

TEST_P(Order, appends_keep_their_order) {
  const int fd = temporary_file(O_APPEND);
  Handle* const file = driver.adopt(fd, HandleKind::file);
  std::deque<std::string> texts;
  std::deque<Operation> writes(50);
  std::string expected;
  for (Operation& write : writes) {
    texts.push_back(pattern(100 + texts.size() * 13, static_cast<unsigned>(texts.size())));
    write.prepare(OperationKind::write_file, file, Operation::append | Operation::exactly);
    write.set_buffer(ConstBuffer{std::string_view{texts.back()}});
    expected += texts.back();
    driver.start(write);
  }
  Operation sync;
  sync.prepare(OperationKind::sync_file, file);
  driver.start(sync);
  ASSERT_TRUE(driver.run_until(sync));
  ASSERT_EQ(driver.history().size(), writes.size() + 1) << "the sync came last";
  ::lseek(fd, 0, SEEK_SET);
  EXPECT_TRUE(read_all(fd) == expected);
}

// A sync does not overtake the writes before it, and does not wait for those after it. The fsync is
// held back until then, whatever the kernel does first: seen by the order of completion.
TEST_P(Order, sync_waits_for_earlier_writes) {
  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  const std::string text = pattern(400'000);
  std::deque<Operation> writes(12);
  std::deque<Operation> syncs(3);
  const auto start_writes = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      writes[i].prepare(OperationKind::write_file, file, Operation::exactly);
      writes[i].set_buffer(ConstBuffer{std::string_view{text}});
      writes[i].set_offset(i * text.size());
      driver.submit(writes[i]);
    }
  };
  const auto start_sync = [&](std::size_t i) {
    syncs[i].prepare(OperationKind::sync_file, file);
    driver.submit(syncs[i]);
  };
  start_writes(0, 4);
  start_sync(0);
  start_writes(4, 8);
  start_sync(1);
  start_sync(2);
  EXPECT_EQ(driver.cancel(syncs[1]), CancelAnswer::completed) << "held back, not in the kernel";
  EXPECT_EQ(syncs[1].error(), std::errc::operation_canceled);
  start_writes(8, 12);
  driver.engine().flush();
  for (Operation& write : writes) ASSERT_TRUE(driver.run_until(write));
  ASSERT_TRUE(driver.run_until(syncs[0]));
  ASSERT_TRUE(driver.run_until(syncs[2]));
  const auto position = [&](const Operation& operation) {
    return std::find(driver.history().begin(), driver.history().end(), &operation);
  };
  for (std::size_t i = 0; i < 4; ++i) EXPECT_LT(position(writes[i]), position(syncs[0]));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_LT(position(writes[i]), position(syncs[2]));
}

// The first write is long and the second is not, so that the later one ends first.
TEST_P(Order, a_write_between_two_syncs_counts_for_the_second) {
  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  const std::string text = pattern(32 << 20);
  std::deque<Operation> writes(2);
  std::deque<Operation> syncs(2);
  for (std::size_t i = 0; i < 2; ++i) {
    writes[i].prepare(OperationKind::write_file, file, Operation::exactly);
    writes[i].set_buffer(ConstBuffer{std::string_view{text}.substr(0, i == 0 ? text.size() : 1)});
    writes[i].set_offset(i * text.size());
    driver.submit(writes[i]);
    syncs[i].prepare(OperationKind::sync_file, file);
    driver.submit(syncs[i]);
  }
  driver.engine().flush();
  for (Operation& sync : syncs) ASSERT_TRUE(driver.run_until(sync));
  const auto position = [&](const Operation& operation) {
    return std::find(driver.history().begin(), driver.history().end(), &operation);
  };
  for (std::size_t i = 0; i < 2; ++i) EXPECT_LT(position(writes[i]), position(syncs[i]));
}

}  // namespace
}  // namespace baton::test
