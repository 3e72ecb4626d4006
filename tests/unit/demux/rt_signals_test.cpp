// Faults of real-time signals only: a full queue, signals that outlive their descriptor, threads
// that end, and the program's own signals.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <deque>
#include <filesystem>
#include <iterator>
#include <set>
#include <thread>

#include "baton/proactor.hpp"
#include "baton/registry.hpp"
#include "demux/registry.hpp"
#include "demux/silent_files.hpp"
#include "os/system.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

using std::chrono::seconds;

Result<std::unique_ptr<WaitStrategy>, Failure> open(const WaitOptions& options = {}) {
  return demux::find_wait_strategy("rt_signals")->factory(options);
}

std::unique_ptr<WaitStrategy> opened(const WaitOptions& options = {}) {
  auto strategy = open(options);
  EXPECT_TRUE(strategy.has_value()) << strategy.error().reason;
  return strategy ? std::move(*strategy) : nullptr;
}

constexpr Token token_of(std::uint32_t index, std::uint32_t generation = 1) {
  return {index, generation};
}

std::vector<Report> wait(WaitStrategy& strategy, Deadline deadline = Deadline::immediately()) {
  std::vector<Report> reports(64);
  const auto count = strategy.wait(reports, deadline, nullptr);
  EXPECT_TRUE(count.has_value()) << count.error().message();
  reports.resize(count.value_or(0));
  return reports;
}

/// The indices that are reported until `enough` of them are, or patience is over.
std::set<std::uint32_t> wait_for(WaitStrategy& strategy, std::size_t enough) {
  std::set<std::uint32_t> seen;
  const Deadline limit = at_last();
  while (seen.size() < enough && is_ahead(limit)) {
    for (const Report& report : wait(strategy, limit)) seen.insert(report.token.index);
  }
  return seen;
}

void add(WaitStrategy& strategy, const SocketPair& pair, Token token = token_of(1)) {
  EXPECT_FALSE(strategy.add(pair.ours.get(), Interest::in, token));
}

/// A queue of signals that is full after eight.
class ShortQueue {
 public:
  ShortQueue() {
    EXPECT_EQ(::getrlimit(RLIMIT_SIGPENDING, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = 8;
    EXPECT_EQ(::setrlimit(RLIMIT_SIGPENDING, &limit), 0);
  }
  ~ShortQueue() { ::setrlimit(RLIMIT_SIGPENDING, &before_); }
  ShortQueue(const ShortQueue&) = delete;
  ShortQueue& operator=(const ShortQueue&) = delete;

 private:
  rlimit before_{};
};

std::atomic<int> handled{0};
void program_handler(int) { ++handled; }

class ProgramHandler {
 public:
  explicit ProgramHandler(int number) : number_(number) {
    struct sigaction action{};
    action.sa_handler = program_handler;
    EXPECT_EQ(::sigaction(number, &action, &before_), 0);
  }
  ~ProgramHandler() { ::sigaction(number_, &before_, nullptr); }
  ProgramHandler(const ProgramHandler&) = delete;
  ProgramHandler& operator=(const ProgramHandler&) = delete;

  [[nodiscard]] bool stands() const {
    struct sigaction now{};
    ::sigaction(number_, nullptr, &now);
    return now.sa_handler == program_handler;
  }

 private:
  const int number_;
  struct sigaction before_{};
};

std::set<int> blocked_here() {
  sigset_t own;
  EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &own), 0);
  std::set<int> numbers;
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (sigismember(&own, number) == 1) numbers.insert(number);
  }
  return numbers;
}

/// The strategy watches a file that sends no signals, and loses this number.
void expect_error_without(WaitStrategy& strategy, const Fd& silent, int number) {
  EXPECT_FALSE(strategy.add(silent.get(), Interest::in, token_of(1)));
  ASSERT_EQ(::close(number), 0);
  std::vector<Report> reports(1);
  const auto count = strategy.wait(reports, at_last(), nullptr);
  ASSERT_FALSE(count.has_value());
  EXPECT_EQ(count.error(), std::errc::bad_file_descriptor);
}

// The program has closed a descriptor of the strategy: that is an error, not an empty report.
TEST(rt_signals_own, a_descriptor_that_is_closed_is_an_error) {
  const int number = ::dup(STDERR_FILENO);  // the next one has it
  ASSERT_EQ(::close(number), 0);
  const auto strategy = opened();
  const Fd silent(::eventfd(0, EFD_CLOEXEC));
  expect_error_without(*strategy, silent, number);
}

