// Files: tried at once, otherwise by workers; order, sync as a barrier, cancellation, and threads
// that are created only when needed.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "baton/buffer_pool.hpp"
#include "baton/limits.hpp"
#include "core/access.hpp"
#include "driver.hpp"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace baton::test {
namespace {

constexpr std::uint64_t gibibyte = 1'073'741'824;

class Files : public EveryForm {
 protected:
  Files() { handle = driver.adopt(temporary_file(), HandleKind::file); }
  /// The content of the file, read independently.
  std::string content() const {
    std::string all(1'000'000, '\0');
    const ssize_t size = ::pread(handle->native(), all.data(), all.size(), 0);
    all.resize(static_cast<std::size_t>(size));
    return all;
  }
  Handle* handle;
};
INSTANTIATE_TEST_SUITE_P(forms, Files, testing::ValuesIn(forms()), form_name);

void set_append(Operation& operation, Handle* handle, std::string& text) {
  set_file(operation, OperationKind::write_file, handle, text, 0,
           Operation::append | Operation::exactly);
}

TEST_P(Files, beyond_four_gibibytes) {
  std::string text = pattern(5'000);
  std::string back(text.size(), '\0');
  for (const bool cold : {false, true}) {
    faults().cold(cold);
    const std::uint64_t offset = (cold ? 9 : 5) * gibibyte + 123;
    Operation write;
    Operation read;
    set_file(write, OperationKind::write_file, handle, text, offset);
    ASSERT_TRUE(driver.complete(write));
    EXPECT_EQ(*write.result(), text.size());
    set_file(read, OperationKind::read_file, handle, back, offset);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(*read.result(), text.size());
    EXPECT_EQ(back, text);
    back.assign(back.size(), '\0');
  }
}

TEST_P(Files, cached_bytes_need_no_thread) {
  ASSERT_EQ(::pwrite(handle->native(), "hello", 5, 0), 5);
  char buffer[5];
  Operation read;
  set_file(read, OperationKind::read_file, handle, buffer, 0);
  EXPECT_EQ(driver.start(read), Submission::completed);
  EXPECT_EQ(*read.result(), 5U);
  EXPECT_EQ(driver.engine().worker_threads(), 0U);
  faults().cold(true);
  set_file(read, OperationKind::read_file, handle, buffer, 0);
  EXPECT_EQ(driver.start(read), Submission::pending);
  ASSERT_TRUE(driver.run(read));
  EXPECT_EQ(*read.result(), 5U);
  EXPECT_EQ(driver.engine().worker_threads(), 1U);
  EXPECT_EQ(driver.engine().counters().worker_jobs, 1U);
}

// Direct, synchronous or long requests, whether or not the pages are in the cache.
TEST_P(Files, a_long_operation_is_for_a_worker) {
  constexpr std::size_t long_size = limits::copied_in_start_max + 1;
  std::string text(long_size + 0x1000, 'x');
  Operation operation;
  std::uint64_t jobs = 0;
  const auto is_for_a_worker = [&](OperationKind kind, Handle* of, std::size_t size) {
    // Aligned as a direct transfer requires.
    void* start = text.data();
    std::size_t room = text.size();
    ASSERT_NE(std::align(0x1000, size, start, room), nullptr);
    operation.prepare(kind, of);
    operation.set_buffer(MutableBuffer{start, size});
    EXPECT_EQ(driver.start(operation), Submission::pending);
    ASSERT_TRUE(driver.run(operation));
    EXPECT_EQ(*operation.result(), size);
    EXPECT_EQ(driver.engine().counters().worker_jobs, ++jobs);
  };
  is_for_a_worker(OperationKind::write_file, handle, long_size);
  is_for_a_worker(OperationKind::read_file, handle, long_size);
  const std::string path = "/proc/self/fd/" + std::to_string(handle->native());
  Handle* const synchronous =
      driver.adopt(::open(path.c_str(), O_RDWR | O_DSYNC | O_CLOEXEC), HandleKind::file);
  is_for_a_worker(OperationKind::write_file, synchronous, 1);
  if (const int fd = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC); fd >= 0) {
    is_for_a_worker(OperationKind::read_file, driver.adopt(fd, HandleKind::file), 0x1000);
  }
}

TEST_P(Files, a_read_is_complete_at_the_end_and_not_before) {
  ASSERT_EQ(::pwrite(handle->native(), "0123456789", 10, 0), 10);
  for (const bool cold : {false, true}) {
    faults().cold(cold);
    faults().cut(3);
    char buffer[64];
    Operation read;
    set_file(read, OperationKind::read_file, handle, buffer, 4);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(std::string_view(buffer, *read.result()), "456789");
    set_file(read, OperationKind::read_file, handle, buffer, 10);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(*read.result(), 0U);
    set_file(read, OperationKind::read_file, handle, buffer, 8, Operation::exactly);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(read.error(), errc::end_of_stream);
    EXPECT_EQ(read.bytes(), 2U);
  }
}

// A direct read that was cut short by the end of the file cannot continue there: the offset is not
// a multiple of the device's block.
TEST_P(Files, a_short_read_at_an_unaligned_end_is_the_end) {
  ASSERT_EQ(::pwrite(handle->native(), "012345", 6, 0), 6);
  for (const bool all : {false, true}) {
    faults().cold(true);
    faults().fail(Call::preadv2, EINVAL, 1, 2);
    char buffer[64];
    Operation read;
    set_file(read, OperationKind::read_file, handle, buffer, 0,
             all ? std::uint16_t{Operation::exactly} : std::uint16_t{0});
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(read.bytes(), 6U);
    EXPECT_EQ(read.error(), all ? make_error_code(errc::end_of_stream) : std::error_code{});
  }
}

// The file has grown since, so its size no longer shows that the read was at the end.
TEST_P(Files, a_short_read_at_an_unaligned_end_of_a_grown_file_is_the_end) {
  ASSERT_EQ(::pwrite(handle->native(), "0123456789", 10, 0), 10);
  faults().cold(true);
  faults().cut(6);
  faults().fail(Call::preadv2, EINVAL, 1, 2);
  char buffer[64];
  Operation read;
  set_file(read, OperationKind::read_file, handle, buffer, 0, Operation::exactly);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(read.bytes(), 6U);
  EXPECT_EQ(read.error(), errc::end_of_stream);
}

TEST_P(Files, short_transfers_are_continued_where_they_ended) {
  std::string text = pattern(2'000);
  std::string back(text.size(), '\0');
  for (const bool cold : {false, true}) {
    faults().cut(7);
    faults().cold(cold);
    Operation write;
    Operation read;
    set_file(write, OperationKind::write_file, handle, text, 0, Operation::exactly);
    ASSERT_TRUE(driver.complete(write));
    EXPECT_EQ(*write.result(), text.size());
    const MutableBuffer parts[] = {{back.data(), 100}, {back.data() + 100, back.size() - 100}};
    read.prepare(OperationKind::read_file, handle);
    read.set_buffers(MutableBuffers{parts});
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(back, text);
    back.assign(back.size(), '\0');
  }
}

TEST_P(Files, a_file_system_without_nowait_is_asked_once) {
  faults().refuse_flags(RWF_NOWAIT);
  std::string text = "hello";
  Operation write;
  for (int i = 0; i < 3; ++i) {
    set_file(write, OperationKind::write_file, handle, text, 0);
    ASSERT_TRUE(driver.complete(write));
    EXPECT_EQ(*write.result(), 5U);
  }
  EXPECT_EQ(faults().count(Call::pwritev2), 4U);
}

TEST_P(Files, a_filter_that_refuses_the_flag_is_worked_around) {
  std::string text = "hello";
  std::string back(text.size(), '\0');
  Operation write;
  faults().fail(Call::pwritev2, EPERM);
  set_file(write, OperationKind::write_file, handle, text, 0);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), 5U);
  Operation read;
  faults().fail(Call::preadv2, EPERM);
  set_file(read, OperationKind::read_file, handle, back, 0);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(*read.result(), 5U);
  EXPECT_EQ(back, text);
}

