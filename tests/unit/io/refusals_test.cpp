// The results of I/O objects when the system refuses a call, when the proactor has no room for
// another handle, and when they are closed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "baton/acceptor.hpp"
#include "baton/config.hpp"
#include "baton/connector.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/file.hpp"
#include "baton/pipe.hpp"
#include "baton/proactor.hpp"
#include "baton/signal_set.hpp"
#include "baton/socket_options.hpp"
#include "baton/stream_socket.hpp"
#include "os/system.hpp"
#include "support/patience.hpp"

namespace baton {
namespace {

using namespace std::chrono_literals;

/// Refused calls: the n-th setsockopt, and every call of the others.
struct Refused {
  int options = 0;
  int opens = 0;  // of those that would not wait
  bool every_open = false;
  bool interrupts_open = false;  // once
  bool getsockname = false;
  bool listen = false;
  int backlog = 0;  // of the last listen
  bool fstat = false;
  bool signalfd = false;
  bool thread_sigmask = false;
  int made = 0;         // descriptors
  int inheritable = 0;  // those that another thread's fork and exec would pass on
};
Refused refused;

void note_made(bool closes_at_exec) {
  ++refused.made;
  if (!closes_at_exec) ++refused.inheritable;
}

int refuse() {
  errno = EPERM;
  return -1;
}

const os::System& refusing_system() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.setsockopt = [](int fd, int level, int name, const void* value, socklen_t size) {
      if (refused.options > 0 && --refused.options == 0) return refuse();
      return os::real_system().setsockopt(fd, level, name, value, size);
    };
    made.pipe2 = [](int fds[2], int flags) {
      note_made((flags & O_CLOEXEC) != 0);
      return os::real_system().pipe2(fds, flags);
    };
    made.socket = [](int domain, int type, int protocol) {
      note_made((type & SOCK_CLOEXEC) != 0);
      return os::real_system().socket(domain, type, protocol);
    };
    made.socketpair = [](int domain, int type, int protocol, int fds[2]) {
      note_made((type & SOCK_CLOEXEC) != 0);
      return os::real_system().socketpair(domain, type, protocol, fds);
    };
    made.open = [](const char* path, int flags, mode_t mode) {
      note_made((flags & O_CLOEXEC) != 0);
      if (std::exchange(refused.interrupts_open, false)) {
        errno = EINTR;
        return -1;
      }
      if (refused.every_open) {
        errno = EAGAIN;
        return -1;
      }
      if (refused.opens == 0 || (flags & O_NONBLOCK) == 0) {
        return os::real_system().open(path, flags, mode);
      }
      errno = --refused.opens > 0 ? EAGAIN : EPERM;
      return -1;
    };
    made.getsockname = [](int fd, sockaddr* address, socklen_t* size) {
      return refused.getsockname ? refuse() : os::real_system().getsockname(fd, address, size);
    };
    made.listen = [](int fd, int backlog) {
      refused.backlog = backlog;
      return refused.listen ? refuse() : os::real_system().listen(fd, backlog);
    };
    made.fstat = [](int fd, struct stat* out) {
      return refused.fstat ? refuse() : os::real_system().fstat(fd, out);
    };
    made.signalfd = [](int fd, const sigset_t* set, int flags) {
      note_made((flags & SFD_CLOEXEC) != 0);
      return refused.signalfd ? refuse() : os::real_system().signalfd(fd, set, flags);
    };
    made.thread_sigmask = [](int how, const sigset_t* set, sigset_t* old) {
      return refused.thread_sigmask ? EPERM : os::real_system().thread_sigmask(how, set, old);
    };
    return made;
  }();
  return table;
}

/// Rises when a descriptor is leaked.
int lowest_free_descriptor() {
  const int lowest = ::dup(0);
  ::close(lowest);
  return lowest;
}

class Refusals : public testing::Test {
 protected:
  Refusals() { refused = {}; }
  ~Refusals() override { refused = {}; }

