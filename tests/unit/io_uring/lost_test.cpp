// A ring that is lost after the open: entering it is refused, or its descriptor is closed.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "../../support/counting_system.hpp"
#include "baton/buffer_pool.hpp"
#include "driver.hpp"
#include "faults.hpp"

namespace baton::test {
namespace {

using std::chrono::milliseconds;

/// The descriptors of rings that are open.
std::set<int> rings() {
  std::set<int> all;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (const dirent* const entry = ::readdir(folder)) {
    char target[64] = {};
    if (::readlinkat(::dirfd(folder), entry->d_name, target, sizeof(target) - 1) <= 0) continue;
    if (std::string_view{target} == "anon_inode:[io_uring]") all.insert(std::atoi(entry->d_name));
  }
  ::closedir(folder);
  return all;
}

/// How it is taken away: by an errno of io_uring_enter, or (0) by a close of the ring.
using Loss = std::tuple<Form, int>;

class Lost : public testing::TestWithParam<Loss> {
 protected:
  Lost() {
    for (const int ring : rings()) {
      if (before_.count(ring) == 0) ring_ = ring;
    }
  }
  void take_away() {
    if (const int error = std::get<1>(GetParam()); error != 0) {
      faults().enter_error = error;
      faults().failing = faults().period = 1;
    } else {
      ::close(ring_);
    }
  }
  Operation& operation() { return operations_.emplace_back(); }
  void start_read(Handle* handle, Operation& read) {
    set_read(read, handle, buffers_.emplace_back());
    driver_.start(read);
  }
  static bool lost(const Operation& operation) { return operation.error() == errc::engine_lost; }