TEST_P(Files, errors_are_completions) {
  char buffer[8];
  Operation read;
  for (const std::uint64_t offset : {std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    set_file(read, OperationKind::read_file, handle, buffer, offset);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(read.error(), std::errc::invalid_argument) << offset;
  }
  Operation write;
  set_file(write, OperationKind::write_file, handle, buffer, 0);
  faults().cold(true);
  faults().fail(Call::pwritev2, EIO, 1, 1);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(write.error(), std::errc::io_error);
  Operation sync;
  sync.prepare(OperationKind::sync_file, handle);
  faults().fail(Call::fsync, EIO, 1);
  ASSERT_TRUE(driver.complete(sync));
  EXPECT_EQ(sync.error(), std::errc::io_error);
  EXPECT_EQ(faults().count(Call::fsync), 1U) << "never repeated";
  sync.prepare(OperationKind::sync_file, handle, Operation::data_only);
  ASSERT_TRUE(driver.complete(sync));
  EXPECT_FALSE(sync.failed());
  EXPECT_EQ(faults().count(Call::fsync), 1U) << "by fdatasync";
  sync.prepare(OperationKind::sync_file, handle);
  faults().fail(Call::fsync, EINTR, 2);
  ASSERT_TRUE(driver.complete(sync));
  EXPECT_FALSE(sync.failed());
  EXPECT_EQ(faults().count(Call::fsync), 4U) << "after a signal, until it is done";
}

TEST_P(Files, a_full_disk_after_a_part_is_a_short_write) {
  std::string text = "0123456789";
  for (const bool all : {false, true}) {
    faults().cut(4);
    faults().cold(true);
    faults().fail(Call::pwritev2, ENOSPC, 1, 3);
    Operation write;
    set_file(write, OperationKind::write_file, handle, text, 0,
             all ? std::uint16_t{Operation::exactly} : std::uint16_t{0});
    ASSERT_TRUE(driver.complete(write));
    EXPECT_EQ(write.bytes(), 8U);
    EXPECT_EQ(write.error_value(), all ? ENOSPC : 0);
  }
}

TEST_P(Files, appends_are_written_in_order) {
  Handle* const log = driver.adopt(temporary_file(O_APPEND), HandleKind::file);
  faults().cold(true);
  faults().cut(3);
  std::vector<std::string> texts;
  std::vector<Operation> writes(40);
  std::string expected;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    expected += texts.emplace_back("line " + std::to_string(i) + "\n");
  }
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_append(writes[i], log, texts[i]);
    driver.start(writes[i]);
  }
  ASSERT_TRUE(driver.run(writes.back()));
  for (std::size_t i = 0; i < writes.size(); ++i) EXPECT_EQ(driver.history()[i], &writes[i]);
  handle = log;
  EXPECT_EQ(content(), expected);
}