// The set of files that send no signals is a descriptor of the strategy, too.
TEST(rt_signals_own, a_set_of_silent_files_that_is_closed_is_an_error) {
  const auto strategy = opened();
  const Fd silent(::eventfd(0, EFD_CLOEXEC));
  const int number = ::dup(STDERR_FILENO);  // the set has it
  ASSERT_EQ(::close(number), 0);
  expect_error_without(*strategy, silent, number);
}

// -- the queue is full ----------------------------------------------------------------------------

constexpr std::uint32_t many = 1000;
std::atomic<int> overflows{0};

const os::System& system_that_counts_overflows() {
  static const os::System counting = [] {
    os::System system = os::real_system();
    system.sigtimedwait = [](const sigset_t* set, siginfo_t* info, const timespec* timeout) {
      const int number = os::real_system().sigtimedwait(set, info, timeout);
      if (number == SIGIO) ++overflows;
      return number;
    };
    return system;
  }();
  return counting;
}

// P-31
std::atomic<int> armings_to_fail{0};

// Arming allocates in the kernel. The first thread that waits takes every descriptor over and
// cannot report an error.
TEST(rt_signals_arming, without_memory_is_tried_again) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.fcntl = [](int fd, int command, long argument) {
      if (command == F_SETFL && (argument & O_ASYNC) != 0 && armings_to_fail-- > 0) {
        return errno = ENOMEM, -1;
      }
      return os::real_system().fcntl(fd, command, argument);
    };
    return made;
  }();
  armings_to_fail = 0;
  WaitOptions options;
  options.system = &system;
  const auto strategy = opened(options);
  ASSERT_NE(strategy, nullptr);
  const SocketPair pair;
  add(*strategy, pair);
  armings_to_fail = 3;
  wait(*strategy);
  pair.make_readable();
  EXPECT_TRUE(wait_for(*strategy, 1).contains(1));
  EXPECT_LE(armings_to_fail, 0);
}

// A failed add leaves the descriptor as it was: otherwise the program's own O_ASYNC would send the
// strategy's signal to the strategy's thread.
TEST(rt_signals_arming, that_fails_leaves_no_owner_and_no_signal) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.fcntl = [](int fd, int command, long argument) {
      if (command == F_SETFL && (argument & O_ASYNC) != 0) return errno = ENOMEM, -1;
      return os::real_system().fcntl(fd, command, argument);
    };
    return made;
  }();
  const auto strategy = opened({.system = &system});
  ASSERT_NE(strategy, nullptr);
  EXPECT_TRUE(wait(*strategy).empty());
  const SocketPair pair;
  const int fd = pair.ours.get();
  EXPECT_EQ(strategy->add(fd, Interest::in, token_of(1)), std::errc::not_enough_memory);
  EXPECT_EQ(::fcntl(fd, F_GETSIG), 0);
  EXPECT_EQ(::fcntl(fd, F_GETOWN), 0);
}

std::atomic<int> owners_to_fail{0};

// The descriptors still belonged to the last thread, which had ended, so no signal arrived any
// more: the new thread of a restarted proactor slept for ever.
TEST(rt_signals_thread, that_cannot_take_a_descriptor_over_tries_again) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.fcntl = [](int fd, int command, long argument) {
      if (command == F_SETOWN_EX && owners_to_fail-- > 0) return errno = ENOMEM, -1;
      return os::real_system().fcntl(fd, command, argument);
    };
    return made;
  }();
  owners_to_fail = 0;
  const auto strategy = opened({.system = &system});
  ASSERT_NE(strategy, nullptr);
  const SocketPair first;
  const SocketPair second;
  add(*strategy, first, token_of(1));
  add(*strategy, second, token_of(2));
  std::thread([&] { EXPECT_TRUE(wait(*strategy).empty()); }).join();
  owners_to_fail = 3;
  EXPECT_TRUE(wait(*strategy).empty());
  first.make_readable();
  second.make_readable();
  EXPECT_EQ(wait_for(*strategy, 2), (std::set<std::uint32_t>{1, 2}));
  EXPECT_LE(owners_to_fail, 0);
  // From then on all of them belong to this thread.
  EXPECT_EQ(first.drain() + second.drain(), 2);
  EXPECT_TRUE(wait(*strategy).empty());
  second.make_readable();
  EXPECT_EQ(wait_for(*strategy, 1), (std::set<std::uint32_t>{2}));
}

std::atomic<int> polls_to_spare{-1};

