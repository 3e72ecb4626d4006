// Processes: fork, exec, seccomp, signal masks.
#include <dirent.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "../../support/fork_at_rest.h"
#include "baton/reason_code.hpp"
#include "baton/stream_socket.hpp"
#include "threads.hpp"

namespace baton::conformance {
namespace {

/// Runs `body` in a child process, which ends with 0 if it answers true. At the fork the parent's
/// threads are at rest, unless the test needs them busy.
int in_child(const std::function<bool()>& body, bool at_rest = true) {
  const pid_t child = at_rest ? fork_at_rest() : ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::map<int, std::string> open_descriptors() {
  std::map<int, std::string> open;
  DIR* directory = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == ::dirfd(directory)) continue;
    char target[256] = {};
    const std::string path = std::string{"/proc/self/fd/"} + entry->d_name;
    if (::readlink(path.c_str(), target, sizeof(target) - 1) > 0) open.emplace(fd, target);
  }
  ::closedir(directory);
  return open;
}

class Processes : public Threads {
 protected:
  /// An echo with a fresh proactor, in this thread alone.
  static bool echo_works(Proactor& proactor) {
    Stream stream;
    auto handle = proactor.adopt(stream.ours.get(), HandleKind::stream_socket);
    if (!handle) return false;
    static_cast<void>(stream.ours.release());
    Operation operation;
    char byte = 0;
    operation.prepare(OperationKind::read_stream, *handle);
    operation.set_buffer(MutableBuffer{&byte, 1});
    if (proactor.start(operation)) return false;
    if (::send(stream.peer.get(), "x", 1, 0) != 1) return false;
    while (operation.is_pending()) proactor.handle_events(Deadline::after(1s, proactor.now()));
    operation.prepare(OperationKind::write_stream, *handle, Operation::exactly);
    operation.set_buffer(ConstBuffer{&byte, 1});
    if (proactor.start(operation)) return false;
    while (operation.is_pending()) proactor.handle_events(Deadline::after(1s, proactor.now()));
    return ::recv(stream.peer.get(), &byte, 1, 0) == 1 && byte == 'x';
  }
  void fork_in_a_handler(unsigned lanes, bool throws, bool reopens) {
    use(lanes);
    const pid_t parent = ::getpid();
    Stream stream;
    Stream borrowed;
    auto object = StreamSocket::adopt(proactor(), borrowed.ours.get(), Ownership::borrowed);
    ASSERT_TRUE(object);
    Handle* const handle = adopt(stream.ours);
    Operation& read = operation();
    read_byte(handle, read);
    char byte = 0;
    auto strange = [&](Operation&) {
      if (::getpid() != parent) ::_exit(10);
    };
    ASSERT_FALSE(object->read(MutableBuffer{&byte, 1}, strange));
    pid_t child = -1;
    const auto fork_here = [&] {
      child = fork_at_rest();
      if (child != 0) return;
      ::alarm(30);
      if (reopens) {
        if (!proactor().reopen()) ::_exit(11);
        if (proactor().post([&] { proactor().stop(); })) ::_exit(13);
      }
      if (throws) throw 7;
    };
    EXPECT_FALSE(proactor().post(fork_here));
    EXPECT_FALSE(proactor().post([&] {  // queued with it
      if (::getpid() != parent) ::_exit(12);
      send_all(stream.peer.get(), "x", 1);
      send_all(borrowed.peer.get(), "x", 1);
    }));
    Operation& end = operation();
    ASSERT_FALSE(proactor().start_timer(end, Deadline::after(20ms, proactor().now())));
    int left = 0;  // 1: run() has returned, 2: after_fork, 3: the handler's exception
    try {
      while (end.is_pending() || read.is_pending())
        proactor().handle_events(Deadline::after(1s, proactor().now()));
      left = 1;
    } catch (const std::system_error& error) {
      left = error.code() == errc::after_fork ? 2 : 0;
    } catch (int) {
      left = 3;
    }
    if (::getpid() != parent) {
      if (left != (throws ? 3 : reopens ? 1 : 2)) ::_exit(20 + left);
      if (!reopens && !proactor().reopen()) ::_exit(13);
      if (reopens) proactor().poll();  // the stop
      proactor().restart();
      ::_exit(echo_works(proactor()) ? 0 : 14);
    }
    EXPECT_EQ(left, 1);
    EXPECT_EQ(read.bytes(), 1U);
    int status = -1;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    EXPECT_EQ(status, 0) << lanes << (throws ? " throws" : "") << (reopens ? " reopens" : "");
    run_until(proactor(), [&] { return byte == 'x'; });
    object = unexpected{make_error_code(errc::handle_closed)};
    destroy();
  }
  /// The library's own threads; the test's threads existed before.
  static std::set<std::string> tasks() {
    std::set<std::string> all;
    DIR* directory = ::opendir("/proc/self/task");
    while (const dirent* entry = ::readdir(directory)) {
      if (entry->d_name[0] != '.') all.insert(entry->d_name);
    }
    ::closedir(directory);
    return all;
  }
};

// Everything but destroy and reopen answers after_fork.
TEST_P(Processes, a_child_may_only_destroy_or_reopen) {
  use(1);
  Stream stream;
  Handle* handle = adopt(stream.ours);
  Operation& read = operation();
  read_byte(handle, read);
  Stream second;
  auto object = StreamSocket::adopt(proactor(), second.ours.release());
  ASSERT_TRUE(object);
  proactor().poll();
  const int status = in_child([&] {
    Operation& other = operation();
    bool right = proactor().post(other) == errc::after_fork;
    right = right && proactor().start_timer(other, proactor().now()) == errc::after_fork;
    right = right && proactor().cancel(read) == CancelResult::nothing_pending;
    right = right && proactor().cancel(*handle) == CancelResult::nothing_pending;
    right = right && !proactor().move_deadline(read, Deadline::never());
    right = right && proactor().pending().operations.empty();
    right = right && proactor().adopt(stream.peer.get(), HandleKind::stream_socket).error() ==
                         errc::after_fork;
    proactor().drain(proactor().now());
    proactor().cancel_all();
    right = right && proactor().cancel_wait(read, read.activation(), Deadline::immediately()) ==
                         CancelWait::still_running;
    proactor().stop();
    proactor().restart();
    other.prepare(OperationKind::close, handle);
    right = right && proactor().start(other) == errc::after_fork;
    right = right && proactor().close(*handle, other) == errc::after_fork;
    {
      const StreamSocket closes_nothing = std::move(*object);
    }
    try {
      proactor().poll();
      right = false;
    } catch (const std::system_error& error) {
      right = right && error.code() == errc::after_fork;
    }
    destroy();
    return right;
  });
  EXPECT_EQ(status, 0);
  send_all(stream.peer.get(), "x", 1);  // the parent's is as it was
  run_until(proactor(), [&] { return !read.is_pending(); });
  EXPECT_EQ(read.bytes(), 1U);
}

// A close that waits for a handler, and a start that waits for the thread of its lane.
TEST_P(Processes, a_child_ends_its_copies_of_all_that_waits) {
  use(1);
  Stream first;
  Stream second;
  Handle* const closing = adopt(first.ours);
  Handle* const handle = adopt(second.ours);
  Operation& cancelled = operation();
  read_byte(closing, cancelled);
  proactor().poll();
  Operation& close = operation();
  close.prepare(OperationKind::close, closing);
  EXPECT_FALSE(proactor().post([&] {
    EXPECT_FALSE(proactor().close(*closing, close));
    proactor().stop();
  }));
  proactor().poll();
  proactor().restart();
  Operation& mailed = operation();
  read_byte(handle, mailed);
  ASSERT_TRUE(close.is_pending() && cancelled.is_pending() && mailed.is_pending());
  EXPECT_EQ(in_child([&] {
              destroy();
              return !close.is_pending() && !cancelled.is_pending() && !mailed.is_pending();
            }),
            0);
  send_all(second.peer.get(), "x", 1);
  run_until(proactor(), [&] { return !close.is_pending() && !mailed.is_pending(); });
}

TEST_P(Processes, a_child_that_reopens_has_its_own) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  use(1);
  Stream stream;
  Operation& read = operation();
  read_byte(adopt(stream.ours), read);
  proactor().poll();
  const int status = in_child([&] {
    if (!proactor().reopen()) return false;
    const bool ended = !read.is_pending() && read.error() == errc::after_fork;
    return ended && echo_works(proactor());
  });
  EXPECT_EQ(status, 0);
  send_all(stream.peer.get(), "x", 1);
  run_until(proactor(), [&] { return !read.is_pending(); });
  EXPECT_EQ(read.bytes(), 1U);
  EXPECT_TRUE(echo_works(proactor()));
}

