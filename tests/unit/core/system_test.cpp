// The real system-call table and the other parts of src/os, by their promises.
#include "os/system.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "os/handles_bound.hpp"
#include "os/high_descriptors.hpp"
#include "os/probe_memory.hpp"
#include "os/remove_path.hpp"
#include "os/thread_locals.hpp"
#include "support/descriptors.hpp"

namespace baton::test {
namespace {

const os::System& real() { return os::real_system(); }

bool says_yes(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(System, ThreadsOfTheLibraryTakeNoSignal) {
  sigset_t inside;
  sigemptyset(&inside);
  std::uint64_t thread = 0;
  ASSERT_EQ(
      real().thread_start(
          &thread,
          [](void* set) { ::pthread_sigmask(SIG_BLOCK, nullptr, static_cast<sigset_t*>(set)); },
          &inside),
      0);
  real().thread_join(thread);
  sigset_t here;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &here), 0);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) {
    EXPECT_EQ(sigismember(&inside, number), 1) << number;
    EXPECT_EQ(sigismember(&here, number), 0) << number;
  }
}

TEST(System, AChildOfForkSignalsItsOwnThreads) {
  static_cast<void>(real().thread_self());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(real().kill_thread(real().thread_self(), 0) == 0 ? 0 : 1);
  EXPECT_TRUE(says_yes(child));
}

TEST(System, AChildOfForkIsInNoLane) {
  const char lane = 0;
  const void* const before = std::exchange(os::thread_locals.lane, &lane);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(os::thread_locals.lane == &os::nowhere ? 0 : 1);
  os::thread_locals.lane = before;
  EXPECT_TRUE(says_yes(child));
}

// By the program, which has its reasons.
TEST(System, AThreadThatIsNotToBeCancelledStaysSo) {
  int before = 0;
  ASSERT_EQ(::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before), 0);
  EXPECT_EQ(real().close(-1), -1);
  int after = PTHREAD_CANCEL_ENABLE;
  ASSERT_EQ(::pthread_setcancelstate(before, &after), 0);
  EXPECT_EQ(after, PTHREAD_CANCEL_DISABLE);
}

TEST(System, PositionsAndFlagsOfListsCount) {
  const Fd file(::memfd_create("baton_system_test", MFD_CLOEXEC));
  ASSERT_EQ(::write(file.get(), "....", 4), 4);
  char text[] = "ab";
  const iovec list{text, 2};
  EXPECT_EQ(real().pwritev2(file.get(), &list, 1, 0, 0), 2);
  EXPECT_EQ(real().pwritev2(file.get(), &list, 1, -1, 0), 2);
  char all[8] = {};
  EXPECT_EQ(::pread(file.get(), all, sizeof all, 0), 6);
  EXPECT_STREQ(all, "ab..ab");
  constexpr int unknown = 1 << 30;
  for (const auto call : {real().preadv2, real().pwritev2}) {
    EXPECT_EQ(call(file.get(), &list, 1, 0, unknown), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
}

TEST(HighDescriptors, AreMovedAndNotCopied) {
  const auto open_now = [] {
    const std::filesystem::directory_iterator all{"/proc/self/fd"};
    return std::distance(begin(all), end(all));
  };
  const auto before = open_now();
  const Fd event(os::high_system().eventfd(0, 0));
  EXPECT_GE(event.get(), os::high_number());
  EXPECT_EQ(open_now(), before + 1);
  int ends[2] = {};
  ASSERT_EQ(os::high_system().pipe2(ends, 0), 0);
  const Fd out(ends[0]);
  const Fd in(ends[1]);
  EXPECT_GE(out.get(), os::high_number());
  EXPECT_GE(in.get(), os::high_number());
  EXPECT_EQ(open_now(), before + 3);
}

// The soft limit may be raised later.
TEST(HandlesBound, IsTheHardLimit) {
  os::System system = real();
  system.getrlimit = [](int, rlimit* limit) {
    *limit = {100, 1000};
    return 0;
  };
  EXPECT_EQ(os::handles_bound(system, 0), 1000U);
  EXPECT_EQ(os::handles_bound(system, 7), 7U);
}

TEST(ProbeMemory, LeavesErrno) {
  char byte = 0;
  char* const unmapped = nullptr;
  errno = ENOTTY;
  EXPECT_FALSE(os::copy_if_readable(&byte, unmapped, 1));
  EXPECT_EQ(errno, ENOTTY);
  EXPECT_FALSE(os::copy_if_writable(unmapped, &byte, 1));
  EXPECT_EQ(errno, ENOTTY);
}

// Which has no NUL behind it.
TEST(RemovePath, RemovesTheLongestPath) {
  static std::string removed;
  os::System system = real();
  system.unlink = [](const char* path) {
    removed = path;
    return 0;
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memset(address.sun_path, 'x', sizeof address.sun_path);
  os::remove_path(system, &address, sizeof address);
  EXPECT_EQ(removed, std::string(sizeof address.sun_path, 'x'));
}

}  // namespace
}  // namespace baton::test