// The poll of new descriptors is one call, the wait beside silent files is the next.
TEST(rt_signals_look, is_not_forgotten_when_the_wait_fails) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.ppoll = [](pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
      if (polls_to_spare >= 0 && polls_to_spare-- == 0) return errno = ENOMEM, -1;
      return os::real_system().ppoll(list, count, timeout, mask);
    };
    return made;
  }();
  polls_to_spare = -1;
  WaitOptions options;
  options.system = &system;
  const auto strategy = opened(options);
  ASSERT_NE(strategy, nullptr);
  const Fd silent{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  EXPECT_FALSE(strategy->add(silent.get(), Interest::in, token_of(2)));
  const SocketPair pair;
  pair.make_readable();
  add(*strategy, pair);
  polls_to_spare = 1;
  std::set<std::uint32_t> seen;
  for (const Report& report : wait(*strategy)) seen.insert(report.token.index);
  EXPECT_TRUE(seen.contains(1));
}

TEST(rt_signals_overflow, loses_nothing) {
  if (!allow_descriptors(2 * many)) GTEST_SKIP() << "RLIMIT_NOFILE";
  const ShortQueue short_queue;
  auto strategy = opened({.system = &system_that_counts_overflows()});
  const std::vector<SocketPair> pairs(many);
  for (std::uint32_t i = 0; i < many; ++i) add(*strategy, pairs[i], token_of(i));
  EXPECT_TRUE(wait(*strategy).empty());
  overflows = 0;
  for (int round = 0; round < 3; ++round) {
    for (const SocketPair& pair : pairs) pair.make_readable();
    EXPECT_EQ(wait_for(*strategy, many).size(), many);
    for (const SocketPair& pair : pairs) EXPECT_EQ(pair.drain(), 1);
  }
  EXPECT_GE(overflows, 3);
}

// Signals come while others are taken and while all are polled.
TEST(rt_signals_overflow, loses_nothing_beside_a_wait) {
  if (!allow_descriptors(2 * many)) GTEST_SKIP() << "RLIMIT_NOFILE";
  const ShortQueue short_queue;
  auto strategy = opened();
  const std::vector<SocketPair> pairs(many);
  for (std::uint32_t i = 0; i < many; ++i) add(*strategy, pairs[i], token_of(i));
  EXPECT_TRUE(wait(*strategy).empty());
  std::thread writer([&] {
    for (const SocketPair& pair : pairs) pair.make_readable();
  });
  EXPECT_EQ(wait_for(*strategy, many).size(), many);
  writer.join();
}

TEST(rt_signals_overflow, loses_no_operation) {
  if (!allow_descriptors(2 * many)) GTEST_SKIP() << "RLIMIT_NOFILE";
  const ShortQueue short_queue;
  for (const Mode mode : {Mode::dedicated, Mode::per_thread}) {
    SCOPED_TRACE(to_string(mode));
    Config config;
    config.processors.push_back(
        {.engine = "emulated", .wait = "rt_signals", .mode = mode, .threads = 1});
    auto proactor = Proactor::open(config);
    ASSERT_TRUE(proactor.has_value()) << proactor.error().reason;
    std::deque<SocketPair> pairs(many);
    std::deque<Operation> reads(many);
    std::vector<char> bytes(many);
    for (std::uint32_t i = 0; i < many; ++i) {
      auto handle = (*proactor)->adopt(pairs[i].ours.release(), HandleKind::stream_socket);
      ASSERT_TRUE(handle.has_value());
      reads[i].prepare(OperationKind::read_stream, *handle);
      reads[i].set_buffer(MutableBuffer{&bytes[i], 1});
      ASSERT_FALSE((*proactor)->start(reads[i]));
    }
    (*proactor)->poll();
    std::thread writer([&] {
      for (const SocketPair& pair : pairs) pair.make_readable();
    });
    const Deadline limit = at_last();
    const auto pending = [&] {
      return std::any_of(reads.begin(), reads.end(), [](auto& read) { return read.is_pending(); });
    };
    while (pending() && is_ahead(limit)) {
      (*proactor)->handle_events(Deadline::after(std::chrono::milliseconds{100}));
    }
    writer.join();
    EXPECT_FALSE(pending());
    for (const Operation& read : reads) EXPECT_EQ(read.bytes(), 1U);
  }
}

// -- stale signals --------------------------------------------------------------------------------