  const std::set<int> before_ = rings();
  Lines log_;
  Driver driver_{{.form = std::get<0>(GetParam()), .system = &faulty_system(), .log = &log_}};
  int ring_ = -1;
  std::deque<Operation> operations_;
  std::deque<std::array<char, 8>> buffers_;
};
INSTANTIATE_TEST_SUITE_P(Losses, Lost,
                         testing::Combine(testing::Values(Form::any, Form::single, Form::pinned),
                                          testing::Values(EPERM, EACCES, ENOSYS, EBADR, 0)),
                         [](const testing::TestParamInfo<Loss>& loss) {
                           const int error = std::get<1>(loss.param);
                           return testing::PrintToString(std::get<0>(loss.param)) + "_" +
                                  (error == 0 ? "closed" : strerrorname_np(error));
                         });

TEST_P(Lost, pending_operations_end_with_an_error_of_their_own) {
  BufferPool pool{64, 1};
  const Pair idle = stream_pair(), busy = tcp_pair(), pooled_pair = stream_pair(),
             datagrams = datagram_pair(), pipe = pipe_pair(O_NONBLOCK);
  Endpoint address;
  Handle* const left = driver_.adopt(idle.left, HandleKind::stream_socket);
  Handle* const full = driver_.adopt(busy.left, HandleKind::stream_socket);
  Handle* const file = driver_.adopt(temporary_file(), HandleKind::file);
  Operation& read = operation();
  start_read(left, read);
  start_read(left, operation());  // behind it
  const std::string much(std::size_t{8} << 20, 'm');
  for (int i = 0; i < 3; ++i) {
    Operation& write = operation();
    set_write(write, full, ConstBuffer{much.data(), much.size()}, Operation::exactly);
    driver_.start(write);
  }
  Operation& pooled = operation();
  pooled.prepare(OperationKind::read_stream,
                 driver_.adopt(pooled_pair.left, HandleKind::stream_socket));
  pooled.set_pool(&pool);
  driver_.start(pooled);
  Operation& datagram = operation();
  datagram.prepare(OperationKind::read_datagram,
                   driver_.adopt(datagrams.left, HandleKind::datagram_socket));
  datagram.set_buffer(MutableBuffer{buffers_.emplace_back()});
  driver_.start(datagram);
  Operation& accept = operation();
  accept.prepare(OperationKind::accept, driver_.adopt(listener(address), HandleKind::listener));
  driver_.start(accept);
  start_read(driver_.adopt(pipe.left, HandleKind::pipe), operation());
  Operation& ready = operation();
  ready.prepare(OperationKind::wait_ready, left, Operation::readable);
  driver_.start(ready);
  driver_.expect_quiet();  // the kernel has them
  const std::size_t known = operations_.size();

  take_away();
  Operation& cancelled = operation();
  start_read(driver_.adopt(idle.right, HandleKind::stream_socket), cancelled);
  driver_.cancel(cancelled);
  Operation& write = operation();  // of a file, with a sync behind it
  write.prepare(OperationKind::write_file, file);
  write.set_buffer(ConstBuffer{"text", 4});
  driver_.start(write);
  Operation& sync = operation();
  sync.prepare(OperationKind::sync_file, file);
  driver_.start(sync);
  for (const Operation& each : operations_) {
    ASSERT_TRUE(driver_.run_until(each)) << to_string(each.kind());
    if (&each == &cancelled) {
      EXPECT_EQ(each.error(), std::errc::operation_canceled);
    } else {
      EXPECT_TRUE(lost(each)) << to_string(each.kind()) << ": " << each.error().message();
    }
  }
  EXPECT_EQ(driver_.history().size(), known + 3);
  EXPECT_EQ(pooled.buffer().data, nullptr);
  ASSERT_EQ(log_.all.size(), 1U);
  EXPECT_NE(log_.all[0].find("[taken_away]"), std::string::npos) << log_.all[0];

  // Nothing of it is done later: new bytes stay in the socket.
  write_all(idle.right, "late");
  char bytes[8] = {};
  EXPECT_EQ(::recv(idle.left, bytes, sizeof(bytes), 0), 4);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(client, static_cast<sockaddr*>(address.data()), address.size()), 0);
  const int taken = ::accept(accept.handle()->native(), nullptr, nullptr);
  EXPECT_GE(taken, 0);
  for (const int fd : {taken, client, busy.right, pooled_pair.right, datagrams.right, pipe.right}) {
    ::close(fd);
  }
}

TEST_P(Lost, later_starts_end_at_once_and_waits_are_ended) {
  const Pair pair = stream_pair();
  Handle* const left = driver_.adopt(pair.left, HandleKind::stream_socket);
  driver_.expect_quiet();
  take_away();
  Operation& first = operation();
  start_read(left, first);
  ASSERT_TRUE(driver_.run_until(first));
  EXPECT_TRUE(lost(first));
  const auto ends_at_once = [&](OperationKind kind) {
    Operation& each = operation();
    each.prepare(kind, left, Operation::readable);
    each.set_buffer(MutableBuffer{buffers_.emplace_back()});
    EXPECT_EQ(driver_.start(each), Submission::completed);
    EXPECT_TRUE(lost(each)) << to_string(kind);
  };
  ends_at_once(OperationKind::read_stream);
  ends_at_once(OperationKind::write_stream);
  ends_at_once(OperationKind::wait_ready);
  Operation& close = operation();
  close.prepare(OperationKind::close, left);
  EXPECT_EQ(driver_.submit(close), Submission::busy);  // so that its client closes
  EXPECT_EQ(driver_.engine().descriptor(), invalid_handle);
  EXPECT_EQ(driver_.engine().glance(), Glance::cannot_tell);

  driver_.expect_quiet();
  const std::uint64_t waits = system_calls().waits;
  EXPECT_EQ(driver_.wait_once(Deadline::after(milliseconds{30})), 0U);
  EXPECT_EQ(system_calls().waits - waits, 1U) << "the wait spins";
  for (int i = 0; i < 3; ++i) {
    std::thread interrupter{[&] { driver_.engine().interrupt(); }};
    const Deadline end = at_last();
    driver_.wait_once(end);
    EXPECT_TRUE(is_ahead(end)) << "the interrupt was lost";
    interrupter.join();
  }
  ::close(pair.right);
}

// As long as another process has the ring open, a forked child perhaps, the kernel continues.
TEST_P(Lost, no_buffer_is_given_back_before_the_kernel_has_let_go) {
  const Pair pair = stream_pair();
  Operation& read = operation();
  start_read(driver_.adopt(pair.left, HandleKind::stream_socket), read);
  driver_.expect_quiet();
  const int other = ::fcntl(ring_, F_DUPFD_CLOEXEC, 0);
  take_away();
  driver_.cancel(read);
  {
    const Sleepless sleepless;
    const Deadline end = at_last();
    while (sleepless.sleeps() < 20 && is_ahead(end)) driver_.wait_once(end);
    EXPECT_GE(sleepless.sleeps(), 20U) << "the engine wakes up for nothing";
  }
  EXPECT_FALSE(driver_.is_done(read));
  ::close(other);
  ASSERT_TRUE(driver_.run_until(read));
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  ::close(pair.right);
}

// The same where the engine cannot replace the ring's memory, so that the kernel never lets go.
TEST(LostForGood, an_operation_that_the_system_keeps_stays_pending) {
  const auto stays_pending = [] {
    static os::System refusing = faulty_system();
    refusing.mmap = [](void* at, size_t size, int protection, int flags, int fd, off_t offset) {
      if ((flags & MAP_FIXED) == 0) {
        return os::real_system().mmap(at, size, protection, flags, fd, offset);
      }
      errno = ENOMEM;
      return MAP_FAILED;
    };
    Lines log;
    Driver driver{{.form = Form::any, .system = &refusing, .log = &log}};
    const Pair pair = stream_pair();
    Operation read;
    char bytes[4];
    set_read(read, driver.adopt(pair.left, HandleKind::stream_socket), MutableBuffer{bytes});
    driver.start(read);
    driver.expect_quiet();
    faults().enter_error = EPERM;
    faults().failing = faults().period = 1;
    driver.cancel(read);
    const Sleepless sleepless;
    const Deadline end = at_last();
    while (sleepless.sleeps() < 20 && is_ahead(end)) driver.wait_once(end);
    const bool told = log.all.size() == 2 && log.all[1].find("mmap") != std::string::npos;
    std::_Exit(sleepless.sleeps() >= 20 && !driver.is_done(read) && told ? 0 : 1);
  };
  EXPECT_EXIT(stays_pending(), testing::ExitedWithCode(0), "");
}

// The same where the program has closed everything, including the descriptor that reports the end.
TEST(LostForGood, a_closed_witness_proves_nothing) {
  const auto stays_pending = [] {
    const int before = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
    ::close(before);
    Driver driver{{.form = Form::any, .system = &faulty_system()}};
    const int after = ::fcntl(0, F_DUPFD_CLOEXEC, before);
    ::close(after);
    const Pair pair = stream_pair();
    Operation read;
    char bytes[4];
    set_read(read, driver.adopt(pair.left, HandleKind::stream_socket), MutableBuffer{bytes});
    driver.start(read);
    driver.expect_quiet();
    for (int fd = before; fd < after; ++fd) ::close(fd);
    driver.cancel(read);
    driver.wait_once(Deadline::immediately());
    const std::uint64_t waits = system_calls().waits;
    const Deadline end = Deadline::after(milliseconds{200});
    while (is_ahead(end)) driver.wait_once(end);
    std::_Exit(!driver.is_done(read) && system_calls().waits - waits < 100 ? 0 : 1);
  };
  EXPECT_EXIT(stays_pending(), testing::ExitedWithCode(0), "");
}

// A connection that was not handed over must be closed: its peer would never get an answer.
TEST_P(Lost, a_close_in_progress_closes_the_descriptor) {
  const Pair pair = stream_pair();
  Handle* const left = driver_.borrow(pair.left, HandleKind::stream_socket);
  driver_.expect_quiet();
  take_away();
  Operation& close = operation();
  close.prepare(OperationKind::close, left);
  ASSERT_EQ(driver_.start(close), Submission::pending);
  ASSERT_TRUE(driver_.run_until(close));
  EXPECT_FALSE(close.failed()) << close.error().message();
  EXPECT_EQ(::fcntl(pair.left, F_GETFD), -1);
  char byte = 0;
  EXPECT_EQ(::recv(pair.right, &byte, 1, 0), 0);
  ::close(pair.right);
}

// The thread of a pinned ring hands its lane over, and finds out by that. (Not where the ring was
// closed: the new ring gets its number.)
TEST_P(Lost, another_thread_may_go_on) {
  if (std::get<0>(GetParam()) != Form::pinned || std::get<1>(GetParam()) == 0) return;
  const Pair pair = stream_pair();
  Operation& read = operation();
  Handle* const left = driver_.adopt(pair.left, HandleKind::stream_socket);
  std::thread{[&] {
    start_read(left, read);
    driver_.expect_quiet();
    take_away();
    EXPECT_TRUE(driver_.unpin());
  }}.join();
  EXPECT_EQ(driver_.engine().info().leader_rule, LeaderRule::any);
  ASSERT_TRUE(driver_.run_until(read));
  EXPECT_TRUE(lost(read)) << read.error().message();
  ::close(pair.right);
}

// -- a lost completion ----------------------------------------------------------------------------

class LostCompletion : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, LostCompletion,
                         testing::Values(Form::any, Form::single, Form::pinned), form_name);