  static Config config(std::uint32_t handles) {
    Config made = Config::parse("engine=emulated,mode=shared", Config{}).value();
    made.system = &refusing_system();
    made.handles_max = handles;
    return made;
  }
  /// Refuses each of `count` options in turn. The open must report it and leak no descriptor.
  template <class Open>
  void expect_each_option_told(int count, Open open) {
    for (int nth = 1; nth <= count; ++nth) {
      refused.options = nth;
      const int before = lowest_free_descriptor();
      EXPECT_EQ(open(), std::errc::operation_not_permitted) << nth;
      EXPECT_EQ(lowest_free_descriptor(), before) << nth;
    }
    refused.options = count + 1;
    EXPECT_FALSE(open());
    EXPECT_EQ(refused.options, 1) << "it sets that many";
    refused.options = 0;
  }

  /// Handles close behind their objects.
  static void wait_for_handles(Proactor& proactor, std::size_t count) {
    const Deadline limit = test::at_last();
    while (proactor.statistics().handles != count && test::is_ahead(limit)) proactor.poll();
    EXPECT_EQ(proactor.statistics().handles, count);
  }

  Proactor proactor_{config(16)};
};

template <class T>
std::error_code error_of(const Result<T>& result) {
  return result ? std::error_code{} : result.error();
}

bool has_ipv6() {
  const int probe = ::socket(AF_INET6, SOCK_STREAM, 0);
  if (probe >= 0) ::close(probe);
  Proactor proactor;
  return probe >= 0 && Acceptor::listen(proactor, Endpoint::loopback_v6(0)).has_value();
}

TEST_F(Refusals, of_options_of_a_listener) {
  ListenOptions options;
  options.reuse_port = true;
  const auto over_ipv4 = [&] {
    return error_of(Acceptor::listen(proactor_, Endpoint::loopback(0), options));
  };
  expect_each_option_told(2, over_ipv4);
  options.reuse_address = options.reuse_port = false;
  expect_each_option_told(0, over_ipv4);
  if (!has_ipv6()) GTEST_SKIP() << "the rest needs IPv6, which is not here";
  for (const bool only : {false, true}) {
    options.v6_only = only;
    expect_each_option_told(1, [&] {
      auto acceptor = Acceptor::listen(proactor_, Endpoint::parse("[::]:0").value(), options);
      if (acceptor) {
        EXPECT_EQ(acceptor->get_option<option::V6Only>().value().enabled, only);
      }
      return error_of(acceptor);
    });
  }
}

// An open makes the file, and truncates it. Refused, it does neither.
TEST_F(Refusals, of_the_proactor_leave_a_file_as_it_is) {
  const std::string name = "/tmp/baton_refused_" + std::to_string(::getpid());
  const auto open = [](Proactor& proactor, const std::string& path, Home home = {}) {
    const FileFlags flags = FileFlags::write | FileFlags::create | FileFlags::truncate;
    return error_of(File::open(proactor, path, flags, {.home = home}));
  };
  std::FILE* const file = std::fopen(name.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("text", file);
  std::fclose(file);
  const auto expect_untouched = [&] {
    EXPECT_EQ(std::filesystem::file_size(name), 4U);
    EXPECT_FALSE(std::filesystem::exists(name + "_new"));
  };
  for (const char* end : {"", "_new"}) {
    EXPECT_EQ(open(proactor_, name + end, {.processor = 7}), errc::bad_configuration);
    Proactor full{config(1)};
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::close(ends[1]);
    const auto pipe = Pipe::adopt(full, ends[0]);
    ASSERT_TRUE(pipe.has_value()) << pipe.error().message();
    EXPECT_EQ(open(full, name + end), errc::no_free_handles);
    proactor_.stop();
    EXPECT_EQ(open(proactor_, name + end), errc::stopped);
    proactor_.restart();
    expect_untouched();
  }
  EXPECT_FALSE(open(proactor_, name));
  EXPECT_EQ(std::filesystem::file_size(name), 0U);
  ::unlink(name.c_str());
}

// What another thread does while the file is opened.
TEST_F(Refusals, never_come_after_a_file_was_truncated) {
  static Proactor* proactor = nullptr;
  static void (*meanwhile)() = nullptr;
  static const os::System system = [] {
    os::System made = os::real_system();
    made.open = [](const char* path, int flags, mode_t mode) {
      const int fd = os::real_system().open(path, flags, mode);
      meanwhile();
      return fd;
    };
    return made;
  }();
  static std::error_code of_the_pipe;
  const auto take_the_place = [] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::close(ends[1]);
    of_the_pipe = error_of(Pipe::adopt(*proactor, ends[0]));
    ::close(ends[0]);
  };
  const auto stop = [] { proactor->stop(); };
  for (void (*const what)() : {+take_the_place, +stop}) {
    Config one = config(1);
    one.system = &system;
    Proactor own{one};
    proactor = &own;
    meanwhile = what;
    const auto file = File::open(own, "/tmp", FileFlags::read);
    EXPECT_EQ(error_of(file), std::errc::is_a_directory);
    own.restart();
    EXPECT_FALSE(error_of(File::open(own, "/proc/self/exe", FileFlags::read)));
  }
  EXPECT_EQ(of_the_pipe, errc::no_free_handles);
}