TEST(rt_signals_stale, are_at_worst_hints_for_the_next_of_that_number) {
  auto strategy = opened();
  for (std::uint32_t round = 1; round <= 20; ++round) {
    const SocketPair first;
    const int number = first.ours.get();
    add(*strategy, first, token_of(1, 2 * round));
    EXPECT_TRUE(wait(*strategy).empty());
    for (int i = 0; i < 5; ++i) first.make_readable();  // queued, and not taken
    EXPECT_FALSE(strategy->remove(number));

    SocketPair second;
    const Fd kept(::dup(number));  // the first one lives on
    ASSERT_EQ(::dup3(second.ours.get(), number, O_CLOEXEC), number);
    ASSERT_FALSE(strategy->add(number, Interest::in, token_of(1, 2 * round + 1)));
    first.make_readable();
    for (const Report& report : wait(*strategy)) {
      EXPECT_EQ(report.token, token_of(1, 2 * round + 1));
    }
    EXPECT_TRUE(wait(*strategy).empty()) << "nothing new comes from the first one";
    second.make_readable();
    EXPECT_EQ(wait_for(*strategy, 1).size(), 1U);
    EXPECT_FALSE(strategy->remove(number));
  }
}

// By sigqueue, for example. Its number may be that of the strategy by chance.
TEST(rt_signals_program, may_send_the_signal_without_a_report) {
  const int number = SIGRTMIN + 5;
  auto strategy = opened({.signal_number = number});
  const SocketPair pair;
  add(*strategy, pair);
  EXPECT_TRUE(wait(*strategy).empty());
  siginfo_t info{};
  info.si_signo = number;
  info.si_code = SI_QUEUE;
  info.si_fd = pair.ours.get();
  info.si_band = POLLIN;
  const auto process = static_cast<pid_t>(::syscall(SYS_getpid));
  const auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
  ASSERT_EQ(::syscall(SYS_rt_tgsigqueueinfo, process, thread, number, &info), 0);
  EXPECT_TRUE(wait(*strategy).empty());
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, number), 0) << "it was taken";
  pair.make_readable();
  EXPECT_EQ(wait(*strategy).size(), 1U);
}

// One signal for each event, and one report.
TEST(rt_signals_stale, are_one_report_together) {
  auto strategy = opened();
  SocketPair pair;
  add(*strategy, pair);
  EXPECT_TRUE(wait(*strategy).empty());
  for (int i = 0; i < 3; ++i) pair.make_readable();
  EXPECT_EQ(wait(*strategy).size(), 1U);
}

TEST(rt_signals_stale, belong_to_no_handle_when_the_number_is_gone) {
  auto strategy = opened();
  SocketPair pair;
  add(*strategy, pair);
  EXPECT_TRUE(wait(*strategy).empty());
  pair.make_readable();
  EXPECT_FALSE(strategy->remove(pair.ours.get()));
  EXPECT_TRUE(wait(*strategy).empty());
}

// -- room -----------------------------------------------------------------------------------------

// No write fails for lack of room, so the kernel sends no signal.
TEST(rt_signals_room, is_reported_to_a_thread_that_only_waits) {
  const auto strategy = opened();
  const SocketPair pair;
  const char block[512] = {};
  for (pollfd room{pair.ours.get(), POLLOUT, 0}; ::poll(&room, 1, 0) > 0;) {
    ASSERT_EQ(::write(pair.ours.get(), block, sizeof block), 512);
  }
  ASSERT_FALSE(strategy->add(pair.ours.get(), Interest::in, token_of(1)));
  ASSERT_FALSE(strategy->modify(pair.ours.get(), Interest::out, token_of(2)));
  wait(*strategy);
  EXPECT_TRUE(wait(*strategy).empty());
  char received[4096];
  while (::read(pair.peer.get(), received, sizeof received) > 0) {
  }
  EXPECT_EQ(wait_for(*strategy, 1), (std::set<std::uint32_t>{2}));
  ASSERT_FALSE(strategy->modify(pair.ours.get(), Interest::in, token_of(3)));
  pair.make_readable();
  EXPECT_EQ(wait_for(*strategy, 1), (std::set<std::uint32_t>{3}));
  EXPECT_FALSE(strategy->remove(pair.ours.get()));
  pair.make_readable();
  EXPECT_TRUE(wait(*strategy).empty());
}

