// Several threads: submitters that end, leaders that change, racing cancels, a child after fork.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "../../support/child.hpp"
#include "../../support/counting_system.hpp"
#include "../../support/sleeping_thread.hpp"
#include "baton/buffer_pool.hpp"
#include "core/access.hpp"
#include "exercise.hpp"
#include "faults.hpp"

namespace baton::test {
namespace {

using std::chrono::milliseconds;

// Each kind is started by a thread that ends before anything happens. The kernel cancels with the
// thread; the engine must not let that be seen.
TEST(Threads, a_submitter_that_ends) {
  Driver driver{Form::any};
  Endpoint address, peer, from;
  const Pair stream = tcp_pair(), second = stream_pair(), datagram = datagram_pair(),
             pipe = pipe_pair(O_NONBLOCK), full = pipe_pair(O_NONBLOCK);
  BufferPool pool{64, 1};
  std::array<char, 8> buffers[4]{};
  const std::string big = pattern(2'000'000);
  Operation accept, read, pooled, until, read_datagram, ready, read_pipe, write_pipe, write, queued;
  accept.prepare(OperationKind::accept, driver.adopt(listener(address), HandleKind::listener));
  accept.set_endpoint(&peer);
  Handle* const left = driver.adopt(stream.left, HandleKind::stream_socket);
  set_read(read, left, buffers[0], Operation::exactly);
  set_write(write, left, big, Operation::exactly);
  set_write(queued, left, std::string_view{"behind"}, Operation::exactly);
  Handle* const other = driver.adopt(second.left, HandleKind::stream_socket);
  pooled.prepare(OperationKind::read_stream, other);
  pooled.set_pool(&pool);
  read_datagram.prepare(OperationKind::read_datagram,
                        driver.adopt(datagram.left, HandleKind::datagram_socket));
  read_datagram.set_buffer(MutableBuffer{buffers[1]});
  read_datagram.set_endpoint(&from);
  ready.prepare(OperationKind::wait_ready, other, Operation::readable);
  set_read(read_pipe, driver.adopt(pipe.left, HandleKind::pipe), buffers[2]);
  set_write(write_pipe, driver.adopt(full.right, HandleKind::pipe), big, Operation::exactly);
  Operation* const all[] = {&accept,    &read,       &pooled, &read_datagram, &ready,
                            &read_pipe, &write_pipe, &write,  &queued};
  // The first bytes come while the thread lives.
  write_all(stream.right, "1234");
  std::thread starter{[&] {
    for (Operation* operation : all) driver.start(*operation);
  }};
  starter.join();
  const Deadline end = at_last();
  while (read.bytes() < 4 && is_ahead(end)) driver.wait_once(Deadline::after(milliseconds{1}));
  {  // what can complete, has
    const Sleepless sleepless;
    while (sleepless.sleeps() == 0 && is_ahead(end)) driver.wait_once();
  }
  for (const Operation* operation : {&accept, &read, &pooled, &read_datagram, &ready, &read_pipe}) {
    EXPECT_FALSE(driver.is_done(*operation)) << to_string(operation->kind());
  }
  EXPECT_EQ(read.bytes(), 4U);

  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(client, static_cast<sockaddr*>(address.data()), address.size()), 0);
  write_all(stream.right, "5678");
  write_all(second.right, "data");
  write_all(datagram.right, "datagram");
  write_all(pipe.right, "pipe");
  std::string received, through;
  for (int i = 0; i < 100'000 && !(driver.is_done(queued) && driver.is_done(write_pipe)); ++i) {
    received += read_all(stream.right);
    through += read_all(full.left);
    driver.wait_once(Deadline::after(milliseconds{1}));
  }
  received += read_all(stream.right);
  through += read_all(full.left);
  ASSERT_TRUE(driver.run_until(all));
  for (const Operation* operation : all) {
    EXPECT_FALSE(operation->failed())
        << to_string(operation->kind()) << ": " << operation->error().message();
  }
  EXPECT_EQ(std::string_view(buffers[0].data(), 8), "12345678");
  EXPECT_EQ(std::string_view(buffers[1].data(), 8), "datagram");
  EXPECT_TRUE(received == big + "behind");
  EXPECT_TRUE(through == big);
  pool.give(pooled.buffer().data);
  ::close(accept.accepted());
  for (const int fd : {client, stream.right, second.right, datagram.right, pipe.right, full.left}) {
    ::close(fd);
  }
}

TEST(Threads, a_connect_whose_thread_ends) {
  Driver driver{Form::any};
  Endpoint address;
  const int door = listener(address);
  std::deque<Operation> connects(50);
  std::vector<Operation*> list;
  for (Operation& connect : connects) {
    connect.prepare(OperationKind::connect,
                    driver.adopt(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                 HandleKind::stream_socket));
    connect.set_endpoint(&address);
    list.push_back(&connect);
  }
  std::thread{[&] {
    for (Operation& connect : connects) driver.start(connect);
  }}.join();
  ASSERT_TRUE(driver.run_until(list));
  for (const Operation& connect : connects) {
    EXPECT_FALSE(connect.failed()) << connect.error().message();
  }
  ::close(door);
}

TEST(Threads, files_whose_thread_ends) {
  Driver driver{Form::any};
  Handle* const file = driver.adopt(temporary_file(), HandleKind::file);
  const std::string text = pattern(1'000'000);
  std::deque<Operation> writes(20);
  Operation sync;
  std::thread{[&] {
    for (std::size_t i = 0; i < writes.size(); ++i) {
      writes[i].prepare(OperationKind::write_file, file, Operation::exactly);
      writes[i].set_buffer(ConstBuffer{std::string_view{text}});
      writes[i].set_offset(i * text.size());
      driver.start(writes[i]);
    }
    sync.prepare(OperationKind::sync_file, file);
    driver.start(sync);
  }}.join();
  ASSERT_TRUE(driver.run_until(sync));
  EXPECT_FALSE(sync.failed()) << sync.error().message();
  for (const Operation& write : writes) EXPECT_EQ(*write.result(), text.size());
  std::string back(text.size(), '\0');
  Operation read;
  read.prepare(OperationKind::read_file, file, Operation::exactly);
  read.set_buffer(MutableBuffer{back});
  read.set_offset(19 * text.size());
  driver.start(read);
  ASSERT_TRUE(driver.run_until(read));
  EXPECT_TRUE(back == text);
}

// Root is not bound by the limit.
bool forbid_threads() {
  constexpr uid_t nobody = 65'534;
  if (::geteuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) return false;
  const rlimit none{0, 0};
  return ::setrlimit(RLIMIT_NPROC, &none) == 0;
}

TEST(Threads, a_file_without_a_worker_of_the_kernel_has_an_error) {
  const int fd = temporary_file();
  const pid_t child = start_child([&] {
    if (!forbid_threads()) return 2;
    Driver driver{Form::any};
    Handle* const file = driver.adopt(fd, HandleKind::file);
    Operation sync;
    sync.prepare(OperationKind::sync_file, file);
    driver.start(sync);
    return driver.run_until(sync) && sync.error() == std::errc::not_enough_memory ? 0 : 1;
  });
  ::close(fd);
  EXPECT_EQ(status_of(child), 0);
}

// By an eventfd in the ring, or by messages to the ring.
class Interrupts : public testing::TestWithParam<const char*> {
 protected:
  test::Setup form(Form form) { return {.form = form, .interrupt = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(by, Interrupts, testing::Values("eventfd", "ring"),
                         [](const auto& parameter) { return std::string{parameter.param}; });

// Linux 6.13 sends messages without another ring.
bool kernel_sends_messages() {
  utsname system{};
  int major = 0, minor = 0;
  EXPECT_EQ(::uname(&system), 0);
  EXPECT_EQ(std::sscanf(system.release, "%d.%d", &major, &minor), 2) << system.release;
  return major > 6 || (major == 6 && minor >= 13);
}

TEST_P(Interrupts, are_what_was_asked_for) {
  Driver driver{form(Form::any)};
  if (std::string_view{GetParam()} == "eventfd" || kernel_sends_messages()) {
    EXPECT_EQ(driver.engine().info().interrupt_name, GetParam());
    EXPECT_TRUE(driver.explained().empty());
  } else {
    ASSERT_EQ(driver.explained().size(), 1U);
    EXPECT_NE(driver.explained().front().find("ring -> eventfd"), std::string::npos);
  }
}

// A leader that is interrupted now or soon returns before its timeout.
void expect_interrupted(Driver& driver) {
  const Deadline end = at_last();
  EXPECT_EQ(driver.wait_once(end), 0U);
  EXPECT_TRUE(is_ahead(end)) << "the wait has timed out";
}

TEST_P(Interrupts, go_on_while_leaders_change) {
  Driver driver{form(Form::any)};
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> waits{false};
    WatchedThread leader{[&] {
      waits = true;
      expect_interrupted(driver);
    }};
    if (i % 2 == 0) leader.until_asleep([&] { return waits.load(); });
    driver.engine().interrupt();
    leader.join();
  }
}

TEST_P(Interrupts, reach_a_pinned_leader) {
  Driver driver{form(Form::pinned)};
  for (int i = 0; i < 20; ++i) {
    std::thread other{[&] { driver.engine().interrupt(); }};
    expect_interrupted(driver);
    other.join();
  }
}

TEST_P(Interrupts, a_pinned_ring_changes_hands_when_it_is_empty) {
  Driver driver{form(Form::pinned)};
  for (int i = 0; i < 4; ++i) {
    std::thread{[&] { exercise(driver); }}.join();
    driver.engine().interrupt();  // between the owners: must not be lost
    if (i % 2 == 1) {
      expect_interrupted(driver);
      exercise(driver);
    }
  }
}

Engine* signalled = nullptr;
void on_signal(int) { signalled->interrupt(); }

TEST_P(Interrupts, come_from_a_signal_handler) {
  Driver driver{form(Form::any)};
  signalled = &driver.engine();
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // restarts the test's own calls
  ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> waits{false};
    WatchedThread leader{[&] {
      waits = true;
      expect_interrupted(driver);
    }};
    if (i % 2 == 0) leader.until_asleep([&] { return waits.load(); });
    errno = ENOTTY;
    ::raise(SIGALRM);  // in this thread: the leader's own call is left alone
    EXPECT_EQ(errno, ENOTTY);
    leader.join();
  }
  // A storm of them: calls are interrupted everywhere, nothing is lost.
  itimerval storm{};
  storm.it_value.tv_usec = storm.it_interval.tv_usec = 200;
  ::setitimer(ITIMER_REAL, &storm, nullptr);
  for (int i = 0; i < 3; ++i) exercise(driver);
  storm = {};
  ::setitimer(ITIMER_REAL, &storm, nullptr);
  ::signal(SIGALRM, SIG_IGN);
}

// A message that does not get through is followed by a write to the eventfd.
TEST(Messages, that_fail_lose_no_interrupt) {
  Driver driver{test::Setup{.interrupt = "ring", .system = &faulty_system()}};
  if (driver.engine().info().interrupt_name != "ring") GTEST_SKIP() << driver.explained().front();
  for (const int error : {ENOMEM, EOVERFLOW, EBADFD, EOWNERDEAD}) {
    faults().message_error = error;
    for (int i = 0; i < 3; ++i) {
      std::thread other{[&] { driver.engine().interrupt(); }};
      expect_interrupted(driver);
      other.join();
    }
    faults().message_error = 0;
    driver.engine().interrupt();
    expect_interrupted(driver);
  }
}

TEST(Messages, that_the_kernel_does_not_know_are_replaced_visibly) {
  const os::System& system = faulty_system();
  faults().message_error = EINVAL;
  Driver driver{test::Setup{.interrupt = "ring", .system = &system}};
  EXPECT_EQ(driver.engine().info().interrupt_name, "eventfd");
  ASSERT_EQ(driver.explained().size(), 1U);
  EXPECT_NE(driver.explained().front().find("[kernel_too_old]"), std::string::npos);
  driver.engine().interrupt();
  expect_interrupted(driver);
}

TEST(Threads, a_child_after_fork_leaves_the_parent_alone) {
  for (const Form form : {Form::any, Form::pinned}) {
    Driver driver{form};
    const Pair pair = stream_pair();
    Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
    char buffer[8];
    Operation read;
    set_read(read, handle, buffer);
    driver.start(read);
    driver.wait_once(Deadline::immediately());
    EXPECT_EQ(status_of_child([&] {
                driver.engine().after_fork_in_child();
                // The driver cannot be destroyed here: its operations are the parent's.
                return 0;
              }),
              0);
    driver.expect_quiet();
    write_all(pair.right, "alive");
    ASSERT_TRUE(driver.run_until(read));
    EXPECT_EQ(*read.result(), 5U);
    ::close(pair.right);
  }
}

// -- races ----------------------------------------------------------------------------------------

// Starters, a canceller and a leader; each operation belongs to the thread that the contract names.
// The leader hands completed operations back through `free`.
class Race {
 public:
  static constexpr std::size_t handles = 8, starters = 3, each = 40;

