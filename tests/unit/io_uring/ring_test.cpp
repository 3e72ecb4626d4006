// Opening and running in unusual conditions: denied, old kernels, small rings, a kernel short of
// memory.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <numeric>

#include "../../support/counting_system.hpp"
#include "engines/io_uring/abi.hpp"
#include "exercise.hpp"
#include "faults.hpp"

namespace baton::test {
namespace {

namespace abi = engines::uring::abi;
using std::chrono::milliseconds;

std::string failure(const os::System& system, bool pinned_ok = false) {
  EngineOptions options;
  options.system = &system;
  options.pinned_ok = pinned_ok;
  const auto opened = engines::open_io_uring(options);
  if (opened) return "";
  EXPECT_EQ(opened.error().code, errc::engine_unavailable);
  return opened.error().reason;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// -- denied ---------------------------------------------------------------------------------------

TEST(Denied, says_what_is_missing_and_what_helps) {
  const os::System& system = faulty_system();
  const std::pair<int, const char*> cases[] = {
      {ENOSYS, "CONFIG_IO_URING"}, {ENOMEM, "RLIMIT_MEMLOCK"}, {EMFILE, "ulimit -n"},
      {EINVAL, "too old"},         {EPERM, "seccomp"},         {EACCES, "seccomp"},
      {EIO, "Input/output error"}};
  for (const auto& [error, word] : cases) {
    faults().setup_error = error;
    faults().sysctl = '0';
    for (const bool pinned : {false, true}) {
      EXPECT_PRED2(contains, failure(system, pinned), word);
    }
  }
  faults().setup_error = EPERM;
  faults().sysctl = '1';
  EXPECT_PRED2(contains, failure(system), "kernel.io_uring_group");
  faults().sysctl = '2';
  EXPECT_PRED2(contains, failure(system), "sysctl kernel.io_uring_disabled=0");
}

TEST(Denied, names_the_missing_request) {
  const os::System& system = faulty_system();
  faults().hidden_opcode = abi::op_recv;
  EXPECT_PRED2(contains, failure(system), "IORING_OP_RECV");
}

TEST(Denied, needs_what_keeps_completions) {
  const os::System& system = faulty_system();
  faults().hidden_features = abi::feature_no_drop;
  EXPECT_PRED2(contains, failure(system), "NODROP");
}

TEST(Denied, an_entry_that_is_filtered) {
  const os::System& system = faulty_system();
  faults().enter_error = EPERM;
  faults().period = faults().failing = 1;
  EXPECT_PRED2(contains, failure(system), "seccomp");
}

TEST(Denied, any_call_may_fail_and_nothing_leaks) {
  const std::size_t before = open_descriptors();
  unsigned n = 1;
  for (;; ++n) {
    const os::System& system = faulty_system();
    faults().fail_call = n;
    const std::string reason = failure(system, true);
    EXPECT_EQ(open_descriptors(), before) << "call " << n << ": " << reason;
    if (faults().calls < n) break;  // opened without reaching it
  }
  EXPECT_GT(n, 8U);
}

// -- old kernels ----------------------------------------------------------------------------------

TEST(OldKernel, does_without_newer_flags) {
  const std::uint32_t newer[] = {
      abi::setup_no_sqarray, abi::setup_no_sqarray | abi::setup_coop_taskrun,
      abi::setup_no_sqarray | abi::setup_coop_taskrun | abi::setup_submit_all};
  for (const std::uint32_t flags : newer) {
    for (const Form form : {Form::any, Form::single}) {
      const os::System& system = faulty_system();
      faults().unknown_flags = flags;
      Driver driver{{.form = form, .system = &system}};
      EXPECT_EQ(faults().flags & flags, 0U);
      exercise(driver);
    }
  }
}

TEST(OldKernel, has_no_pinned_form) {
  const os::System& system = faulty_system();
  faults().unknown_flags = abi::setup_no_sqarray | abi::setup_defer_taskrun;
  Driver driver{{.form = Form::pinned, .system = &system}};
  EXPECT_EQ(driver.engine().info().leader_rule, LeaderRule::any);
  ASSERT_EQ(driver.explained().size(), 1U);
  EXPECT_PRED2(contains, driver.explained()[0], "profile: pinned -> any");
  exercise(driver);
}

TEST(OldKernel, waits_without_a_timeout_of_the_ring) {
  for (const Form form : {Form::any, Form::single}) {
    const os::System& system = faulty_system();
    faults().hidden_features = abi::feature_ext_arg;
    Driver driver{{.form = form, .system = &system}};
    exercise(driver);
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(driver.wait_once(Deadline::after(milliseconds{30})), 0U);
    EXPECT_GE(std::chrono::steady_clock::now() - before, milliseconds{30});
  }
}

TEST(OldKernel, shuts_down_by_a_call_of_its_own) {
  const os::System& system = faulty_system();
  faults().hidden_opcode = abi::op_shutdown;
  Driver driver{{.form = Form::any, .system = &system}};
  EXPECT_EQ(driver.engine().info().support[static_cast<int>(OperationKind::shutdown)],
            Support::assisted);
  exercise(driver);
}

TEST(OldKernel, interrupts_without_multishot_poll) {
  const os::System& system = faulty_system();
  faults().no_multishot_poll = true;
  Driver driver{{.form = Form::any, .system = &system}};
  for (int i = 0; i < 5; ++i) {
    driver.engine().interrupt();
    driver.engine().interrupt();
    EXPECT_EQ(driver.wait_once(Deadline::never()), 0U);
  }
  const auto before = std::chrono::steady_clock::now();
  driver.wait_once(Deadline::after(milliseconds{30}));
  EXPECT_GE(std::chrono::steady_clock::now() - before, milliseconds{30});
  exercise(driver);
}

TEST(OldKernel, no_signal_from_a_pipe_without_the_flag) {
  struct sigaction fatal{};
  fatal.sa_handler = SIG_DFL;
  ASSERT_EQ(::sigaction(SIGPIPE, &fatal, nullptr), 0);
  for (const Form form : {Form::any, Form::pinned}) {
    const os::System& system = faulty_system();
    faults().no_signal_flag_unknown = true;
    Driver driver{{.form = form, .system = &system}};
    exercise(driver);
    for (const int mode : {0, O_NONBLOCK}) {
      const Pair pipe = pipe_pair(mode);
      Handle* const out = driver.adopt(pipe.right, HandleKind::pipe, Ownership::borrowed);
      const std::string text = pattern(200'000);
      Operation write;
      set_write(write, out, text, Operation::exactly);
      driver.start(write);
      driver.expect_quiet();
      ::close(pipe.left);
      ASSERT_TRUE(driver.run_until(write));
      EXPECT_EQ(write.error(), std::errc::broken_pipe);
      set_write(write, out, text);
      driver.start(write);
      ASSERT_TRUE(driver.run_until(write));
      EXPECT_EQ(write.error(), std::errc::broken_pipe);
    }
  }
}

// -- the profile and replacements -----------------------------------------------------------------

std::vector<std::string> explained(ProcessorConfig config, bool pinned_ok, LeaderRule expected) {
  std::vector<std::string> lines;
  EngineOptions options;
  options.config = &config;
  options.pinned_ok = pinned_ok;
  options.explain = [&](std::string_view line) { lines.emplace_back(line); };
  auto opened = engines::open_io_uring(options);
  EXPECT_TRUE(opened.has_value());
  EXPECT_EQ((*opened)->info().leader_rule, expected);
  return lines;
}

TEST(Profile, as_asked_or_visibly_not) {
  ProcessorConfig config;
  EXPECT_TRUE(explained(config, false, LeaderRule::any).empty());
  EXPECT_TRUE(explained(config, true, LeaderRule::pinned).empty());
  config.profile = "any";
  EXPECT_TRUE(explained(config, true, LeaderRule::any).empty());
  config.profile = "pinned";
  EXPECT_TRUE(explained(config, true, LeaderRule::pinned).empty());
  const auto lines = explained(config, false, LeaderRule::any);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_PRED2(contains, lines[0], "profile: pinned -> any");
}

TEST(Profile, settings_without_a_choice_are_replaced_visibly) {
  ProcessorConfig config;
  config.wait = "epoll";
  config.interrupt = "signal";
  config.ring_entries = 1U << 20;
  const auto lines = explained(config, false, LeaderRule::any);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_PRED2(contains, lines[0], "wait: epoll -> ring");
  EXPECT_PRED2(contains, lines[1], "interrupt: signal -> eventfd");
  EXPECT_PRED2(contains, lines[2], "ring_entries: 1048576 -> 32768");
}

TEST(Profile, unknown_name) {
  ProcessorConfig config;
  config.profile = "fast";
  EngineOptions options;
  options.config = &config;
  const auto opened = engines::open_io_uring(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, errc::unknown_name);
  EXPECT_PRED2(contains, opened.error().reason, "auto, any and pinned");
}

// -- a kernel short of memory, and interruptions --------------------------------------------------

class EnterFails : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Errors, EnterFails, testing::Values(EINTR, EAGAIN, EBUSY, ENOMEM));

TEST_P(EnterFails, now_and_then_or_mostly) {
  const std::pair<unsigned, unsigned> rhythms[] = {{2, 1}, {5, 3}, {7, 1}};
  for (const auto& [period, failing] : rhythms) {
    for (const Form form : {Form::any, Form::pinned}) {
      for (const std::uint32_t entries : {2U, 256U}) {
        const os::System& system = faulty_system();
        Driver driver{{.form = form, .ring_entries = entries, .system = &system}};
        faults().enter_error = GetParam();
        faults().failing = failing;
        faults().period = period;
        exercise(driver);
        faults().period = 0;
      }
    }
  }
}

TEST(Enter, takes_one_request_at_a_time) {
  for (const Form form : {Form::any, Form::pinned}) {
    const os::System& system = faulty_system();
    Driver driver{{.form = form, .system = &system}};
    faults().submit_max = 1;
    exercise(driver);
  }
}

// The interrupt request is among what the kernel did not take, so that nothing makes the descriptor
// of the ring readable.
TEST(Enter, tells_a_merged_wait_when_to_look_at_a_kernel_without_room) {
  const os::System& system = faulty_system();
  for (const int error : {EAGAIN, EBUSY, ENOMEM}) {
    Driver driver{{.form = Form::any, .system = &system}};
    faults().enter_error = error;
    faults().period = faults().failing = 1;
    driver.wait_once(Deadline::immediately());
    EXPECT_FALSE(driver.engine().due().is_never()) << error;
    faults().period = 0;
    driver.wait_once(Deadline::immediately());
    EXPECT_TRUE(driver.engine().due().is_never()) << error;
  }
}

// A thread that starts an operation is refused the entry while another one waits in the kernel.
TEST(Enter, tells_the_waiting_thread_of_an_entry_that_failed) {
  const os::System& system = faulty_system();
  for (const int error : {EAGAIN, EPERM}) {
    Operation wait;  // pending until the driver ends
    Driver driver{{.form = Form::any, .system = &system}};
    const Pair pair = stream_pair();
    wait.prepare(OperationKind::wait_ready, driver.adopt(pair.left, HandleKind::stream_socket),
                 Operation::readable);
    driver.expect_quiet();
    faults().enter_error = error;
    faults().period = faults().failing = 1;
    driver.start(wait);
    faults().period = 0;
    const Sleepless sleepless;
    driver.wait_once();
    EXPECT_EQ(sleepless.sleeps(), 0U) << error;
    ::close(pair.right);
  }
}

// Each round enters the ring twice; where only poll() has a timeout (before Linux 5.11), once.
TEST(Enter, pauses_after_each_wait_that_fails) {
  static int failures = 0;
  static int sleeps = 0;
  os::System system = counting_system();
  system.io_uring_enter = [](int ring, unsigned submit, unsigned complete, unsigned flags,
                             const void* argument, size_t size) {
    if (failures == 0) {
      return counting_system().io_uring_enter(ring, submit, complete, flags, argument, size);
    }
    --failures;
    errno = ENOMEM;
    return -1;
  };
  system.ppoll = [](pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    ++sleeps;
    return counting_system().ppoll(list, count, timeout, mask);
  };
  Driver driver{{.form = Form::any, .system = &system}};
  driver.engine().interrupt();
  failures = 20;
  sleeps = 0;
  driver.wait_once();
  EXPECT_EQ(failures, 0);
  EXPECT_GE(sleeps, 10);
}

// The ring is full and the kernel takes nothing: what is submitted and cancelled meanwhile is made
// up for later.
TEST(Enter, submits_later_if_it_could_not) {
  const os::System& system = faulty_system();
  Driver driver{{.form = Form::any, .ring_entries = 2, .completion_entries = 4, .system = &system}};
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  std::deque<Operation> waits(10);
  std::vector<Operation*> list;
  const auto start = [&](Operation& wait) {
    wait.prepare(OperationKind::wait_ready, handle, Operation::readable);
    driver.submit(wait);
    list.push_back(&wait);
  };
  start(waits[0]);
  start(waits[1]);
  driver.expect_quiet();  // these are in the kernel
  for (const int error : {EAGAIN, EBUSY, ENOMEM}) {
    faults().enter_error = error;
    faults().period = faults().failing = 1;
    for (std::size_t i = 2; i < waits.size(); ++i) start(waits[i]);
    EXPECT_EQ(driver.cancel(waits[1]), CancelAnswer::requested);
    EXPECT_EQ(driver.cancel(waits[9]), CancelAnswer::requested);
    driver.wait_once(Deadline::immediately());
    faults().period = 0;
    Operation* const cancelled[] = {&waits[1], &waits[9]};
    ASSERT_TRUE(driver.run_until(cancelled));
    EXPECT_EQ(waits[1].error(), std::errc::operation_canceled);
    EXPECT_EQ(waits[9].error(), std::errc::operation_canceled);
    driver.expect_quiet();
    write_all(pair.right, "x");
    ASSERT_TRUE(driver.run_until(list));
    EXPECT_EQ(read_all(pair.left), "x");
    list.clear();
    start(waits[0]);
    start(waits[1]);
    driver.expect_quiet();
  }
  write_all(pair.right, "x");
  ASSERT_TRUE(driver.run_until(list));
  ::close(pair.right);
}

// -- tiny rings -----------------------------------------------------------------------------------

class Tiny : public testing::TestWithParam<Form> {
 protected:
  Driver driver{{.form = GetParam(), .ring_entries = 2, .completion_entries = 4}};
};
INSTANTIATE_TEST_SUITE_P(Forms, Tiny, testing::Values(Form::any, Form::single, Form::pinned),
                         form_name);

TEST_P(Tiny, does_everything) { exercise(driver); }

TEST_P(Tiny, ten_thousand_operations_and_overflow) {
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  std::deque<Operation> waits(10'000);
  std::vector<Operation*> list;
  for (Operation& wait : waits) {
    wait.prepare(OperationKind::wait_ready, handle, Operation::readable);
    driver.submit(wait);
    list.push_back(&wait);
  }
  driver.expect_quiet();
  write_all(pair.right, "x");  // all at once into four places
  driver.engine().interrupt();
  ASSERT_TRUE(driver.run_until(list));
  for (const Operation& wait : waits) ASSERT_FALSE(wait.failed());
  // Interrupts outlive the overflow, which ends the poll they come by.
  for (int i = 0; i < 3; ++i) {
    driver.expect_quiet();
    driver.engine().interrupt();
    EXPECT_EQ(driver.wait_once(Deadline::never()), 0U);
  }
  ::close(pair.right);
}

TEST_P(Tiny, ten_thousand_transfers_on_a_hundred_handles) {
  constexpr std::size_t pairs = 100, each = 50;
  std::vector<Handle*> left, right;
  for (std::size_t i = 0; i < pairs; ++i) {
    const Pair pair = stream_pair();
    left.push_back(driver.adopt(pair.left, HandleKind::stream_socket));
    right.push_back(driver.adopt(pair.right, HandleKind::stream_socket));
  }
  std::deque<Operation> writes(pairs * each), reads(pairs * each);
  std::vector<std::uint32_t> out(pairs * each), in(pairs * each);
  std::vector<Operation*> list;
  std::iota(out.begin(), out.end(), 1);
  for (std::size_t i = 0; i < pairs * each; ++i) {
    set_read(reads[i], right[i % pairs], MutableBuffer{&in[i], sizeof(in[i])}, Operation::exactly);
    set_write(writes[i], left[i % pairs], ConstBuffer{&out[i], sizeof(out[i])}, Operation::exactly);
    driver.submit(reads[i]);
    driver.submit(writes[i]);
    list.push_back(&reads[i]);
    list.push_back(&writes[i]);
  }
  ASSERT_TRUE(driver.run_until(list));
  EXPECT_TRUE(in == out);
}

// -- waiting --------------------------------------------------------------------------------------

class Wait : public testing::TestWithParam<Form> {
 protected:
  Driver driver{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Forms, Wait, testing::Values(Form::any, Form::single, Form::pinned),
                         form_name);

TEST_P(Wait, ends_at_the_deadline_and_not_before) {
  for (const Duration span : {Duration{1}, Duration{milliseconds{3}}, Duration{milliseconds{20}}}) {
    const Deadline deadline = Deadline::after(span);
    EXPECT_EQ(driver.wait_once(deadline), 0U);
    EXPECT_GE(Deadline::at(std::chrono::steady_clock::now()), deadline);
  }
  EXPECT_EQ(driver.wait_once(Deadline::immediately()), 0U);
}

TEST_P(Wait, interrupts_are_sticky_and_coalesce) {
  for (int i = 0; i < 100; ++i) {
    driver.engine().interrupt();
    driver.engine().interrupt();
    EXPECT_EQ(driver.wait_once(Deadline::never()), 0U);
    if (i % 10 != 0) continue;
    const Deadline deadline = Deadline::after(milliseconds{3});
    EXPECT_EQ(driver.wait_once(deadline), 0U);
    EXPECT_GE(Deadline::at(std::chrono::steady_clock::now()), deadline) << "one for all";
  }
}

TEST_P(Wait, descriptor_is_readable_when_there_is_something) {
  if (GetParam() == Form::pinned) {  // it works only inside its owner's wait
    EXPECT_EQ(driver.engine().descriptor(), invalid_handle);
    return;
  }
  const Pair pair = stream_pair();
  Handle* const handle = driver.adopt(pair.left, HandleKind::stream_socket);
  char buffer[8];
  Operation read;
  set_read(read, handle, buffer);
  driver.start(read);
  driver.wait_once(Deadline::immediately());
  const auto readable = [&](int timeout) {
    pollfd entry{driver.engine().descriptor(), POLLIN, 0};
    return ::poll(&entry, 1, timeout) == 1;
  };
  EXPECT_FALSE(readable(10));
  write_all(pair.right, "x");
  EXPECT_TRUE(readable(10'000));
  EXPECT_EQ(driver.wait_once(Deadline::immediately()), 1U);
  EXPECT_FALSE(readable(10));
  driver.engine().interrupt();
  EXPECT_TRUE(readable(10'000));
  ::close(pair.right);
}

TEST(Idle, costs_nothing) {
  for (const Form form : {Form::any, Form::single, Form::pinned}) {
    const os::System& system = faulty_system();
    Driver driver{{.form = form, .system = &system}};
    const Pair pair = stream_pair();
    char buffer[8];
    Operation read;
    set_read(read, driver.adopt(pair.left, HandleKind::stream_socket), buffer);
    driver.start(read);
    driver.wait_once(Deadline::immediately());
    const unsigned before = faults().enters;
    EXPECT_EQ(driver.wait_once(Deadline::after(milliseconds{300})), 0U);
    EXPECT_LE(faults().enters, before + 2);
    driver.cancel(read);
    ASSERT_TRUE(driver.run_until(read));
    ::close(pair.right);
  }
}

}  // namespace
}  // namespace baton::test