// Threads of the parent that open and close at the fork leave to the child names of descriptors
// that it has not got, and under which it may have opened files of its own.
TEST_P(Processes, a_child_keeps_the_files_that_it_has_opened) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  use(1);
  Stream stream;
  const int number = adopt(stream.ours)->native();
  for (const bool reopens : {true, false}) {
    EXPECT_EQ(in_child([&] {
                ::close(number);
                if (::dup2(stream.peer.get(), number) != number) return false;
                if (reopens && (!proactor().reopen() || !echo_works(proactor()))) return false;
                if (!reopens) destroy();
                return ::fcntl(number, F_GETFD) == 0;
              }),
              0)
        << reopens;
  }
  EXPECT_TRUE(echo_works(proactor()));
}

// The parent's own descriptors do not stay open in the child: an interrupter, a ring, the
// descriptor that accepts keep in reserve.
TEST_P(Processes, children_that_reopen_have_no_more_descriptors_open) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  use(1);
  Operation& accept = operation();
  const auto start_accept = [&] {
    Peer listening{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const sockaddr_un any{.sun_family = AF_UNIX, .sun_path = {}};
    if (::bind(listening.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(sa_family_t)) !=
            0 ||
        ::listen(listening.get(), 1) != 0) {
      return false;
    }
    auto handle = proactor().adopt(listening.get(), HandleKind::listener);
    if (!handle) return false;
    static_cast<void>(listening.release());
    accept.prepare(OperationKind::accept, *handle);
    if (proactor().start(accept)) return false;
    proactor().poll();
    return accept.is_pending();
  };
  ASSERT_TRUE(start_accept());
  const int status = in_child([&] {
    std::size_t open = ~std::size_t{0};  // the first child may have other engines than its parent
    for (int i = 0; i < 3; ++i) {
      if (!proactor().reopen() || !start_accept()) return false;
      const auto now_open = open_descriptors();
      if (now_open.size() > open) {
        for (const auto& [fd, target] : now_open)
          std::fprintf(stderr, "%d %s\n", fd, target.c_str());
        return false;
      }
      open = now_open.size();
      if (const pid_t child = fork_at_rest(); child != 0) {
        int inner = -1;
        while (::waitpid(child, &inner, 0) < 0 && errno == EINTR) {
        }
        return inner == 0;
      }
    }
    return true;
  });
  EXPECT_EQ(status, 0);
  destroy();
}