// The peer's reads of another socket's datagrams send no signal here.
TEST(rt_signals_room, of_a_peer_that_another_socket_has_filled_is_told) {
  const auto strategy = opened();
  const auto made = [] { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); };
  const Fd peer(made());
  const Fd ours(made());
  const Fd other(made());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(peer.get(), name, sizeof(sa_family_t)), 0);  // the system chooses it
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(peer.get(), name, &size), 0);
  for (const Fd* sender : {&ours, &other}) {
    ASSERT_EQ(::connect(sender->get(), name, size), 0);
  }
  while (::write(other.get(), "x", 1) == 1) {
  }
  ASSERT_FALSE(strategy->add(ours.get(), Interest::out, token_of(1)));
  EXPECT_EQ(wait_for(*strategy, 1).size(), 1U) << "so that the caller tries to write";
  EXPECT_TRUE(wait(*strategy).empty());
  char received = 0;
  while (::read(peer.get(), &received, 1) == 1) {
  }
  EXPECT_EQ(wait_for(*strategy, 1), (std::set<std::uint32_t>{1}));
}

// The kernel reports it only after a failed write since the descriptor was armed.
TEST(rt_signals_room, is_reported_where_there_was_none_before) {
  for (const bool waited : {false, true}) {
    auto strategy = opened();
    if (waited) wait(*strategy);
    const SocketPair pair;
    pair.fill();
    ASSERT_FALSE(strategy->add(pair.ours.get(), Interest::out, token_of(1)));
    EXPECT_EQ(wait_for(*strategy, 1).size(), 1U) << "so that the caller tries to write";
    EXPECT_EQ(::write(pair.ours.get(), "x", 1), -1);
    EXPECT_TRUE(wait(*strategy).empty());
    char block[4096];
    while (::read(pair.peer.get(), block, sizeof block) > 0) {
    }
    EXPECT_EQ(wait_for(*strategy, 1).size(), 1U);
  }
}

// A descriptor that is watched no longer ends no wait, and is not kept.
TEST(rt_signals_room, of_a_removed_descriptor_is_forgotten) {
  static int watched;
  os::System system = os::real_system();
  system.epoll_ctl = [](int set, int operation, int fd, epoll_event* event) {
    const int answer = os::real_system().epoll_ctl(set, operation, fd, event);
    if (answer == 0 && operation == EPOLL_CTL_ADD) ++watched;
    if (answer == 0 && operation == EPOLL_CTL_DEL) --watched;
    return answer;
  };
  watched = 0;
  const auto strategy = opened({.system = &system});
  const SocketPair pair;
  ASSERT_FALSE(strategy->add(pair.ours.get(), Interest::out, token_of(1)));
  EXPECT_EQ(watched, 1);
  EXPECT_FALSE(strategy->modify(pair.ours.get(), Interest::in, token_of(1)));
  EXPECT_EQ(watched, 0);
  EXPECT_FALSE(strategy->modify(pair.ours.get(), Interest::both, token_of(1)));
  EXPECT_EQ(watched, 1);
  EXPECT_FALSE(strategy->remove(pair.ours.get()));
  EXPECT_EQ(watched, 0);
  const Fd other(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  ASSERT_FALSE(strategy->add(other.get(), Interest::out, token_of(2)));
  EXPECT_EQ(watched, 0) << "it signals all room";
}

// -- silent files ---------------------------------------------------------------------------------

TEST(rt_signals_silent, are_watched_beside) {
  auto strategy = opened();
  const Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  const SocketPair pair;
  ASSERT_FALSE(strategy->add(event.get(), Interest::in, token_of(1)));
  add(*strategy, pair, token_of(2));
  EXPECT_TRUE(wait(*strategy).empty());
  std::uint64_t value = 1;
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(::write(event.get(), &value, sizeof value), 8);
    pair.make_readable();
    EXPECT_EQ(wait_for(*strategy, 2).size(), 2U);
    EXPECT_TRUE(wait(*strategy).empty()) << "an edge";
    ASSERT_EQ(::read(event.get(), &value, sizeof value), 8);
    EXPECT_EQ(pair.drain(), 1);
  }
  ASSERT_EQ(::write(event.get(), &value, sizeof value), 8);
  EXPECT_FALSE(strategy->remove(event.get()));
  EXPECT_TRUE(wait(*strategy).empty());
  ASSERT_FALSE(strategy->add(event.get(), Interest::in, token_of(3)));
  EXPECT_EQ(wait_for(*strategy, 1), (std::set<std::uint32_t>{3}));
}