  Race() {
    for (std::size_t i = 0; i < handles; ++i) {
      const Pair pair = stream_pair();
      left_.push_back(driver_.adopt(pair.left, HandleKind::stream_socket));
      right_.push_back(driver_.adopt(pair.right, HandleKind::stream_socket));
    }
  }
  /// Until so many have completed.
  void run(std::size_t count) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < starters; ++i) {
      threads.emplace_back([this, i] { start_some(i); });
    }
    threads.emplace_back([this] { cancel_some(); });
    const Deadline end = at_last();
    while (completed_ < count && is_ahead(end)) lead(Deadline::after(milliseconds{5}));
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    for (Slot& slot : slots_) {
      const std::lock_guard lock{slot.mutex};
      if (slot.pending) cancel(slot);
    }
    while (pending_ > 0) lead(Deadline::after(milliseconds{5}));
    EXPECT_GE(completed_, count);
  }

 private:
  // Stands for the processor's part: the lock orders cancel against the end of the operation's
  // life.
  struct Slot {
    std::mutex mutex;
    Operation operation;
    bool pending = false;
    std::array<char, 256> buffer{};
  };

  void start_some(std::size_t who) {
    std::mt19937 random{static_cast<unsigned>(who)};
    while (!stop_) {
      Slot& slot = slots_[who * each + random() % each];
      {
        const std::lock_guard lock{slot.mutex};
        if (slot.pending) continue;
        slot.pending = true;
        ++pending_;
        Handle* const handle = (random() % 2 == 0 ? left_ : right_)[random() % handles];
        const MutableBuffer buffer{slot.buffer.data(), 1 + random() % slot.buffer.size()};
        switch (random() % 4) {
          case 0:
            set_read(slot.operation, handle, buffer);
            break;
          case 1:
            set_write(slot.operation, handle, ConstBuffer{buffer},
                      random() % 2 == 0 ? std::uint16_t{Operation::exactly} : std::uint16_t{0});
            break;
          case 2:
            slot.operation.prepare(OperationKind::wait_ready, handle, Operation::readable);
            break;
          default:
            slot.operation.prepare(OperationKind::wait_ready, handle, Operation::writable);
            break;
        }
        slot.operation.set_tag(static_cast<std::uint32_t>(&slot - slots_.data()));
      }
      if (driver_.engine().submit(slot.operation, nullptr) == Submission::completed)
        finished(slot.operation);
      driver_.engine().flush();
    }
  }