// A handler forks, and the child comes back from it, by a return or an exception, before or after
// it has opened the proactor anew. Queued and pending operations are the parent's, in every lane
// that the thread leads.
TEST_P(Processes, the_child_of_a_handler_leaves_everything_to_the_parent) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  // A thread that is pinned for good leads only one lane.
  for (const unsigned lanes :
       GetParam().profile == "pinned" ? std::vector{1U} : std::vector{1U, 3U}) {
    for (const bool throws : {false, true}) {
      for (const bool reopens : {false, true}) fork_in_a_handler(lanes, throws, reopens);
    }
  }
}

// Forks while a thread takes operations from the cache and gives them back. The child is answered
// all the same, and so is a child of its own that it makes beside such a thread.
TEST_P(Processes, a_child_is_refused_whatever_the_parent_was_at) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // Its allocator has locks that a thread of the parent may have held at the fork.
  constexpr bool may_allocate = false;
#else
  constexpr bool may_allocate = true;
#endif
  use(1);
  run(1);
  constexpr int waiting_max = 64;
  std::atomic<int> waiting{0};
  std::atomic<bool> over{false};
  std::thread poster{[&] {
    while (!over) {
      if (waiting >= waiting_max) continue;
      ++waiting;
      EXPECT_FALSE(proactor().post([&] { --waiting; }));
    }
  }};
  for (int i = 0; i < tries(100) && !HasFailure(); ++i) {
    EXPECT_EQ(in_child(
                  [&] {
                    const bool refused =
                        !may_allocate || proactor().post([] {}) == errc::after_fork;
                    proactor().stop();
                    proactor().restart();
                    return refused;
                  },
                  false),
              0);
  }
  const auto beside_a_thread = [&] {
    std::atomic<bool> enough{false};
    std::thread refused{[&] {
      while (!enough) EXPECT_EQ(proactor().post([] {}), errc::after_fork);
    }};
    bool right = true;
    for (int i = 0; i < 100 && right; ++i) {
      right = in_child([&] { return proactor().post([] {}) == errc::after_fork; }, false) == 0;
    }
    enough = true;
    refused.join();
    return right;
  };
  if (may_allocate) {
    EXPECT_EQ(in_child(beside_a_thread, false), 0);
  }
  over = true;
  poster.join();
  wait_until([&] { return waiting == 0; });
  stop();
}

