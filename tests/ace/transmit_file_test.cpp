// Transmit-file.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "transfers.hpp"

namespace baton::ace::test {
namespace {

class TransmitFile : public Transfers {
 protected:
  TransmitFile() : content_(100'000, '\0') {
    for (std::size_t i = 0; i < content_.size(); ++i)
      content_[i] = static_cast<char>(i * 7 + i / 256);
    EXPECT_EQ(static_cast<ssize_t>(content_.size()),
              ::pwrite(file_, content_.data(), content_.size(), 0));
    EXPECT_EQ(0, sender_.open(taker_, pair_.first, nullptr, ace()));
    header_.copy("<<", 2);
    trailer_.copy(">>>", 3);
  }
  ~TransmitFile() override { ::close(file_); }

  /// The received bytes, after everything was sent.
  std::string sent(int count) {
    std::string got;
    std::thread peer([&] {
      char buffer[8'192];
      for (ssize_t more = 0; (more = ::read(pair_.second, buffer, sizeof(buffer))) > 0;) {
        got.append(buffer, static_cast<std::size_t>(more));
      }
    });
    EXPECT_TRUE(drive([&] { return taker_.written.count == count; }));
    ::shutdown(pair_.first, SHUT_WR);
    peer.join();
    return got;
  }

  std::string content_;
  const int file_ = scratch_file();
  SocketPair pair_;
  ACE_Asynch_Transmit_File sender_;
  ACE_Message_Block header_{10};
  ACE_Message_Block trailer_{10};
  ACE_Asynch_Transmit_File::Header_And_Trailer ends_{&header_, 2, &trailer_, 3};
};

TEST_F(TransmitFile, WholeFileBetweenHeaderAndTrailer) {
  ASSERT_EQ(0, sender_.transmit_file(file_, &ends_, 0, 0, 0, 1'000, 0, &act_, 3, SIGRTMIN + 2));
  EXPECT_EQ("<<" + content_ + ">>>", sent(1));
  EXPECT_EQ(content_.size() + 5, taker_.written.bytes);
  EXPECT_EQ(content_.size(), taker_.to_write);
  EXPECT_EQ(&act_, taker_.written.act);
  EXPECT_EQ(3, taker_.written.priority);
  EXPECT_EQ(SIGRTMIN + 2, taker_.written.signal_number);
  EXPECT_EQ(1, taker_.written.success);
}

TEST_F(TransmitFile, PartFromAnOffset) {
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 99'000, 0, 0, 0));
  EXPECT_EQ(content_.substr(99'000), sent(1));
  EXPECT_EQ(1'000U, taker_.to_write);
}

TEST_F(TransmitFile, ExactlySoManyBytes) {
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 777, 5, 0, 100, 0));
  EXPECT_EQ(content_.substr(5, 777), sent(1));
  EXPECT_EQ(777U, taker_.written.bytes);
}

TEST_F(TransmitFile, EndsAreNoLongerThanTheirLengthsAndTheirBlocks) {
  ACE_Asynch_Transmit_File::Header_And_Trailer ends{&header_, 1, &trailer_, 9};
  ASSERT_EQ(0, sender_.transmit_file(file_, &ends, 2, 0, 0, 0, 0));
  EXPECT_EQ("<" + content_.substr(0, 2) + ">>>", sent(1));
}

TEST_F(TransmitFile, HeaderIsNoLongerThanItsBlock) {
  ACE_Asynch_Transmit_File::Header_And_Trailer ends{&header_, 9, &trailer_, 2};
  ASSERT_EQ(0, sender_.transmit_file(file_, &ends, 2, 0, 0, 0, 0));
  EXPECT_EQ("<<" + content_.substr(0, 2) + ">>", sent(1));
}

TEST_F(TransmitFile, OffsetsHaveAHighHalf) {
  ASSERT_EQ(4, ::pwrite(file_, "far!", 4, (off_t{1} << 32) + 2));
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 4, 2, 1, 0, 0));
  EXPECT_EQ("far!", sent(1));
}

// More than the socket holds: the rest is read when it is not there any more.
TEST_F(TransmitFile, FileThatBecomesShorterIsAnError) {
  ASSERT_EQ(0, ::ftruncate(file_, 64 << 20));
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 0, 0));
  ASSERT_EQ(0, ::ftruncate(file_, 0));
  EXPECT_LT(sent(1).size(), std::size_t{64} << 20);
  EXPECT_EQ(static_cast<u_long>(ENODATA), taker_.written.error);
}

TEST_F(TransmitFile, EmptyPartCompletes) {
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, content_.size(), 0, 0, 0));
  EXPECT_EQ("", sent(1));
  EXPECT_EQ(0U, taker_.written.bytes);
  EXPECT_EQ(1, taker_.written.success);
}