TEST_P(Files, a_file_in_place_of_a_stream) {
  const int fd = temporary_file();
  ASSERT_EQ(::write(fd, "0123456789", 10), 10);
  ASSERT_EQ(::lseek(fd, 0, SEEK_SET), 0);
  Handle* const stream = driver.borrow(fd, HandleKind::pipe);
  char buffer[6];
  Operation read;
  for (const std::string_view expected : {"012345", "6789", ""}) {
    set_read(read, stream, buffer);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(std::string_view(buffer, *read.result()), expected);
  }
  Operation ready;
  ready.prepare(OperationKind::wait_ready, stream, Operation::readable);
  EXPECT_EQ(driver.start(ready), Submission::completed);
  driver.release(stream);
  ::close(fd);
}

TEST_P(Files, a_device_without_readiness) {
  const int fd = ::open("/dev/zero", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  Handle* const device = driver.adopt(fd, HandleKind::pipe);
  char buffer[6] = {1, 2, 3, 4, 5, 6};
  Operation read;
  Operation write;
  Operation ready;
  set_read(read, device, buffer);
  ASSERT_TRUE(driver.complete(read));
  EXPECT_EQ(*read.result(), 6U);
  EXPECT_EQ(buffer[5], 0);
  ready.prepare(OperationKind::wait_ready, device, Operation::readable);
  ASSERT_TRUE(driver.complete(ready));
  EXPECT_FALSE(ready.failed());
  set_write(write, device, std::string_view{"x"});
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), 1U);
}