// Forks while threads run handlers, timers and sessions: the children reopen, or leave it alone;
// the parent's sessions and accounts are not disturbed.
TEST_P(Processes, fork_under_load) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  use(2);
  run(2);
  std::vector<Peer> sessions;
  for (std::uint32_t i = 0; i < 2; ++i) sessions.push_back(echo(Home{i}));
  std::atomic<bool> over{false};
  std::vector<std::thread> clients;
  for (const Peer& session : sessions) {
    clients.emplace_back([&] {
      while (!over) round_trip(session.get());
    });
  }
  std::thread timers{[&] {
    std::deque<Operation> all(50);
    while (!over) {
      for (Operation& timer : all) {
        if (timer.is_pending()) continue;
        const auto soon = std::chrono::microseconds{timer.activation() % 300};
        ASSERT_FALSE(proactor().start_timer(timer, Deadline::after(soon, proactor().now())));
      }
      std::this_thread::yield();
    }
    for (Operation& timer : all) {
      wait_until([&] { return !timer.is_pending(); });
    }
  }};
#ifdef __SANITIZE_ADDRESS__
  // Its allocator has locks that a thread of the parent may have held at the fork.
  constexpr bool may_reopen = false;
#else
  constexpr bool may_reopen = true;
#endif
  for (int i = 0; i < 10; ++i) {
    const auto body = [&] {
      if (i % 2 == 0 || !may_reopen) return true;
      return proactor().reopen().has_value() && echo_works(proactor());
    };
    EXPECT_EQ(in_child(body, false), 0);
  }
  over = true;
  for (std::thread& client : clients) client.join();
  timers.join();
  for (Peer& session : sessions) session.close();
  wait_until([&] { return proactor().statistics().handles == 0; });
  stop();
  const Statistics sum = proactor().statistics();
  EXPECT_EQ(sum.started, sum.completed);
}

TEST_P(Processes, no_descriptor_survives_exec) {
  const auto before = open_descriptors();
  use(2, [](Config& config) { config.processors.back().workers = 1; });
  run(2);
  Stream inherited;
  ::fcntl(inherited.ours.get(), F_SETFD, 0);
  adopt(inherited.ours);
  char path[] = "/tmp/baton_exec_XXXXXX";
  Peer file{::mkstemp(path)};
  ::unlink(path);
  adopt(file, HandleKind::file);
  Peer session = echo();
  round_trip(session.get());
  for (const auto& [fd, target] : open_descriptors()) {
    if (before.contains(fd)) continue;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << target;
  }
}

// The library closes every descriptor that it opens.
TEST_P(Processes, no_descriptor_is_left_behind) {
  use(2);
  destroy();
  const auto before = open_descriptors();
  for (int i = 0; i < 3; ++i) {
    use(2);
    run(2);
    Peer session = echo();
    round_trip(session.get());
    stop();
    destroy();
  }
  EXPECT_EQ(open_descriptors().size(), before.size());
}