TEST_F(Refusals, of_options_of_a_datagram_socket) {
  BindOptions options;
  options.reuse_address = options.reuse_port = true;
  expect_each_option_told(2, [&] {
    auto socket = DatagramSocket::bind(proactor_, Endpoint::loopback(0), options);
    if (socket) {
      EXPECT_TRUE(socket->get_option<option::ReusePort>().value().enabled);
    }
    return error_of(socket);
  });
  const Endpoint local =
      Endpoint::unix_path("@baton_refusals_test_" + std::to_string(::getpid())).value();
  expect_each_option_told(0, [&] {  // they mean nothing there
    return error_of(DatagramSocket::bind(proactor_, local, options));
  });
  EXPECT_EQ(error_of(DatagramSocket::open(proactor_, AddressFamily::unspecified)),
            std::errc::address_family_not_supported);
  if (!has_ipv6()) GTEST_SKIP() << "the rest needs IPv6, which is not here";
  options = {};
  for (const bool only : {false, true}) {
    options.v6_only = only;
    expect_each_option_told(1, [&] {
      auto socket = DatagramSocket::bind(proactor_, Endpoint::any_v6(0), options);
      if (socket) {
        EXPECT_EQ(socket->get_option<option::V6Only>().value().enabled, only);
      }
      return error_of(socket);
    });
  }
}

TEST_F(Refusals, of_no_flag_of_a_file) {
  const std::string path = testing::TempDir() + "baton_flags_test_" + std::to_string(::getpid());
  const auto flags_of = [&](FileFlags flags) {
    const auto file = File::open(proactor_, path, flags | FileFlags::create);
    if (!file) return -1;
    return ::fcntl(file->native(), F_GETFL) & (O_ACCMODE | O_APPEND | O_SYNC | O_NONBLOCK);
  };
  EXPECT_EQ(flags_of(FileFlags::read), O_RDONLY);
  EXPECT_EQ(flags_of(FileFlags::write), O_WRONLY);
  EXPECT_EQ(flags_of(FileFlags::read | FileFlags::append), O_RDWR | O_APPEND);
  EXPECT_EQ(flags_of(FileFlags::read_write | FileFlags::sync), O_RDWR | O_SYNC);
  EXPECT_EQ(flags_of(FileFlags::read_write | FileFlags::data_sync), O_RDWR | O_DSYNC);
  ASSERT_EQ(::truncate(path.c_str(), 5), 0);
  EXPECT_EQ(File::open(proactor_, path, FileFlags::write).value().size().value(), 5U);
  const auto emptied = File::open(proactor_, path, FileFlags::write | FileFlags::truncate);
  EXPECT_EQ(emptied.value().size().value(), 0U);
  std::remove(path.c_str());
}