TEST_P(Files, operations_that_no_file_has) {
  char buffer[4];
  Operation operation;
  operation.prepare(OperationKind::accept, handle);
  ASSERT_TRUE(driver.complete(operation));
  EXPECT_EQ(operation.error(), std::errc::not_a_socket);
  const Pair pair = stream_pair();
  Handle* const socket = driver.adopt(pair.ours, HandleKind::stream_socket);
  set_file(operation, OperationKind::read_file, socket, buffer, 0);
  ASSERT_TRUE(driver.complete(operation));
  EXPECT_EQ(operation.error(), std::errc::invalid_seek);
  ::close(pair.peer);
}

TEST_P(Files, reads_into_pooled_blocks) {
  ASSERT_EQ(::pwrite(handle->native(), "hello", 5, 0), 5);
  BufferPool pool{64, 1};
  for (const bool cold : {false, true}) {
    faults().cold(cold);
    Operation read;
    read.prepare(OperationKind::read_file, handle);
    read.set_pool(&pool);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(*read.result(), 5U);
    EXPECT_EQ(pool.available(), 0U);
    pool.give(read.buffer().data);
    read.prepare(OperationKind::read_file, handle);
    read.set_pool(&pool);
    read.set_offset(100);
    ASSERT_TRUE(driver.complete(read));
    EXPECT_EQ(*read.result(), 0U);
    EXPECT_EQ(pool.available(), 1U);
  }
}

// -- workers held at a gate -----------------------------------------------------------------------

class Held : public testing::Test {
 protected:
  Held() {
    faults().clear();
    faults().cold(true);
    handle = driver.adopt(temporary_file(), HandleKind::file);
  }
  Driver driver{Form{.workers = 2}};
  Handle* handle;
  std::string text = "0123456789";
};

TEST_F(Held, sync_waits_for_earlier_writes_and_later_ones_do_not_wait_for_it) {
  faults().close_gate();
  std::array<Operation, 2> early;
  Operation sync;
  Operation late;
  for (std::size_t i = 0; i < early.size(); ++i) {
    set_file(early[i], OperationKind::write_file, handle, text, i * 10);
    driver.start(early[i]);
  }
  sync.prepare(OperationKind::sync_file, handle);
  driver.start(sync);
  set_file(late, OperationKind::write_file, handle, text, 100);
  driver.start(late);
  faults().until_at_gate(2);
  faults().open_gate(1);
  driver.wait_once();
  EXPECT_EQ(faults().count(Call::fsync), 0U);
  faults().open_gate(1);
  while (!driver.is_done(early[0]) || !driver.is_done(early[1])) driver.wait_once();
  faults().until_at_gate(2);  // the sync and the late write, side by side
  EXPECT_EQ(faults().count(Call::fsync), 1U);
  EXPECT_FALSE(driver.is_done(sync));
  faults().open_gate();
  ASSERT_TRUE(driver.run(sync));
  ASSERT_TRUE(driver.run(late));
}

TEST_F(Held, cancel_of_a_queued_and_of_a_running_request) {
  faults().close_gate();
  std::array<Operation, 4> writes;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_file(writes[i], OperationKind::write_file, handle, text, i * 10);
    EXPECT_EQ(driver.start(writes[i]), Submission::pending);
  }
  faults().until_at_gate(2);
  EXPECT_EQ(driver.engine().worker_threads(), 2U);
  EXPECT_EQ(driver.cancel(writes[3]), CancelAnswer::completed);
  EXPECT_EQ(writes[3].error(), std::errc::operation_canceled);
  EXPECT_EQ(writes[3].bytes(), 0U);
  EXPECT_EQ(driver.cancel(writes[0]), CancelAnswer::requested);
  faults().open_gate();
  ASSERT_TRUE(driver.run(writes[0]));
  EXPECT_EQ(*writes[0].result(), text.size()) << "it was too far";
  ASSERT_TRUE(driver.run(writes[1]));
  ASSERT_TRUE(driver.run(writes[2]));
  EXPECT_EQ(driver.cancel(writes[0]), CancelAnswer::too_late);
}