// Reported once by the kernel when it had no memory for a completion. Its operation would never
// end, and each cancel would find nothing.
TEST_P(LostCompletion, ends_the_engine_and_with_it_the_operation) {
  const os::System& system = faulty_system();
  Lines log;
  Driver driver{{.form = GetParam(), .system = &system, .log = &log}};
  const Pair pair = stream_pair();
  std::array<char, 8> buffer{};
  Operation read;
  set_read(read, driver.adopt(pair.left, HandleKind::stream_socket), buffer);
  faults().loses_receives = true;
  driver.start(read);
  driver.expect_quiet();  // the kernel has it
  faults().loses_receives = false;
  write_all(pair.right, "data");
  EXPECT_EQ(driver.wait_once(Deadline::after(milliseconds{20})), 0U);
  EXPECT_EQ(std::string(buffer.data()), "data") << "it is done, and not reported";
  faults().enter_error = EBADR;
  faults().failing = faults().period = 1;
  driver.wait_once(Deadline::after(milliseconds{1}));
  faults().period = 0;
  driver.cancel(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_TRUE(read.failed());
  ASSERT_EQ(log.all.size(), 1U);
  EXPECT_NE(log.all[0].find("lost a completion"), std::string::npos) << log.all[0];
  ::close(pair.right);
}

}  // namespace
}  // namespace baton::test