TEST_F(Refusals, of_a_path_with_a_zero_byte) {
  const std::string path{"/proc/self/exe\0more", 19};
  EXPECT_EQ(error_of(File::open(proactor_, path, FileFlags::read)), std::errc::invalid_argument);
}

// A refused start leaves nothing to take, although the operation was complete before.
TEST_F(Refusals, of_a_connect_on_an_operation_that_was_used) {
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0)).value();
  Endpoint where = acceptor.local_endpoint().value();
  Connector connector{proactor_};
  Operation operation;
  ASSERT_FALSE(connector.connect(operation, where, [](Operation&) {}));
  while (operation.is_pending()) static_cast<void>(proactor_.run_one());
  const auto first = connector.take(operation);
  ASSERT_TRUE(first);
  proactor_.drain(Deadline::never());  // accepts are refused, connects are not
  proactor_.stop();
  EXPECT_EQ(connector.connect(operation, where), errc::stopped);
  EXPECT_EQ(error_of(connector.take(operation)), errc::handle_closed);
}

// An operation from the cache has no handler until it is given one, even if it had one before.
TEST_F(Refusals, of_nothing_when_a_cached_operation_has_no_handler) {
  int ran = 0;
  ASSERT_FALSE(proactor_.post([&ran] { ++ran; }));
  proactor_.poll();
  CachedOperation* const operation = proactor_.take_cached();
  ASSERT_NE(operation, nullptr);
  operation->prepare(OperationKind::user, nullptr, Operation::cached);
  ASSERT_FALSE(proactor_.start_cached(
      *operation, [this](Operation& cached) { return proactor_.post(cached); }));
  proactor_.poll();
  EXPECT_EQ(ran, 1);
}

TEST_F(Refusals, of_linger_where_it_means_nothing) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  auto no_socket = StreamSocket::adopt(proactor_, fds[0]).value();
  EXPECT_EQ(no_socket.set_option(option::Linger{true, 1s}), std::errc::not_a_socket);
  EXPECT_EQ(error_of(no_socket.get_option<option::Linger>()), std::errc::not_a_socket);
  ::close(fds[1]);
  auto ends = StreamSocket::pair(proactor_).value();
  EXPECT_FALSE(ends.first.set_option(option::Linger{false, 1s}));
  EXPECT_FALSE(ends.first.handle()->close_may_block()) << "it does not linger";
  // A number that is no option of the library never reaches the system.
  EXPECT_TRUE(
      detail::set_option(proactor_, *ends.first.handle(), static_cast<option::Name>(99), 1));
}

// Its handle is closed, and may be another socket's soon.
TEST_F(Refusals, of_a_connect_leave_no_handle_in_its_operation) {
  Config few = config(16);
  few.processors.front().operations_max = 1;
  Proactor proactor{std::move(few)};
  auto ends = StreamSocket::pair(proactor).value();
  Operation read;
  char byte = 0;
  ASSERT_FALSE(ends.first.read(read, MutableBuffer{&byte, 1}, [](Operation&) {}));
  Connector connector{proactor};
  Endpoint where = Endpoint::loopback(1);
  Operation connect;
  EXPECT_EQ(connector.connect(connect, where, [](Operation&) {}), errc::limit_reached);
  EXPECT_EQ(connect.handle(), nullptr);
  EXPECT_EQ(connector.take(connect).error(), errc::handle_closed);
  wait_for_handles(proactor, 2);
  proactor.finish();
}