TEST(rt_signals_silent, can_be_asked_for_something_else) {
  auto strategy = opened();
  const Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  ASSERT_FALSE(strategy->add(event.get(), Interest::in, token_of(1)));
  EXPECT_TRUE(wait(*strategy).empty());
  ASSERT_FALSE(strategy->modify(event.get(), Interest::out, token_of(2)));
  const auto reports = wait(*strategy);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_of(2));
  EXPECT_EQ(reports[0].ready, Interest::out);
}

// A pipe that is full and loses its reader has an error, and no room that would be told.
TEST(rt_signals_silent, report_an_error_to_writers) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  Fd out{ends[0]};
  const Fd in{ends[1]};
  while (::write(in.get(), &ends, sizeof(ends)) > 0) {
  }
  demux::SilentFiles files{os::real_system()};
  ASSERT_FALSE(files.add(in.get(), Interest::out));
  std::array<demux::SilentFiles::Ready, 2> ready{};
  EXPECT_EQ(files.take(ready), 0U);
  out.close();
  ASSERT_EQ(files.take(ready), 1U);
  EXPECT_EQ(ready[0].fd, in.get());
  EXPECT_TRUE(any(ready[0].what & Interest::out));
  files.close();
}

TEST(rt_signals_silent, leave_no_descriptor) {
  const auto count = [] {
    const std::filesystem::directory_iterator all{"/proc/self/fd"};
    return std::distance(begin(all), end(all));
  };
  const Fd silent(::eventfd(0, EFD_CLOEXEC));
  const auto before = count();
  {
    const auto strategy = opened();
    EXPECT_FALSE(strategy->add(silent.get(), Interest::in, token_of(1)));
    EXPECT_GT(count(), before);
  }
  EXPECT_EQ(count(), before);
}

TEST(rt_signals_silent, report_urgent_data) {
  os::System system = os::real_system();
  system.epoll_pwait = [](int, epoll_event* events, int, int, const sigset_t*) {
    events[0].events = EPOLLPRI;
    events[0].data.fd = 5;
    return 1;
  };
  demux::SilentFiles files{system};
  std::array<demux::SilentFiles::Ready, 2> ready;
  ASSERT_EQ(files.take(ready), 1U);
  EXPECT_EQ(ready[0].fd, 5);
  EXPECT_EQ(ready[0].what, Interest::urgent);
}

// -- the thread that waits ------------------------------------------------------------------------

TEST(rt_signals_thread, that_ends_is_replaced) {
  auto strategy = opened();
  const SocketPair before;
  const SocketPair meanwhile;
  const SocketPair after;
  add(*strategy, before, token_of(1));
  std::thread([&] { EXPECT_TRUE(wait(*strategy).empty()); }).join();
  // None of these is reported.
  before.make_readable();
  add(*strategy, meanwhile, token_of(2));
  meanwhile.make_readable();
  EXPECT_EQ(wait_for(*strategy, 2), (std::set<std::uint32_t>{1, 2}));
  add(*strategy, after, token_of(3));
  EXPECT_TRUE(wait(*strategy).empty());
  after.make_readable();
  EXPECT_EQ(wait_for(*strategy, 1), (std::set<std::uint32_t>{3}));
}

TEST(rt_signals_thread, that_leaves_is_replaced) {
  auto strategy = opened();
  const SocketPair pair;
  add(*strategy, pair);
  EXPECT_TRUE(wait(*strategy).empty());
  for (int round = 0; round < 5; ++round) {
    std::thread([&] {
      pair.make_readable();
      EXPECT_EQ(wait_for(*strategy, 1).size(), 1U);
      EXPECT_EQ(pair.drain(), 1);
    }).join();
    pair.make_readable();
    EXPECT_EQ(wait_for(*strategy, 1).size(), 1U);
    EXPECT_EQ(pair.drain(), 1);
  }
}

// Each takes the other's signals, because they share the number.
TEST(rt_signals_thread, may_wait_for_two) {
  auto first = opened();
  auto second = opened();
  const SocketPair a;
  const SocketPair b;
  add(*first, a, token_of(1));
  add(*second, b, token_of(2));
  EXPECT_TRUE(wait(*first).empty());
  EXPECT_TRUE(wait(*second).empty());
  for (int round = 0; round < 3; ++round) {
    a.make_readable();
    b.make_readable();
    EXPECT_EQ(wait_for(*second, 1), (std::set<std::uint32_t>{2}));
    EXPECT_EQ(wait_for(*first, 1), (std::set<std::uint32_t>{1}));
    EXPECT_EQ(a.drain() + b.drain(), 2);
  }
}