TEST_F(TransmitFile, AMissingPartIsRefused) {
  EXPECT_EQ(-1, sender_.transmit_file(file_, nullptr, 0, content_.size() + 1, 0, 0, 0));
  EXPECT_EQ(EINVAL, errno);
  EXPECT_EQ(-1, sender_.transmit_file(file_, nullptr, 2, content_.size() - 1, 0, 0, 0));
  EXPECT_EQ(EINVAL, errno);
  EXPECT_EQ(-1, sender_.transmit_file(-1, nullptr, 0, 0, 0, 0, 0));
  EXPECT_EQ(EBADF, errno);
}

// Its header is not sent either, so that the program can still send an answer of another kind.
TEST_F(TransmitFile, ADirectoryIsRefused) {
  for (const char* const path : {"/tmp", "/proc" /* has no size */}) {
    const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT_EQ(-1, sender_.transmit_file(folder, &ends_, 0, 0, 0, 0, 0));
    EXPECT_EQ(EISDIR, errno);
    ::close(folder);
  }
  ASSERT_EQ(0, sender_.transmit_file(file_, &ends_, 5, 0, 0, 0, 0));
  EXPECT_EQ("<<" + content_.substr(0, 5) + ">>>", sent(1));
}

// As with a write: a program that has forgotten the write pointer hears of it.
TEST_F(TransmitFile, AnEndWithoutDataIsRefused) {
  ACE_Message_Block empty{"HTTP/1.0 200", 12};
  ACE_Asynch_Transmit_File::Header_And_Trailer header{&empty, 12, &trailer_, 3};
  EXPECT_EQ(-1, sender_.transmit_file(file_, &header, 5, 0, 0, 0, 0));
  EXPECT_EQ(EINVAL, errno);
  ACE_Asynch_Transmit_File::Header_And_Trailer trailer{&header_, 2, &empty, 12};
  EXPECT_EQ(-1, sender_.transmit_file(file_, &trailer, 5, 0, 0, 0, 0));
  EXPECT_EQ(EINVAL, errno);
  ACE_Asynch_Transmit_File::Header_And_Trailer none{&empty, 0, &empty, 0};
  ASSERT_EQ(0, sender_.transmit_file(file_, &none, 5, 0, 0, 0, 0));
  EXPECT_EQ(content_.substr(0, 5), sent(1));
}

TEST_F(TransmitFile, CancelEndsItOnce) {
  // More than the socket holds: it cannot end before.
  ASSERT_EQ(0, ::ftruncate(file_, 64 << 20));
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 0, 0));
  EXPECT_EQ(0, sender_.cancel());
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(0, taker_.written.success);
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
  EXPECT_EQ(1, sender_.cancel());
}

// The file does not fit into memory, and the program wants it sent in one piece.
TEST_F(TransmitFile, TakesNoMoreMemoryThanAMebibyte) {
  constexpr off_t size = off_t{1} << 43;
  ASSERT_EQ(0, ::ftruncate(file_, size));
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, size, 0)) << std::strerror(errno);
  EXPECT_EQ(0, sender_.cancel());
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
  EXPECT_EQ(static_cast<std::size_t>(size), taker_.per_send);
}

// All of it is read in the first step, which no cancel of the socket ends.
TEST_F(TransmitFile, CancelEndsASmallFileBeforeItIsWritten) {
  ACE_Asynch_Transmit_File::Header_And_Trailer end{nullptr, 0, &trailer_, 3};
  ASSERT_EQ(0, sender_.transmit_file(file_, &end, 5, 0, 0, 0, 0));
  EXPECT_EQ(0, sender_.cancel());
  EXPECT_EQ("", sent(1));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
}