TEST_F(Held, a_running_operation_stops_between_two_calls) {
  faults().close_gate();
  faults().cut(4);
  Operation write;
  set_file(write, OperationKind::write_file, handle, text, 0, Operation::exactly);
  driver.start(write);
  faults().until_at_gate(1);
  OperationAccess::ask_cancel(write);
  EXPECT_EQ(driver.cancel(write), CancelAnswer::requested);
  faults().open_gate();
  ASSERT_TRUE(driver.run(write));
  EXPECT_EQ(write.error(), std::errc::operation_canceled);
  EXPECT_EQ(write.bytes(), 4U) << "what was moved is told";
}

TEST_F(Held, cancel_in_a_row_of_appends_lets_the_others_go) {
  Handle* const log = driver.adopt(temporary_file(O_APPEND), HandleKind::file);
  faults().close_gate();
  std::array<std::string, 3> texts{"one", "two", "three"};
  std::array<Operation, 3> writes;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    set_append(writes[i], log, texts[i]);
    driver.start(writes[i]);
  }
  Operation sync;
  sync.prepare(OperationKind::sync_file, log);
  driver.start(sync);
  faults().until_at_gate(1);
  EXPECT_EQ(driver.cancel(writes[1]), CancelAnswer::completed);
  EXPECT_EQ(driver.cancel(sync), CancelAnswer::completed);
  faults().open_gate();
  ASSERT_TRUE(driver.run(writes[2]));
  char buffer[16];
  EXPECT_EQ(::pread(log->native(), buffer, sizeof(buffer), 0), 8);
  EXPECT_EQ(std::string_view(buffer, 8), "onethree");
}

TEST_F(Held, busy_workers_do_not_keep_sockets_waiting) {
  faults().close_gate();
  std::array<Operation, 3> writes;
  for (Operation& write : writes) {
    set_file(write, OperationKind::write_file, handle, text, 0);
    driver.start(write);
  }
  const Pair pair = stream_pair();
  Handle* const socket = driver.adopt(pair.ours, HandleKind::stream_socket);
  char buffer[4];
  Operation read;
  set_read(read, socket, buffer);
  driver.start(read);
  EXPECT_EQ(::write(pair.peer, "x", 1), 1);
  ASSERT_TRUE(driver.run(read));
  faults().open_gate();
  for (Operation& write : writes) ASSERT_TRUE(driver.run(write));
  ::close(pair.peer);
}

TEST_F(Held, without_a_thread_the_operation_fails_and_the_next_may_succeed) {
  faults().fail(Call::thread_start, EAGAIN, 1);
  Operation write;
  set_file(write, OperationKind::write_file, handle, text, 0);
  EXPECT_EQ(driver.start(write), Submission::completed);
  EXPECT_EQ(write.error(), std::errc::not_enough_memory);
  ASSERT_TRUE(driver.complete(write));
  EXPECT_EQ(*write.result(), text.size());
  // With one worker there, a second that cannot be started is no error.
  faults().fail(Call::thread_start, EAGAIN, 1);
  faults().close_gate();
  Operation other;
  driver.start(write);
  set_file(other, OperationKind::write_file, handle, text, 0);
  EXPECT_EQ(driver.start(other), Submission::pending);
  faults().open_gate();
  ASSERT_TRUE(driver.run(write));
  ASSERT_TRUE(driver.run(other));
}

TEST_F(Held, close_in_the_background) {
  const int fd = temporary_file();
  HandleTable others{16, fault_system()};
  Handle* const own = others.allocate(fd, HandleKind::file, Ownership::owned, true, 0);
  ASSERT_TRUE(own->close_may_block());
  Operation close;
  close.prepare(OperationKind::close, own);
  EXPECT_EQ(driver.start(close), Submission::pending);
  ASSERT_TRUE(driver.run(close));
  EXPECT_FALSE(close.failed());
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);

  const Pair pair = stream_pair();
  Handle* const socket =
      others.allocate(pair.ours, HandleKind::stream_socket, Ownership::owned, true, 0);
  close.prepare(OperationKind::close, socket);
  EXPECT_EQ(driver.start(close), Submission::completed);
  EXPECT_EQ(::fcntl(pair.ours, F_GETFD), -1);
  ::close(pair.peer);
}

}  // namespace
}  // namespace baton::test