TEST(rt_signals_thread, has_its_mask_back_when_the_strategy_ends) {
  const std::set<int> before = blocked_here();
  auto strategy = opened();
  const SocketPair pair;
  add(*strategy, pair);
  EXPECT_EQ(blocked_here(), before) << "no thread waits yet";
  EXPECT_TRUE(wait(*strategy).empty());
  EXPECT_EQ(blocked_here().size(), before.size() + 2);
  pair.make_readable();  // and the signal is pending
  EXPECT_FALSE(strategy->remove(pair.ours.get()));
  strategy.reset();
  EXPECT_EQ(blocked_here(), before);
}

// Blocked by the program after a first strategy had ended, with the same number.
TEST(rt_signals_thread, keeps_what_the_program_blocks_later) {
  const int number = SIGRTMIN + 5;
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, number);
  EXPECT_TRUE(wait(*opened({.signal_number = number})).empty());
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &own, nullptr), 0);
  const std::set<int> before = blocked_here();
  EXPECT_TRUE(wait(*opened({.signal_number = number})).empty());
  EXPECT_EQ(blocked_here(), before);
  ASSERT_EQ(::pthread_sigmask(SIG_UNBLOCK, &own, nullptr), 0);
}

TEST(rt_signals_thread, that_unblocks_everything_loses_nothing) {
  auto strategy = opened();
  const SocketPair pair;
  add(*strategy, pair);
  EXPECT_TRUE(wait(*strategy).empty());
  sigset_t none;
  sigset_t before;
  sigemptyset(&none);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &none, &before), 0);
  pair.make_readable();  // delivered, not taken
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  EXPECT_EQ(wait_for(*strategy, 1).size(), 1U);
}

// -- the program's own ----------------------------------------------------------------------------

TEST(rt_signals_program, keeps_its_handlers) {
  std::deque<ProgramHandler> handlers;
  for (const int number : {SIGUSR1, SIGURG, SIGRTMIN, SIGRTMAX}) handlers.emplace_back(number);
  const std::set<int> before = blocked_here();
  {
    auto strategy = opened();
    const SocketPair pair;
    add(*strategy, pair);
    EXPECT_TRUE(wait(*strategy).empty());
    for (const int number : {SIGUSR1, SIGURG, SIGRTMIN, SIGRTMAX}) {
      handled = 0;
      ASSERT_EQ(::raise(number), 0);
      EXPECT_TRUE(wait(*strategy).empty());
      EXPECT_EQ(handled, 1) << number;
    }
    pair.make_readable();
    EXPECT_EQ(wait_for(*strategy, 1).size(), 1U);
  }
  for (const ProgramHandler& handler : handlers) EXPECT_TRUE(handler.stands());
  EXPECT_EQ(blocked_here(), before);
}

TEST(rt_signals_program, keeps_its_numbers) {
  const ProgramHandler handler(SIGRTMIN + 4);
  auto strategy = open({.signal_number = SIGRTMIN + 4});
  ASSERT_FALSE(strategy.has_value());
  EXPECT_EQ(strategy.error().code, errc::bad_configuration);
  EXPECT_NE(strategy.error().reason.find(std::to_string(SIGRTMIN + 4)), std::string::npos);
  EXPECT_TRUE(handler.stands());
  EXPECT_TRUE(open({.signal_number = SIGRTMIN + 5}).has_value());
  EXPECT_FALSE(open({.signal_number = SIGUSR2}).has_value()) << "it would not queue up";
}

TEST(rt_signals_program, keeps_handlers_that_want_to_know_more) {
  struct sigaction action{};
  action.sa_sigaction = [](int, siginfo_t*, void*) {};
  action.sa_flags = SA_SIGINFO;
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGRTMIN + 4, &action, &before), 0);
  EXPECT_FALSE(open({.signal_number = SIGRTMIN + 4}).has_value());
  EXPECT_EQ(::sigaction(SIGRTMIN + 4, &before, nullptr), 0);
}

TEST(rt_signals_program, is_told_which_numbers_there_are) {
  for (const int number : {-1, 1, SIGRTMAX + 1}) {
    const auto strategy = open({.signal_number = number});
    ASSERT_FALSE(strategy.has_value()) << number;
    EXPECT_EQ(strategy.error().code, errc::bad_configuration);
  }
}