TEST_F(Refusals, of_what_a_listener_of_each_lane_needs) {
  Config lanes = config(16);
  lanes.processors.front().mode = Mode::per_thread;
  lanes.processors.front().threads = 2;
  Proactor proactor{std::move(lanes)};
  refused.getsockname = true;
  EXPECT_EQ(error_of(Acceptor::listen_each_lane(proactor, Endpoint::loopback(0))),
            std::errc::operation_not_permitted);
  refused.getsockname = false;
  refused.options = 3;  // of the second
  EXPECT_EQ(error_of(Acceptor::listen_each_lane(proactor, Endpoint::loopback(0))),
            std::errc::operation_not_permitted);
  for (int i = 0; i < 2; ++i) {
    const auto acceptors = Acceptor::listen_each_lane(proactor, Endpoint::loopback(0)).value();
    ASSERT_EQ(acceptors.size(), 2U);
    for (std::uint32_t lane = 0; lane < 2; ++lane) {
      EXPECT_EQ(proactor.home_lane(*acceptors[lane].handle()), lane);
    }
    // A handle without a lane changes whose turn it is.
    EXPECT_TRUE(DatagramSocket::open(proactor, AddressFamily::ipv4));
  }
}

TEST_F(Refusals, of_what_was_accepted) {
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0)).value();
  bool done = false;
  ASSERT_FALSE(acceptor.accept([&](Operation& operation) {
    EXPECT_EQ(error_of(acceptor.take(operation)), std::errc::operation_canceled);
    done = true;
  }));
  EXPECT_EQ(acceptor.cancel(), CancelResult::requested);
  while (!done) proactor_.run_one();
}

TEST_F(Refusals, of_a_look_at_a_file) {
  const std::string path = testing::TempDir() + "baton_refusals_test_" + std::to_string(::getpid());
  const auto flags = FileFlags::create | FileFlags::append | FileFlags::sync | FileFlags::data_sync;
  auto file = File::open(proactor_, path, flags).value();
  refused.fstat = true;
  EXPECT_EQ(error_of(file.size()), std::errc::operation_not_permitted);
  EXPECT_EQ(error_of(File::open(proactor_, path, flags)), std::errc::operation_not_permitted);
  refused.fstat = false;
  EXPECT_EQ(file.size().value(), 0U);
  // Some file systems have no direct transfers, and say so.
  const auto direct = File::open(proactor_, path, FileFlags::read | FileFlags::direct);
  EXPECT_TRUE(direct || direct.error() == std::errc::invalid_argument) << direct.error().message();
  std::remove(path.c_str());
}

// A lease of another process: the open that does not wait is refused once, the other one waits.
TEST_F(Refusals, of_an_open_while_there_is_a_lease) {
  refused.opens = 3;
  const auto file = File::open(proactor_, "/proc/self/exe", FileFlags::read);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(refused.opens, 2);
}

TEST_F(Refusals, of_an_open_that_a_signal_interrupts_are_not_told) {
  refused.interrupts_open = true;
  EXPECT_TRUE(File::open(proactor_, "/proc/self/exe", FileFlags::read));
  EXPECT_FALSE(refused.interrupts_open);
}

TEST_F(Refusals, of_others_are_the_permissions_of_a_file) {
  const std::string path = testing::TempDir() + "baton_permissions_" + std::to_string(::getpid());
  const auto file =
      File::open(proactor_, path, FileFlags::create | FileFlags::write, {.permissions = 0600});
  ASSERT_TRUE(file) << file.error().message();
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  std::remove(path.c_str());
}

TEST_F(Refusals, of_connections_begin_at_the_backlog) {
  EXPECT_TRUE(Acceptor::listen(proactor_, Endpoint::loopback(0), {.backlog = 3}));
  EXPECT_EQ(refused.backlog, 3);
}

// From the first moment on: another thread may fork and start a program at any time.
TEST_F(Refusals, of_all_descriptors_to_a_program_that_is_started) {
  const auto pipe = Pipe::create(proactor_);
  const auto pair = StreamSocket::pair(proactor_);
  const auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0));
  const auto datagrams = DatagramSocket::open(proactor_, AddressFamily::ipv4);
  const auto file = File::open(proactor_, "/proc/self/exe", FileFlags::read);
  const auto signals = SignalSet::open(proactor_, {SIGUSR1});
  EXPECT_TRUE(pipe && pair && acceptor && datagrams && file && signals);
  EXPECT_EQ(refused.made, 6);
  EXPECT_EQ(refused.inheritable, 0);
}

