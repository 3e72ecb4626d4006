// Full or broken disks (fault matrix: ENOSPC, EIO, short reads, failing fsync).
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "machine.hpp"

namespace baton::machine {
namespace {

using namespace std::chrono_literals;
using conformance::Fd;
using conformance::pattern;
using conformance::Probe;

class Files : public Machine {
 protected:
  /// One round trip over a socket: a broken disk does not affect other operations.
  void expect_sockets_work() {
    conformance::Pair pair = conformance::unix_pair();
    Probe& read = reading(adopt(pair.ours), memory(4));
    start(read);
    conformance::send_all(pair.peer.get(), "data");
    finish(read);
    EXPECT_EQ(read.bytes(), 4U);
  }
};
BATON_CONFORMANCE_SUITE(Files);

TEST_P(Files, a_full_file_system_is_an_error_and_recovers) {
  const std::string path = folder();
  mount_small(path, 256 << 10);
  const std::string filler = path + "/filler";
  {
    const Fd blocks = ::open(filler.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::posix_fallocate(blocks.get(), 0, 128 << 10), 0);
  }
  Fd fd = ::open((path + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd.get(), 0);
  Handle* const file = adopt(fd, HandleKind::file);
  std::string& text = memory(pattern(1 << 20));
  Probe& whole = file_writing(file, text, 0, Operation::exactly);
  finish(whole);
  EXPECT_EQ(whole.error(), std::errc::no_space_on_device);
  EXPECT_GT(whole.bytes(), 0U);
  EXPECT_LT(whole.bytes(), text.size());
  Probe& more = file_writing(file, text, 512 << 10);
  finish(more);
  EXPECT_EQ(more.error(), std::errc::no_space_on_device);
  EXPECT_EQ(more.bytes(), 0U);
  expect_sockets_work();
  // The written bytes are there, and with room the rest is written.
  std::string& back = memory(whole.bytes());
  Probe& read = file_reading(file, back, 0, Operation::exactly);
  finish(read);
  EXPECT_TRUE(back == text.substr(0, back.size()));
  ::unlink(filler.c_str());
  std::string& rest = memory(pattern(4'096));
  Probe& later = file_writing(file, rest, whole.bytes(), Operation::exactly);
  finish(later);
  EXPECT_FALSE(later.failed()) << later.error().message();
  finish_close(file);
}

#ifdef BATON_FAULTY_FILES
/// The file system of faulty_files.cpp for as long as it lives.
class FaultyFiles : public Files {
 protected:
  void SetUp() override {
    Files::SetUp();
    if (IsSkipped()) return;
    if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse";
    mount_ = folder();
    // It goes to the background when it is mounted.
    ASSERT_EQ(shell(std::string{BATON_FAULTY_FILES} + " " + mount_), 0);
    file = opened("data");
  }
  Handle* opened(const std::string& name) {
    Fd fd = ::open((mount_ + "/" + name).c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_GE(fd.get(), 0);
    return adopt(fd, HandleKind::file);
  }
  void TearDown() override {
    Files::TearDown();
    if (!mount_.empty()) {
      EXPECT_EQ(::umount2(mount_.c_str(), MNT_DETACH), 0);
    }
  }
  Handle* file = nullptr;

 private:
  std::string mount_;
};
BATON_CONFORMANCE_SUITE(FaultyFiles);

TEST_P(FaultyFiles, short_reads_are_continued) {
  std::string& text = memory(pattern(100'000));
  Probe& write = file_writing(file, text, 300 << 10, Operation::exactly);
  finish(write);
  ASSERT_FALSE(write.failed()) << write.error().message();
  for (const std::uint16_t flags : {std::uint16_t{0}, std::uint16_t{Operation::exactly}}) {
    std::string& back = memory(text.size());
    Probe& read = file_reading(file, back, 300 << 10, flags);
    finish(read);
    EXPECT_FALSE(read.failed()) << read.error().message();
    EXPECT_EQ(read.bytes() == text.size(), back == text) << read.bytes();
    if (flags != 0) {
      EXPECT_EQ(read.bytes(), text.size());
    }
  }
}

TEST_P(FaultyFiles, unreadable_blocks_are_an_error_behind_what_was_read) {
  std::string& into = memory(8'192);
  Probe& read = file_reading(file, into, 600 << 10);
  finish(read);
  EXPECT_EQ(read.error(), std::errc::io_error);
  EXPECT_EQ(read.bytes(), 0U);
  Probe& across = file_reading(file, into, (512 << 10) - 1'000, Operation::exactly);
  finish(across);
  EXPECT_EQ(across.error(), std::errc::io_error);
  EXPECT_EQ(across.bytes(), 1'000U);
  expect_sockets_work();
}

TEST_P(FaultyFiles, a_write_behind_the_last_free_block) {
  std::string& text = memory(pattern(8'192));
  Probe& last = file_writing(file, text, (768 << 10) - text.size(), Operation::exactly);
  Probe& behind = file_writing(file, text, (768 << 10) - 1'000, Operation::exactly);
  start(last);
  start(behind);
  finish(last);
  finish(behind);
  EXPECT_FALSE(last.failed()) << last.error().message();
  EXPECT_EQ(last.bytes(), text.size());
  EXPECT_EQ(behind.error(), std::errc::no_space_on_device);
  EXPECT_EQ(behind.bytes(), 0U);
}

TEST_P(FaultyFiles, a_failed_sync_is_reported_each_time) {
  for (int i = 0; i < 2; ++i) {
    Probe& sync = plain(OperationKind::sync_file, file);
    finish(sync);
    EXPECT_EQ(sync.error(), std::errc::io_error);
  }
}
// The file system may answer late.
TEST_P(FaultyFiles, no_thread_that_starts_or_waits_asks_the_server) {
  if (GetParam().engine == "posix_aio") {
    GTEST_SKIP() << "polls what it reads, for it could not end a read that waits";
  }
  Handle* const callers = opened("callers");
  Probe& write = file_writing(callers, memory(pattern(100)), 0);
  finish(write);
  EXPECT_FALSE(write.failed()) << write.error().message();
  std::string& list = memory(4'096);
  Probe& read = file_reading(callers, list, 0);
  finish(read);
  list.resize(read.bytes());
  EXPECT_FALSE(list.empty());
  EXPECT_EQ(("\n" + list).find("\n" + std::to_string(::gettid()) + "\n"), std::string::npos)
      << list;
  finish_close(callers);
}
#else
TEST(FaultyFiles, need_libfuse) { GTEST_SKIP() << "built without libfuse 3"; }
#endif

}  // namespace
}  // namespace baton::machine
