// What a number names, for code that borrows descriptors.
#include "native/open_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "support/descriptors.hpp"

namespace baton::test {
namespace {

native::OpenFile found(int fildes) {
  native::OpenFile file;
  EXPECT_EQ(native::look_at(fildes, file), 0);
  return file;
}

TEST(OpenFile, IsTheSameByEachOfItsNumbers) {
  const SocketPair pair;
  const Fd twin{::dup(pair.ours.get())};
  EXPECT_EQ(found(pair.ours.get()), found(twin.get()));
  EXPECT_NE(found(pair.ours.get()), found(pair.peer.get()));
  native::OpenFile none;
  EXPECT_EQ(native::look_at(-1, none), EBADF);
}

// Each file system counts its own: those of the kernel begin with 1.
TEST(OpenFile, OfTheSameInodeOnAnotherDeviceIsAnother) {
  struct stat first{};
  struct stat second{};
  const Fd proc{::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  const Fd sys{::open("/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (::fstat(proc.get(), &first) != 0 || ::fstat(sys.get(), &second) != 0) return;
  if (first.st_ino != second.st_ino) return;
  EXPECT_NE(found(proc.get()), found(sys.get()));
  EXPECT_TRUE(found(proc.get()).directory);
}

TEST(OpenFile, KnowsItsKind) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd out{ends[0]};
  const Fd in{ends[1]};
  EXPECT_EQ(found(out.get()).kind, HandleKind::pipe);
  const Fd null{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  EXPECT_EQ(found(null.get()).kind, HandleKind::file);
  const Fd datagrams{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  EXPECT_EQ(found(datagrams.get()).kind, HandleKind::datagram_socket);
  const Fd records{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  EXPECT_EQ(found(records.get()).kind, HandleKind::stream_socket);
  const SocketPair pair;
  EXPECT_EQ(found(pair.ours.get()).kind, HandleKind::stream_socket);
  const Fd program{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  EXPECT_EQ(found(program.get()).kind, HandleKind::file);
  EXPECT_FALSE(found(program.get()).directory);
  const Fd folder{::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  EXPECT_EQ(found(folder.get()).kind, HandleKind::file);
}

// lseek(2) of most of them succeeds, and a transfer at an offset does not.
TEST(OpenFile, WithoutANameHasNoPosition) {
  sigset_t none;
  ::sigemptyset(&none);
  const Fd nameless[] = {
      Fd{::eventfd(0, EFD_CLOEXEC)},
      Fd{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)},
      Fd{::inotify_init1(IN_CLOEXEC)},
      Fd{::signalfd(-1, &none, SFD_CLOEXEC)},
      Fd{::epoll_create1(EPOLL_CLOEXEC)},
      Fd{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))},
  };
  for (const Fd& each : nameless) {
    ASSERT_NE(each.get(), -1);
    EXPECT_EQ(found(each.get()).kind, HandleKind::pipe) << &each - nameless;
  }
}

TEST(OpenFile, OfWhatIsOpenedTwiceSharesItsInode) {
  const auto twice = [](const char* path) {
    const Fd first{::open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)};
    const Fd second{::open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)};
    EXPECT_EQ(found(first.get()), found(second.get())) << path;
    return found(second.get()).shares_inode;
  };
  EXPECT_TRUE(twice("/dev/ptmx"));
  EXPECT_FALSE(twice("/dev/null"));  // has a position, and so nothing waits for it
  const SocketPair pair;
  EXPECT_FALSE(found(pair.ours.get()).shares_inode);
}

}  // namespace
}  // namespace baton::test