// The library's threads take no signal of the program.
TEST_P(Processes, threads_of_the_library_block_all_signals) {
  const auto before = tasks();
  use(1);
  char path[] = "/tmp/baton_masks_XXXXXX";
  Peer fd{::mkstemp(path)};
  ::unlink(path);
  Handle* file = adopt(fd, HandleKind::file);
  for (int i = 0; i < 4; ++i) {  // an engine that uses workers has one now
    Operation& sync = operation();
    sync.prepare(OperationKind::sync_file, file);
    ASSERT_FALSE(proactor().start(sync));
    run_until(proactor(), [&] { return !sync.is_pending(); });
  }
  int own = 0;
  for (const std::string& task : tasks()) {
    if (before.contains(task)) continue;
    std::ifstream status{"/proc/self/task/" + task + "/status"};
    std::string line;
    std::uint64_t blocked = 0;
    std::string name;
    while (std::getline(status, line)) {
      if (line.starts_with("Name:")) name = line.substr(6);
      if (line.starts_with("SigBlk:")) blocked = std::stoull(line.substr(8), nullptr, 16);
    }
    if (name.empty()) continue;              // it has ended
    if (name.starts_with("iou-")) continue;  // the kernel's
    // glibc unblocks everything in the threads of its notifications.
    if (GetParam().notify == "callback" && blocked == 0) continue;
    ++own;
    // SIGKILL and SIGSTOP cannot be blocked, and 32 and 33 belong to the C library. SIGTTIN and
    // SIGTTOU stop a process in the background at its terminal. The wait lets the interrupt signal
    // in. The two signals of sigtimedwait look unblocked during the wait, but are not.
    const std::uint64_t all = ~std::uint64_t{0} & ~(1ULL << (SIGKILL - 1)) &
                              ~(1ULL << (SIGSTOP - 1)) & ~(1ULL << (SIGTTIN - 1)) &
                              ~(1ULL << (SIGTTOU - 1)) & ~(3ULL << 31);
    const bool waits_for_signals =
        GetParam().interrupt == "signal" || GetParam().notify == "sigwait";
    const bool by_signal = waits_for_signals && mode() == Mode::dedicated;
    const bool by_sigtimedwait = GetParam().wait == "rt_signals" && mode() == Mode::dedicated;
    EXPECT_LE(std::popcount(all & ~blocked), (by_signal ? 1 : 0) + (by_sigtimedwait ? 2 : 0))
        << name << ": " << std::hex << blocked;
  }
  if (mode() == Mode::dedicated) {
    EXPECT_GE(own, 1);
  }
}

/// From here on the kernel answers this system call of all threads of this process so
/// (SECCOMP_RET_*).
bool answer(long call, std::uint32_t how) {
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, how),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, const_cast<sock_filter*>(program)};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

/// As containers do it.
bool deny_rings(int error) {
  return answer(SYS_io_uring_setup, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error));
}

// Single calls pay for each system call: the number of the calling thread is not asked of the
// kernel.
TEST_P(Processes, single_calls_do_not_ask_the_kernel_for_their_thread) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers ask on their own";
#endif
  const int status = in_child([&] {
    auto proactor = Proactor::open(GetParam().config());
    if (!proactor || !echo_works(**proactor)) return false;
    for (const long call : {SYS_getpid, SYS_gettid}) {
      if (!answer(call, SECCOMP_RET_KILL_PROCESS)) return false;
    }
    int ran = 0;
    for (int i = 0; i < 10; ++i) {
      if ((*proactor)->post([&] { ++ran; })) return false;
      while (ran == i) (*proactor)->handle_events();
    }
    ::_exit(ran == 10 ? 0 : 1);  // what ends it may ask
  });
  EXPECT_EQ(status, 0);
}

// The next engine takes its place, and says why; without one that may, opening fails with it.
TEST_P(Processes, an_engine_that_is_denied_is_replaced_visibly) {
  if (with_troubles()) GTEST_SKIP() << "names the engine, which is chaos here";
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  const std::pair<int, ReasonCode> denials[] = {{EPERM, ReasonCode::denied_seccomp},
                                                {ENOSYS, ReasonCode::not_in_kernel},
                                                {ENOMEM, ReasonCode::limit_memlock}};
  for (const auto& [error, code] : denials) {
    const int status = in_child([&] {
      if (!deny_rings(error)) return false;
      auto proactor = Proactor::open(GetParam().config());
      if (!proactor) return false;
      if (GetParam().engine == "io_uring") {
        const std::string text = (*proactor)->explain();
        const bool replaced = text.find("engine=emulated") != std::string::npos;
        const bool says_why = text.find("io_uring -> emulated") != std::string::npos &&
                              text.find(to_string(code)) != std::string::npos;
        if (!replaced || !says_why) {
          std::fputs(text.c_str(), stderr);
          return false;
        }
        Config strict = GetParam().config();
        strict.require = {"io_uring"};
        const auto refused = Proactor::open(std::move(strict));
        if (refused || refused.error().reason_code != code) return false;
      }
      return echo_works(**proactor);
    });
    EXPECT_EQ(status, 0) << std::strerror(error);
  }
}

