// Files: offsets, order where it is guaranteed, and completion without blocking the leader (rules
// 3, 10; P-18).
#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "operations.hpp"
#include "support/every_call.hpp"

namespace baton::conformance {
namespace {

class File : public Operations {
 protected:
  Handle* temporary_file(int flags = O_RDWR) {
    Fd fd = temporary(flags);
    return adopt(fd, HandleKind::file);
  }
};
BATON_CONFORMANCE_SUITE(File);

TEST_P(File, offsets_reach_beyond_4_gib_and_the_end_is_0_bytes) {
  Handle* const file = temporary_file();
  constexpr std::uint64_t far = (std::uint64_t{1} << 32) + 4'097;  // sparse
  std::string& text = memory("distant");
  std::string& into = memory(32);
  Probe& write = file_writing(file, text, far, Operation::exactly);
  finish(write);
  ASSERT_FALSE(write.failed()) << write.error().message();
  Probe& read = file_reading(file, into, far - 2);
  finish(read);
  EXPECT_EQ(read.bytes(), 9U);
  EXPECT_EQ(into.substr(2, 7), "distant");
  Probe& past = file_reading(file, into, far + 7);
  finish(past);
  EXPECT_FALSE(past.failed());
  EXPECT_EQ(past.bytes(), 0U);
  Probe& exactly = file_reading(file, into, far, Operation::exactly);
  finish(exactly);
  EXPECT_EQ(exactly.error(), errc::end_of_stream);
  EXPECT_EQ(exactly.bytes(), 7U);
  Probe& low = file_reading(file, into, 4'097);
  finish(low);
  EXPECT_EQ(into.substr(0, 7), std::string(7, '\0')) << "the offset was cut to 32 bits";
  finish_close(file);
}

TEST_P(File, vectored_transfers_and_syncs) {
  Handle* const file = temporary_file();
  const std::string text = pattern(100'000);
  std::vector<ConstBuffer> out;
  for (std::size_t at = 0; at < text.size(); at += 1'000) {
    out.emplace_back(std::string_view{text}.substr(at, 1'000));
  }
  Probe& write = plain(OperationKind::write_file, file, Operation::exactly);
  write.set_buffers(ConstBuffers{out});
  write.set_offset(10);
  finish(write);
  EXPECT_EQ(write.bytes(), text.size());
  for (const std::uint16_t flags : {std::uint16_t{0}, std::uint16_t{Operation::data_only}}) {
    Probe& sync = plain(OperationKind::sync_file, file, flags);
    finish(sync);
    EXPECT_FALSE(sync.failed()) << sync.error().message();
  }
  std::string& received = memory(text.size());
  const MutableBuffer in[] = {{received.data(), 50'001}, {received.data() + 50'001, 49'999}};
  Probe& read = plain(OperationKind::read_file, file, Operation::exactly);
  read.set_buffers(MutableBuffers{in});
  read.set_offset(10);
  finish(read);
  EXPECT_TRUE(received == text);
}

TEST_P(File, many_reads_and_writes_at_once) {
  Handle* const file = temporary_file();
  constexpr std::size_t count = 64;
  constexpr std::size_t block = 3'000;
  std::vector<Probe*> probes;
  std::vector<std::string*> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(&memory(pattern(block, static_cast<unsigned>(i))));
    probes.push_back(&file_writing(file, *texts[i], i * block, Operation::exactly));
    start(*probes[i]);
  }
  const auto all_done = [&] {
    for (const Probe* probe : probes) {
      if (!probe->done()) return false;
    }
    return true;
  };
  run(all_done);
  for (std::size_t i = 0; i < count; ++i) {
    probes[i] = &file_reading(file, memory(block), i * block, Operation::exactly);
    start(*probes[i]);
  }
  run(all_done);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_FALSE(probes[i]->failed());
    EXPECT_TRUE(std::string_view(static_cast<char*>(probes[i]->buffer().data), block) == *texts[i]);
  }
  finish_close(file);
}

// The operations behind a cancelled one complete. (glibc's AIO loses them.)
TEST_P(File, a_cancel_of_the_first_leaves_those_behind_it) {
  Handle* const file = temporary_file();
  std::string& text = memory(pattern(100'000));
  constexpr int rounds = 50;
  for (int i = 0; i < rounds; ++i) {
    Probe* writes[3];
    for (std::size_t k = 0; k < std::size(writes); ++k) {
      writes[k] = &file_writing(file, text, k * text.size(), Operation::exactly);
      start(*writes[k]);
    }
    proactor().cancel(*writes[0]);
    for (Probe* write : writes) finish(*write);
    const bool cancelled = writes[0]->error() == std::errc::operation_canceled;
    EXPECT_TRUE(cancelled || !writes[0]->failed()) << writes[0]->error().message();
    EXPECT_EQ(writes[1]->bytes(), text.size());
    EXPECT_EQ(writes[2]->bytes(), text.size());
  }
  finish_close(file);
}

TEST_P(File, an_append_to_a_file_that_does_not_append_is_refused) {
  Fd fd = temporary(O_RDWR);
  ASSERT_EQ(::pwrite(fd.get(), "kept", 4, 0), 4);
  Fd reader = ::dup(fd.get());
  Handle* const file = adopt(fd, HandleKind::file);
  std::string& text = memory(std::string{"new"});
  Probe& probe = file_writing(file, text, 0, Operation::append | Operation::exactly);
  EXPECT_EQ(try_start(probe), std::errc::invalid_argument);
  char found[8] = {};
  EXPECT_EQ(::pread(reader.get(), found, sizeof(found), 0), 4);
  EXPECT_EQ(std::string_view{found}, "kept");
}

// It would be at an offset, at the position, or nowhere, as each engine has it.
TEST_P(File, a_read_flagged_as_an_append_is_refused) {
  Fd fd = temporary(O_RDWR | O_APPEND);
  Handle* const file = adopt(fd, HandleKind::file);
  std::string& into = memory(4);
  Probe& probe = plain(OperationKind::read_file, file, Operation::append);
  probe.set_buffer(MutableBuffer{into.data(), into.size()});
  EXPECT_EQ(try_start(probe), std::errc::invalid_argument);
}

TEST_P(File, appended_blocks_keep_the_order_of_their_start) {
  Fd fd = temporary(O_RDWR | O_APPEND);
  Fd reader = ::dup(fd.get());
  Handle* const file = adopt(fd, HandleKind::file);
  std::string expected;
  std::vector<Probe*> probes;
  for (int i = 0; i < 50; ++i) {
    std::string& text = memory("block " + std::to_string(i) + "\n");
    expected += text;
    probes.push_back(&file_writing(file, text, 0, Operation::append | Operation::exactly));
  }
  for (Probe* probe : probes) start(*probe);
  run([&] {
    for (const Probe* probe : probes) {
      if (!probe->done()) return false;
    }
    return true;
  });
  std::string found(expected.size() + 1, '\0');
  found.resize(static_cast<std::size_t>(::pread(reader.get(), found.data(), found.size(), 0)));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(::lseek(reader.get(), 0, SEEK_CUR), 0) << "an append leaves the position where it is";
}

TEST_P(File, errors_are_completions) {
  Fd read_only = temporary(O_RDONLY);
  Fd folder = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::string& text = memory("data");
  Probe& write = file_writing(adopt(read_only, HandleKind::file), text, 0);
  finish(write);
  EXPECT_EQ(write.error(), std::errc::bad_file_descriptor);
  EXPECT_EQ(write.bytes(), 0U);
  Probe& read = file_reading(adopt(folder, HandleKind::file), text, 0);
  finish(read);
  EXPECT_EQ(read.error(), std::errc::is_a_directory);
}

// Direct ones, too: a ring would move the first block each time.
TEST_P(File, transfers_in_a_row_go_on_where_the_last_one_ended) {
  if (GetParam().files_only) return;  // it takes no streams
  constexpr std::size_t block = 4'096;
  for (const int mode : {0, O_DIRECT}) {
    Fd fd = ::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | mode, 0600);
    if (fd.get() < 0 && mode == O_DIRECT) continue;  // not on this file system
    Fd same = ::dup(fd.get());
    const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
    Fd other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    const std::string text =
        std::string(block, 'a') + std::string(block, 'b') + std::string(block, 'c');
    ASSERT_EQ(::pwrite(other.get(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
    Handle* const file = adopt(fd, HandleKind::file);
    void* place = memory(2 * block).data();
    std::size_t room = 2 * block;
    ASSERT_NE(std::align(block, block, place, room), nullptr);
    const auto transfer = [&](OperationKind kind) -> Probe& {
      Probe& probe = plain(kind, file);
      probe.set_buffer(MutableBuffer{place, block});
      finish(probe);
      EXPECT_FALSE(probe.failed()) << probe.error().message();
      return probe;
    };
    for (const char expected : {'a', 'b', 'c'}) {
      EXPECT_EQ(transfer(OperationKind::read_stream).bytes(), block);
      EXPECT_EQ(*static_cast<const char*>(place), expected) << mode;
    }
    EXPECT_EQ(transfer(OperationKind::read_stream).bytes(), 0U);
    ASSERT_EQ(::lseek(same.get(), 0, SEEK_SET), 0);
    for (const char written : {'1', '2', '3'}) {
      std::fill_n(static_cast<char*>(place), block, written);
      EXPECT_EQ(transfer(OperationKind::write_stream).bytes(), block);
    }
    std::string found(3 * block, '\0');
    EXPECT_EQ(::pread(other.get(), found.data(), found.size(), 0),
              static_cast<ssize_t>(found.size()));
    EXPECT_EQ(found[0], '1') << mode;
    EXPECT_EQ(found[block], '2') << mode;
    EXPECT_EQ(found[2 * block], '3') << mode;
    finish_close(file);
  }
}

// Writes at the position count as well, also those that are queued.
TEST_P(File, a_sync_waits_for_the_writes_before_it) {
  if (GetParam().team()) return;  // its streams go to another processor
  Handle* const file = temporary_file();
  std::string& text = memory(pattern(3 << 20));
  std::vector<Probe*> writes;
  for (int i = 0; i < 8; ++i) start(*writes.emplace_back(&writing(file, text)));
  Probe& sync = plain(OperationKind::sync_file, file);
  bool in_order = false;
  sync.then = [&] {
    in_order =
        std::all_of(writes.begin(), writes.end(), [](Probe* write) { return write->done(); });
  };
  finish(sync);
  EXPECT_FALSE(sync.failed()) << sync.error().message();
  EXPECT_TRUE(in_order);
  for (Probe* write : writes) finish(*write);
}

// /proc/self/comm has no place to write at, and takes the text all the same.
TEST_P(File, a_file_that_takes_no_offset_is_written) {
  char before[64] = {};
  Fd fd = ::open("/proc/self/comm", O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd.get(), 0);
  const ssize_t size = ::pread(fd.get(), before, sizeof(before), 0);
  ASSERT_GT(size, 0);
  Fd same = ::dup(fd.get());
  Handle* const file = adopt(fd, HandleKind::file);
  Probe& write = file_writing(file, memory("renamed"), 0, Operation::exactly);
  finish(write);
  EXPECT_FALSE(write.failed()) << write.error().message();
  Probe& read = file_reading(file, memory(64), 0);
  finish(read);
  EXPECT_EQ(std::string_view(static_cast<char*>(read.buffer().data), read.bytes()), "renamed\n");
  ASSERT_EQ(::write(same.get(), before, static_cast<std::size_t>(size)), size);
}

// The program has closed the number, and another thread has got it for a pipe or a socket. The
// default disposition of SIGPIPE ends the process: surviving is the test.
TEST_P(File, a_number_that_names_something_else_by_now_ends_no_process) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  if (::strverscmp(kernel.release, "6.18") < 0) {
    GTEST_SKIP() << "writes without SIGPIPE are not known before Linux 6.18";
  }
  constexpr std::size_t block = 4'096;
  // A device takes writes that do not wait; most file systems refuse them.
  constexpr std::pair<const char*, int> files[] = {
      {"/tmp", O_TMPFILE}, {"/tmp", O_TMPFILE | O_DIRECT}, {"/dev/null", 0}};
  for (const auto& [path, mode] : files) {
    for (const OperationKind kind : {OperationKind::write_file, OperationKind::write_stream}) {
      for (const bool to_pipe : {true, false}) {
        Fd fd = ::open(path, O_RDWR | O_CLOEXEC | mode, 0600);
        if (fd.get() < 0 && (mode & O_DIRECT) != 0) continue;  // not on this file system
        Handle* const file = borrow(fd, HandleKind::file);
        void* place = memory(2 * block).data();
        std::size_t room = 2 * block;
        ASSERT_NE(std::align(block, block, place, room), nullptr);
        Probe& before = plain(kind, file);
        before.set_buffer(MutableBuffer{place, block});
        finish(before);
        EXPECT_FALSE(before.failed());
        int ends[2];
        ASSERT_EQ(to_pipe ? ::pipe(ends) : ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        ::close(ends[0]);
        ASSERT_EQ(::dup2(ends[1], fd.get()), fd.get());
        ::close(ends[1]);
        Probe& write = plain(kind, file);
        write.set_buffer(MutableBuffer{place, block});
        finish(write);
        EXPECT_TRUE(write.failed());
        finish_close(file);
      }
    }
  }
}

// Its server may be far away. The kind of a file is read when it is adopted.
TEST_P(File, a_start_asks_no_attributes_of_the_file_system) {
  use([](Config& config) { config.system = &test::EveryCall::system(); });
  Handle* const file = temporary_file();
  Fd other = temporary(O_RDWR);
  ASSERT_EQ(::pwrite(other.get(), "standard input", 14, 0), 14);
  Handle* const pipe = GetParam().files_only ? nullptr : adopt(other, HandleKind::pipe);
  test::EveryCall::clear();
  Probe& write = file_writing(file, memory(pattern(100)), 0);
  finish(write);
  EXPECT_EQ(write.bytes(), 100U);
  Probe& read = file_reading(file, memory(50), 20);
  finish(read);
  EXPECT_EQ(read.bytes(), 50U);
  if (pipe != nullptr) {
    Probe& input = reading(pipe, memory(14));
    finish(input);
    EXPECT_EQ(input.bytes(), 14U);
  }
  EXPECT_EQ(test::EveryCall::count_of("fstat"), 0U) << test::EveryCall::to_string();
}

}  // namespace
}  // namespace baton::conformance