  void cancel(Slot& slot) {
    OperationAccess::ask_cancel(slot.operation);
    if (driver_.engine().cancel(slot.operation) == CancelAnswer::completed) done(slot);
  }
  void cancel_some() {
    std::mt19937 random{99};
    while (!stop_) {
      Slot& slot = slots_[random() % slots_.size()];
      const std::lock_guard lock{slot.mutex};
      if (slot.pending) cancel(slot);
    }
  }
  void lead(Deadline deadline) {
    OperationQueue completed;
    driver_.engine().wait(completed, deadline);
    while (!completed.empty()) finished(completed.pop_front());
  }
  void finished(Operation& operation) {
    Slot& slot = slots_[operation.tag()];
    const std::lock_guard lock{slot.mutex};
    done(slot);
  }
  void done(Slot& slot) {
    EXPECT_TRUE(slot.pending);
    slot.pending = false;
    --pending_;
    ++completed_;
  }

  Driver driver_{{.form = Form::any, .ring_entries = 8, .completion_entries = 16}};
  std::vector<Handle*> left_, right_;
  std::array<Slot, starters * each> slots_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> pending_{0};
  std::atomic<std::size_t> completed_{0};
};

TEST(Threads, starts_and_cancels_race_with_the_leader) {
  const auto race = std::make_unique<Race>();
  race->run(20'000);
}

}  // namespace
}  // namespace baton::test
