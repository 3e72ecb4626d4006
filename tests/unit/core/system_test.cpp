// The real system-call table and the other parts of src/os, by their promises.
#include "os/system.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "os/handles_bound.hpp"
#include "os/high_descriptors.hpp"
#include "os/parking.hpp"
#include "os/probe_memory.hpp"
#include "os/remove_path.hpp"
#include "os/thread_locals.hpp"
#include "support/child.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

const os::System& real() { return os::real_system(); }

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
  EXPECT_EQ(status_of(child), 0);
}

TEST(System, AChildOfForkIsInNoLane) {
  const char lane = 0;
  const void* const before = std::exchange(os::thread_locals.lane, &lane);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(os::thread_locals.lane == &os::nowhere ? 0 : 1);
  os::thread_locals.lane = before;
  EXPECT_EQ(status_of(child), 0);
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

// Only the end of its time ends a wait with false. The parking slots rely on it.
TEST(System, ASignalIsNoTimeout) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};  // without SA_RESTART
  ASSERT_EQ(::sigaction(SIGUSR2, &action, &before), 0);
  std::atomic<std::uint32_t> word{0};
  std::atomic<bool> ended{false};
  bool answer = false;
  std::thread waits([&] {
    answer = real().futex_wait(&word, 0, at_last().ns());
    ended = true;
  });
  while (!ended) {
    ::pthread_kill(waits.native_handle(), SIGUSR2);
    std::this_thread::yield();
  }
  waits.join();
  EXPECT_TRUE(answer);
  ASSERT_EQ(::sigaction(SIGUSR2, &before, nullptr), 0);
}

TEST(System, CoresThatThisThreadMayNotUseDoNotCount) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  std::size_t core = 0;
  while (CPU_ISSET(core, &before) == 0) ++core;
  CPU_SET(core, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(real().usable_cores(), 1U);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(real().usable_cores(), static_cast<std::uint32_t>(CPU_COUNT(&before)));
}

// The wake-up comes when the time of the wait is up, and before the look at the word.
TEST(Parking, AWakeUpAtTheDeadlineCounts) {
  struct Futex {
    std::function<void()> meanwhile;
    bool futex_wait(std::atomic<std::uint32_t>*, std::uint32_t, std::int64_t) const {
      meanwhile();
      return false;
    }
    void futex_wake(std::atomic<std::uint32_t>*, std::uint32_t) const {}
  };
  os::BasicParkingSlot<Futex> slot;
  Futex futex{[] {}};
  EXPECT_FALSE(slot.park(futex, Deadline::immediately()));
  futex.meanwhile = [&] { slot.unpark(futex); };
  EXPECT_TRUE(slot.park(futex, Deadline::immediately()));
  futex.meanwhile = [] {};
  EXPECT_FALSE(slot.park(futex, Deadline::immediately())) << "it was taken";
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
  sigset_t none;
  sigemptyset(&none);
  const Fd signals(os::high_system().signalfd(-1, &none, 0));
  EXPECT_GE(signals.get(), os::high_number());
  EXPECT_EQ(os::high_system().signalfd(signals.get(), &none, 0), signals.get()) << "a change";
  EXPECT_EQ(open_now(), before + 4);
}

// A quarter of a small table is for them. When it is full, they get any number.
TEST(HighDescriptors, HaveTheirPartOfASmallTable) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit small{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  EXPECT_EQ(os::high_number(), 48);
  std::vector<Fd> events;
  do {
    events.emplace_back(os::high_system().eventfd(0, EFD_CLOEXEC));
    ASSERT_GE(events.back().get(), 0);
  } while (events.back().get() >= 48);
  EXPECT_LE(events.size(), 17U);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
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

// The system copies the part that is mapped, and then is asked for the rest.
TEST(ProbeMemory, EndsWhereTheMappingEnds) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* const two = static_cast<char*>(
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(two, MAP_FAILED);
  ASSERT_EQ(::munmap(two + page, page), 0);
  char bytes[16] = {};
  EXPECT_TRUE(os::copy_if_readable(bytes, two + page - 16, 16));
  EXPECT_TRUE(os::copy_if_writable(two + page - 16, bytes, 16));
  EXPECT_FALSE(os::copy_if_readable(bytes, two + page - 8, 16));
  EXPECT_FALSE(os::copy_if_writable(two + page - 8, bytes, 16));
  ASSERT_EQ(::munmap(two, page), 0);
}

// A filter may refuse the calls that probe. Then memory is taken for mapped.
TEST(ProbeMemory, CopiesWhereTheSystemRefusesToProbe) {
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{std::size(filter), filter};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
      ::_exit(2);
    }
    char to[] = "...";
    if (!os::copy_if_readable(to, "abc", 3) || std::strcmp(to, "abc") != 0) ::_exit(1);
    if (!os::copy_if_writable(to, "xyz", 3) || std::strcmp(to, "xyz") != 0) ::_exit(1);
    ::_exit(0);
  }
  EXPECT_EQ(status_of(child), 0);
}

TEST(RemovePath, LeavesOtherAddressesAlone) {
  static int removed;
  os::System system = real();
  system.unlink = [](const char*) { return ++removed, 0; };
  removed = 0;
  sockaddr_in internet{};
  internet.sin_family = AF_INET;
  internet.sin_port = 0x6161;
  os::remove_path(system, &internet, sizeof internet);
  sockaddr_un abstract{};
  abstract.sun_family = AF_UNIX;
  abstract.sun_path[1] = 'a';
  os::remove_path(system, &abstract, sizeof abstract);
  EXPECT_EQ(removed, 0);
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