// Its number, but no readiness.
TEST(rt_signals_program, may_send_the_number_by_hand) {
  auto strategy = opened({.signal_number = SIGRTMIN + 5});
  const SocketPair pair;
  add(*strategy, pair);
  EXPECT_TRUE(wait(*strategy).empty());
  ASSERT_EQ(::pthread_kill(::pthread_self(), SIGRTMIN + 5), 0);
  EXPECT_TRUE(wait(*strategy).empty());
  pair.make_readable();
  EXPECT_EQ(wait_for(*strategy, 1).size(), 1U);
}

TEST(rt_signals_program, keeps_sigio) {
  const ProgramHandler handler(SIGIO);
  auto strategy = open();
  ASSERT_FALSE(strategy.has_value());
  EXPECT_EQ(strategy.error().code, errc::engine_unavailable);
  EXPECT_NE(strategy.error().reason.find("SIGIO"), std::string::npos);
  EXPECT_TRUE(handler.stands());
}

// The program gets the signals of descriptors that it has made asynchronous itself.
TEST(rt_signals_program, keeps_its_descriptors) {
  auto strategy = opened();
  const SocketPair pair;
  const int fd = pair.ours.get();
  const int flags = ::fcntl(fd, F_GETFL);
  ASSERT_EQ(::fcntl(fd, F_SETFL, flags | O_ASYNC), 0);
  EXPECT_EQ(strategy->add(fd, Interest::in, token_of(1)), std::errc::device_or_resource_busy);
  EXPECT_EQ(::fcntl(fd, F_GETFL), flags | O_ASYNC);
  ASSERT_EQ(::fcntl(fd, F_SETFL, flags), 0);

  EXPECT_TRUE(wait(*strategy).empty());
  EXPECT_FALSE(strategy->add(fd, Interest::in, token_of(1)));
  EXPECT_EQ(::fcntl(fd, F_GETFL), flags | O_ASYNC);
  const Fd duplicate(::dup(fd));
  EXPECT_EQ(strategy->add(duplicate.get(), Interest::in, token_of(2)),
            std::errc::device_or_resource_busy);
  EXPECT_FALSE(strategy->remove(fd));
  EXPECT_EQ(::fcntl(fd, F_GETFL), flags);
  EXPECT_EQ(::fcntl(fd, F_GETSIG), 0);
  EXPECT_EQ(::fcntl(fd, F_GETOWN), 0);
}

TEST(rt_signals_program, is_told_what_cannot_be_watched) {
  for (const bool waited : {false, true}) {
    auto strategy = opened();
    if (waited) wait(*strategy);
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const Fd closed(1000);
    EXPECT_EQ(strategy->add(null.get(), Interest::in, token_of(2)),
              std::errc::operation_not_permitted);
    EXPECT_EQ(strategy->add(closed.get(), Interest::in, token_of(3)),
              std::errc::bad_file_descriptor);
  }
}

// -- the configuration ----------------------------------------------------------------------------

Config with(Mode mode, const std::string& interrupt = "auto") {
  Config config;
  config.processors.push_back({.engine = "emulated",
                               .wait = "rt_signals",
                               .interrupt = interrupt,
                               .mode = mode,
                               .threads = 1});
  return config;
}

TEST(rt_signals_mode, shared_is_refused_with_advice) {
  Config config = with(Mode::shared);
  auto replaced = Proactor::open(config);
  for (const auto& engine : registry().engines()) {
    if (engine.name != "emulated") config.forbid.push_back(engine.name);
  }
  auto refused = Proactor::open(config);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, errc::bad_configuration);
  const std::string text = replaced ? (*replaced)->explain() : replaced.error().reason;
  for (const char* word : {"rt_signals", "mode=dedicated", "mode=per_thread"}) {
    EXPECT_NE(refused.error().reason.find(word), std::string::npos) << refused.error().reason;
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }
}

TEST(rt_signals_mode, dedicated_and_per_thread_take_it) {
  for (const Mode mode : {Mode::dedicated, Mode::per_thread}) {
    for (const auto& [interrupt, chosen] :
         {std::pair{"eventfd", "interrupt=eventfd"}, std::pair{"pipe", "interrupt=pipe"},
          std::pair{"signal", "interrupt=signal"}, std::pair{"auto", "interrupt=eventfd"}}) {
      auto proactor = Proactor::open(with(mode, interrupt));
      ASSERT_TRUE(proactor.has_value()) << proactor.error().reason;
      const std::string text = (*proactor)->explain();
      EXPECT_NE(text.find("wait=rt_signals"), std::string::npos) << text;
      EXPECT_NE(text.find("leader=steady"), std::string::npos) << text;
      EXPECT_NE(text.find(chosen), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace baton::test