// The trailer may be sent already.
TEST_F(TransmitFile, CancelThatComesTooLateIsNoError) {
  ACE_Asynch_Transmit_File::Header_And_Trailer end{nullptr, 0, &trailer_, 3};
  ASSERT_EQ(0, sender_.transmit_file(file_, &end, 0, content_.size(), 0, 0, 0));
  EXPECT_EQ(0, sender_.cancel());
  const std::string got = sent(1);
  EXPECT_EQ(got.size(), taker_.written.bytes);
  EXPECT_EQ(got.size() == 3 ? 1 : 0, taker_.written.success);
}

TEST_F(TransmitFile, BytesOfAPartThatFailsAreCounted) {
  constexpr std::size_t size = 8 << 20;  // more than the socket holds
  constexpr std::size_t taken = 100'000;
  ACE_Message_Block big(size);
  big.wr_ptr(size);
  ACE_Asynch_Transmit_File::Header_And_Trailer ends{&big, size, nullptr, 0};
  ASSERT_EQ(0, sender_.transmit_file(file_, &ends, 5, 0, 0, 0, 0));
  std::thread peer([&] {
    std::vector<char> buffer(taken);
    EXPECT_EQ(static_cast<ssize_t>(taken), ::recv(pair_.second, buffer.data(), taken, MSG_WAITALL));
    ::close(std::exchange(pair_.second, -1));
  });
  EXPECT_TRUE(drive([&] { return taker_.written.count == 1; }));
  peer.join();
  EXPECT_EQ(0, taker_.written.success);
  EXPECT_LE(taken, taker_.written.bytes);
  EXPECT_GT(size, taker_.written.bytes);
}

TEST_F(TransmitFile, CancelEndsAllOfTheSocket) {
  ASSERT_EQ(0, ::ftruncate(file_, 64 << 20));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 0, 0));
  EXPECT_EQ(0, sender_.cancel());
  ASSERT_TRUE(drive([&] { return taker_.written.count == 3; }));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
}

// The newest first: those that are left do not name it any more (AddressSanitizer).
TEST_F(TransmitFile, EndInAnyOrder) {
  const SocketPair others[2];
  ACE_Asynch_Transmit_File more[2];
  ASSERT_EQ(0, ::ftruncate(file_, 64 << 20));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(0, more[i].open(taker_, others[i].first, nullptr, ace()));
  ACE_Asynch_Transmit_File* const all[] = {&sender_, &more[0], &more[1]};
  for (auto* each : all) ASSERT_EQ(0, each->transmit_file(file_, nullptr, 0, 0, 0, 0, 0));
  int ended = 0;
  for (auto* each : {&more[0], &more[1], &sender_}) {  // the middle one, the newest, the oldest
    EXPECT_EQ(0, each->cancel());
    ASSERT_TRUE(drive([&, count = ++ended] { return taker_.written.count == count; }));
  }
  for (auto* each : all) EXPECT_EQ(1, each->cancel());
}

// The program closes the socket while a piece of the file is being read, and another one gets its
// number.
TEST_F(TransmitFile, SendsNothingToTheNextSocketWithItsNumber) {
  SocketPair next;
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 1'000, 0));
  ASSERT_EQ(pair_.first, ::dup2(next.first, pair_.first));
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
  char byte = 0;
  EXPECT_EQ(-1, ::recv(next.second, &byte, 1, MSG_DONTWAIT));
}

TEST_F(TransmitFile, SendsNothingOfTheNextFileWithItsNumber) {
  ASSERT_EQ(0, sender_.transmit_file(file_, nullptr, 0, 0, 0, 1'000, 0));
  const int next = scratch_file();
  ASSERT_EQ(0, ::ftruncate(next, 100'000));
  ASSERT_EQ(file_, ::dup2(next, file_));
  ::close(next);
  ASSERT_TRUE(drive([&] { return taker_.written.count == 1; }));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), taker_.written.error);
  EXPECT_GE(1'000U, taker_.written.bytes);  // the piece that had been read
}

}  // namespace
}  // namespace baton::ace::test