// A sandbox that begins after the open: operations that need a refused call end with an error of
// their own, everything else continues, and the proactor can be destroyed.
TEST_P(Processes, a_filter_put_on_later_ends_only_users_of_the_call) {
  if (with_troubles()) GTEST_SKIP() << "names the engine, which is chaos here";
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  for (const int error : {EPERM, ENOSYS}) {
    const int status = in_child([&] {
      auto proactor = Proactor::open(GetParam().config());
      if (!proactor) return false;
      Stream stream;
      auto socket = StreamSocket::adopt(**proactor, stream.ours.release());
      Operation read, timer, write;
      char byte = 0;
      read.prepare(OperationKind::read_stream, socket->handle());
      read.set_buffer(MutableBuffer{&byte, 1});
      if (!socket || (*proactor)->start(read)) return false;
      (*proactor)->poll();
      if (!answer(SYS_io_uring_enter, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error))) {
        return false;
      }
      const bool by_ring = GetParam().engine == "io_uring";
      if (!by_ring) send_all(stream.peer.get(), "x", 1);
      bool posted = false;
      if ((*proactor)->start_timer(timer, Deadline::after(20ms, (*proactor)->now()))) return false;
      if ((*proactor)->post([&] { posted = true; })) return false;
      write.prepare(OperationKind::write_stream, socket->handle());
      write.set_buffer(ConstBuffer{"y", 1});
      if ((*proactor)->start(write)) return false;
      while (read.is_pending() || timer.is_pending() || write.is_pending() || !posted) {
        (*proactor)->handle_events(Deadline::after(1s, (*proactor)->now()));
      }
      const std::error_code expected =
          by_ring ? make_error_code(errc::engine_lost) : std::error_code{};
      if (read.error() != expected || write.error() != expected || timer.failed()) return false;
      write.prepare(OperationKind::write_stream, socket->handle());
      write.set_buffer(ConstBuffer{"z", 1});
      if ((*proactor)->start(write)) return false;
      while (write.is_pending()) (*proactor)->run_one();
      socket = unexpected{make_error_code(errc::handle_closed)};
      proactor->reset();
      return write.error() == expected && at_end(stream.peer.get()) == by_ring;
    });
    EXPECT_EQ(status, 0) << std::strerror(error);
  }
}

// By the kernel, as with read(2) and write(2). In a thread that has these signals blocked, the read
// fails and the write is made.
TEST_P(Processes, a_process_in_the_background_is_stopped_at_its_terminal) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  int pair[2];
  ASSERT_EQ(::openpty(&pair[0], &pair[1], nullptr, nullptr, nullptr), 0);
  const Peer master{pair[0]};
  const Peer slave{pair[1]};
  termios modes{};
  ASSERT_EQ(::tcgetattr(slave.get(), &modes), 0);
  modes.c_lflag |= TOSTOP;
  ASSERT_EQ(::tcsetattr(slave.get(), TCSANOW, &modes), 0);
  ASSERT_EQ(::write(master.get(), "line\n", 5), 5);
  const auto moves = [&](OperationKind kind) {
    ::setpgid(0, 0);
    Proactor proactor{GetParam().config()};
    char text[8] = {};
    Operation operation;
    operation.prepare(kind, *proactor.adopt(slave.get(), HandleKind::pipe, Ownership::borrowed));
    operation.set_buffer(MutableBuffer{text, sizeof(text)});
    if (proactor.start(operation)) return;
    while (operation.is_pending()) proactor.handle_events();
  };
  const auto is_stopped = [&](OperationKind kind, int signal_number) {
    const pid_t job = fork_at_rest();
    if (job == 0) {
      moves(kind);
      ::_exit(1);
    }
    int status = -1;
    const bool stopped = ::waitpid(job, &status, WUNTRACED) == job && WIFSTOPPED(status) &&
                         WSTOPSIG(status) == signal_number;
    return ::kill(job, SIGKILL) == 0 && stopped;
  };
  // The leader of the session is in the foreground.
  EXPECT_EQ(in_child([&] {
              return ::setsid() >= 0 && ::ioctl(slave.get(), TIOCSCTTY, 0) == 0 &&
                     is_stopped(OperationKind::read_stream, SIGTTIN) &&
                     is_stopped(OperationKind::write_stream, SIGTTOU);
            }),
            0);
}

BATON_CONFORMANCE_SUITE(Processes);

}  // namespace
}  // namespace baton::conformance