// A file system with an answer of its own, such as one whose server is a program.
TEST_F(Refusals, of_an_open_that_waits_as_well) {
  refused.every_open = true;
  EXPECT_EQ(error_of(File::open(proactor_, "/proc/self/exe", FileFlags::read)),
            std::errc::resource_unavailable_try_again);
}

TEST_F(Refusals, of_signals) {
  EXPECT_EQ(SignalSet::block({SIGSTOP}), std::errc::invalid_argument);
  EXPECT_EQ(error_of(SignalSet::open(proactor_, {SIGUSR1, SIGSTOP})), std::errc::invalid_argument);
  refused.thread_sigmask = true;
  EXPECT_EQ(error_of(SignalSet::open(proactor_, {SIGUSR1})), std::errc::operation_not_permitted);
  refused.thread_sigmask = false;
  refused.signalfd = true;
  EXPECT_EQ(error_of(SignalSet::open(proactor_, {SIGUSR1})), std::errc::operation_not_permitted);
}

// If SIGINT stayed blocked, it would no longer end the program.
TEST_F(Refusals, of_signals_leave_them_unblocked) {
  const auto is_blocked = [](int number) {
    sigset_t now;
    EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
    return sigismember(&now, number) == 1;
  };
  sigset_t first;
  sigemptyset(&first);
  sigaddset(&first, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_UNBLOCK, &first, nullptr), 0);
  ASSERT_FALSE(SignalSet::block({SIGUSR2}));
  refused.signalfd = true;
  EXPECT_EQ(error_of(SignalSet::open(proactor_, {SIGUSR1, SIGUSR2})),
            std::errc::operation_not_permitted);
  refused.signalfd = false;
  EXPECT_FALSE(is_blocked(SIGUSR1));
  EXPECT_TRUE(is_blocked(SIGUSR2)) << "by the program";
  Proactor small{config(1)};
  const auto only = DatagramSocket::open(small, AddressFamily::ipv4);
  ASSERT_TRUE(only);
  EXPECT_EQ(error_of(SignalSet::open(small, {SIGUSR1})), errc::no_free_handles);
  EXPECT_FALSE(is_blocked(SIGUSR1));
}

// With room for one handle more.
TEST_F(Refusals, of_a_second_handle) {
  Proactor small{config(1)};
  for (int i = 0; i < 2; ++i) {  // the first one's place is free again
    EXPECT_EQ(error_of(Pipe::create(small)), errc::no_free_handles);
    EXPECT_EQ(error_of(StreamSocket::pair(small)), errc::no_free_handles);
  }
  auto only = DatagramSocket::open(small, AddressFamily::ipv4).value();
  const auto open_now = [] {
    const std::filesystem::directory_iterator all{"/proc/self/fd"};
    return std::distance(begin(all), end(all));
  };
  const auto open_before = open_now();
  EXPECT_EQ(error_of(Pipe::create(small)), errc::no_free_handles);
  EXPECT_EQ(error_of(StreamSocket::pair(small)), errc::no_free_handles);
  EXPECT_EQ(open_now(), open_before);
  const int before = lowest_free_descriptor();
  EXPECT_EQ(error_of(SignalSet::open(small, {SIGUSR1})), errc::no_free_handles);
  EXPECT_EQ(lowest_free_descriptor(), before);
}

// The next start of the program would find its address in use.
TEST_F(Refusals, of_a_unix_socket_leave_no_path) {
  const std::string path = "/tmp/baton-refusals-" + std::to_string(::getpid());
  const Endpoint endpoint = Endpoint::unix_path(path).value();
  const auto is_there = [&] { return ::access(path.c_str(), F_OK) == 0; };
  refused.listen = true;
  EXPECT_EQ(error_of(Acceptor::listen(proactor_, endpoint)), std::errc::operation_not_permitted);
  EXPECT_FALSE(is_there());
  refused.listen = false;
  Proactor full{config(1)};
  const auto only = DatagramSocket::open(full, AddressFamily::ipv4);
  ASSERT_TRUE(only);
  EXPECT_EQ(error_of(Acceptor::listen(full, endpoint)), errc::no_free_handles);
  EXPECT_FALSE(is_there());
  EXPECT_EQ(error_of(DatagramSocket::bind(full, endpoint)), errc::no_free_handles);
  EXPECT_FALSE(is_there());
  // A path is taken once.
  Config lanes = config(16);
  lanes.processors.front().mode = Mode::per_thread;
  lanes.processors.front().threads = 2;
  Proactor two{std::move(lanes)};
  EXPECT_EQ(error_of(Acceptor::listen_each_lane(two, endpoint)), std::errc::address_in_use);
  EXPECT_FALSE(is_there());
  refused.getsockname = true;
  EXPECT_EQ(error_of(Acceptor::listen_each_lane(two, endpoint)),
            std::errc::operation_not_permitted);
  EXPECT_FALSE(is_there());
  refused.getsockname = false;
  // The path of another socket stays.
  const auto listening = Acceptor::listen(proactor_, endpoint);
  ASSERT_TRUE(listening);
  EXPECT_EQ(error_of(Acceptor::listen(proactor_, endpoint)), std::errc::address_in_use);
  EXPECT_EQ(error_of(Acceptor::listen_each_lane(two, endpoint)), std::errc::address_in_use);
  EXPECT_TRUE(is_there());
  ::unlink(path.c_str());
  const std::string in_no_folder = "@baton-refusals-" + std::to_string(::getpid());
  EXPECT_EQ(error_of(Acceptor::listen(full, Endpoint::unix_path(in_no_folder).value())),
            errc::no_free_handles);
}

TEST_F(Refusals, of_an_object_that_is_closed) {
  StreamSocket stream;
  DatagramSocket datagrams;
  File file;
  EXPECT_EQ(datagrams.connect(Endpoint::loopback(1)), errc::handle_closed);
  EXPECT_EQ(error_of(file.size()), errc::handle_closed);
  // Closed, but it still belongs to a proactor.
  auto ends = StreamSocket::pair(proactor_).value();
  stream = std::move(ends.first);
  stream.close_detached();
  EXPECT_EQ(error_of(stream.local_endpoint()), errc::handle_closed);
  EXPECT_EQ(stream.set_option(option::NoDelay{}), errc::handle_closed);
  EXPECT_EQ(error_of(stream.get_option<option::NoDelay>()), errc::handle_closed);
  EXPECT_EQ(stream.set_option(option::Linger{}), errc::handle_closed);
  EXPECT_EQ(error_of(stream.get_option<option::Linger>()), errc::handle_closed);
}

// The handle is closed through the proactor: the object's own close is refused, and the object
// still names the handle.
TEST_F(Refusals, of_a_close) {
  auto ends = StreamSocket::pair(proactor_).value();
  Handle* const handle = ends.first.handle();
  proactor_.close_detached(*handle);
  EXPECT_EQ(ends.first.close([](Operation&) { ADD_FAILURE() << "it was refused"; }),
            errc::handle_closed);
  EXPECT_EQ(ends.first.handle(), handle);
}

TEST_F(Refusals, of_what_a_move_replaces_are_none) {
  auto ends = StreamSocket::pair(proactor_).value();
  ends.first = std::move(ends.second);
  wait_for_handles(proactor_, 1);
}

TEST_F(Refusals, of_a_move_to_itself) {
  auto ends = StreamSocket::pair(proactor_).value();
  StreamSocket& same = ends.first;
  ends.first = std::move(same);
  EXPECT_TRUE(ends.first.is_open()) << "nothing has happened";
}

}  // namespace
}  // namespace baton
