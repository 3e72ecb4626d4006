// Opening: refusals and their reasons; children; and engines that `auto` does not choose.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "../../support/child.hpp"
#include "../../support/no_signalfd.hpp"
#include "baton/proactor.hpp"
#include "baton/registry.hpp"
#include "driver.hpp"
#include "engines/posix_aio/notify.hpp"

namespace baton::test::aio {
namespace {

const Form suspend{.notify = "suspend"};
const Form sigwait{.notify = "sigwait"};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Open, a_system_without_aio_is_said_to_have_none) {
  for (const Form& form : forms()) {
    os::System system = os::real_system();
    system.aio_read = [](aiocb*) { return errno = ENOSYS, -1; };
    EXPECT_TRUE(contains(why_not(form, system), "no POSIX AIO"));
    system.aio_read = [](aiocb*) { return errno = EAGAIN, -1; };
    EXPECT_TRUE(contains(why_not(form, system), "ulimit -u"));
    system = os::real_system();
    system.eventfd = [](unsigned, int) { return errno = EMFILE, -1; };
    EXPECT_TRUE(contains(why_not(form, system), "ulimit -n"));
  }
}

TEST(Open, an_unknown_strategy_is_named_with_the_valid_ones) {
  EXPECT_TRUE(contains(why_not({.notify = "kqueue"}), "suspend, sigwait and callback"));
}

TEST(Open, suspend_leaves_threads_to_work) {
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 16; ++i) {
    auto opened = open_engine(suspend);
    ASSERT_TRUE(opened) << opened.error().reason;
    engines.push_back(std::move(*opened));
  }
  EXPECT_TRUE(contains(why_not(suspend), "16 engines"));
  engines.pop_back();
  EXPECT_EQ(why_not(suspend), "");
}

// -- sigwait --------------------------------------------------------------------------------------

/// A thread with this name that leaves all signals unblocked.
class OpenThread {
 public:
  explicit OpenThread(const char* name) {
    std::promise<void> begun;
    thread_ = std::thread{[&, name] {
      ::pthread_setname_np(::pthread_self(), name);
      tid_ = static_cast<int>(::syscall(SYS_gettid));
      sigset_t none;
      sigemptyset(&none);
      ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
      begun.set_value();
      over_.get_future().wait();
    }};
    begun.get_future().wait();
  }
  ~OpenThread() {
    over_.set_value();
    thread_.join();
  }
  [[nodiscard]] int tid() const { return tid_; }

 private:
  std::promise<void> over_;
  std::thread thread_;
  int tid_ = 0;
};

bool blocks(int number) {
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, number) == 1;
}

TEST(Sigwait, a_thread_that_the_signal_would_hit_is_named) {
  const int number = SIGRTMIN + 5;
  {
    const OpenThread thread{"my worker"};
    const std::string reason = why_not({.notify = "sigwait", .signal = number});
    EXPECT_TRUE(contains(reason, "signal " + std::to_string(number))) << reason;
    EXPECT_TRUE(contains(reason, "thread " + std::to_string(thread.tid()) + " (my worker)"))
        << reason;
    EXPECT_TRUE(contains(reason, "pthread_sigmask")) << reason;
    EXPECT_FALSE(blocks(number)) << "the mask is not as it was";
  }
  EXPECT_EQ(why_not({.notify = "sigwait", .signal = number}), "");
  EXPECT_TRUE(blocks(number));
}

// As code does that saves a mask and restores it.
TEST(Sigwait, a_thread_that_gets_an_earlier_mask_back_blocks_the_signal_again) {
  const int number = SIGRTMIN + 5;
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  sigdelset(&before, number);
  Driver driver{Form{.notify = "sigwait", .signal = number}};
  for (int i = 0; i < 2; ++i) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    driver.wait_once(Deadline::immediately());
    EXPECT_TRUE(blocks(number));
  }
}

// One entry at a time, as if the process had more threads than fit into a block of getdents64.
TEST(Sigwait, a_thread_of_a_later_block_of_the_list_is_seen) {
  static unsigned blocks = 0;
  static const os::System system = [] {
    os::System made = os::real_system();
    made.getdents64 = [](int fd, void* room, std::size_t) {
      constexpr std::size_t one_entry = 40;
      ++blocks;
      return os::real_system().getdents64(fd, room, one_entry);
    };
    return made;
  }();
  const OpenThread thread{"last"};
  EXPECT_TRUE(contains(why_not({.notify = "sigwait", .signal = SIGRTMIN + 5}, system), "(last)"));
  EXPECT_GE(blocks, 4U) << "itself, its parent, the first thread and this one";
}

TEST(Sigwait, without_a_descriptor_the_mask_is_as_it_was) {
  const os::System& system = without_signalfd();
  const int number = SIGRTMIN + 6;
  no_signalfd = true;
  const auto refused = engines::posix_aio::open_sigwait(system, number);
  no_signalfd = false;
  EXPECT_FALSE(refused);
  EXPECT_FALSE(blocks(number));
  EXPECT_TRUE(engines::posix_aio::open_sigwait(system, number)) << "its number is free again";
}

// A thread that cannot be inspected may leave its signals unblocked: it is not taken for one that
// has ended.
TEST(Sigwait, a_mask_that_cannot_be_read_is_no_blocked_signal) {
  static int error = 0;
  static int failing = 0;
  static const os::System system = [] {
    os::System made = os::real_system();
    made.read = [](int fd, void* buffer, size_t size) {
      if (failing > 0 && failing-- > 0) return errno = error, ssize_t{-1};
      return os::real_system().read(fd, buffer, size);
    };
    made.open = [](const char* path, int flags, mode_t mode) {
      if (error == EMFILE && contains(path, "/status")) return errno = EMFILE, -1;
      return os::real_system().open(path, flags, mode);
    };
    return made;
  }();
  const Form form{.notify = "sigwait", .signal = SIGRTMIN + 5};
  for (const int cause : {ENOMEM, EMFILE}) {
    error = cause;
    failing = cause == ENOMEM ? 1 : 0;
    EXPECT_TRUE(contains(why_not(form, system), "cannot be read"));
  }
  error = EINTR;
  failing = 3;
  EXPECT_EQ(why_not(form, system), "");
  EXPECT_EQ(failing, 0);
}

// As a main thread that has ended by pthread_exit.
TEST(Sigwait, a_thread_that_has_ended_takes_no_signal) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.read = [](int fd, void* buffer, size_t size) {
      const ssize_t got = os::real_system().read(fd, buffer, size);
      std::string text{static_cast<char*>(buffer), got > 0 ? static_cast<std::size_t>(got) : 0};
      const std::size_t state = text.find("State:\t");
      if (contains(text, "ended") && state != std::string::npos) {
        static_cast<char*>(buffer)[state + 7] = 'Z';
      }
      return got;
    };
    return made;
  }();
  const OpenThread thread{"ended"};
  const Form form{.notify = "sigwait", .signal = SIGRTMIN + 5};
  EXPECT_TRUE(contains(why_not(form), "(ended)"));
  EXPECT_EQ(why_not(form, system), "");
}

TEST(Sigwait, a_proactor_takes_another_engine_and_says_why) {
  const OpenThread thread{"left open"};
  Config config;
  config.processors.push_back(
      {.operations = file_operations, .engine = "posix_aio", .notify = "sigwait"});
  const auto proactor = Proactor::open(config);
  ASSERT_TRUE(proactor) << proactor.error().reason;
  const std::string text = (*proactor)->explain();
  EXPECT_TRUE(contains(text, "posix_aio -> emulated")) << text;
  EXPECT_TRUE(contains(text, "(left open)")) << text;
}

TEST(Sigwait, every_engine_has_a_number_of_its_own) {
  const Form form{.notify = "sigwait", .signal = SIGRTMIN + 6};
  auto first = open_engine(form);
  ASSERT_TRUE(first) << first.error().reason;
  EXPECT_TRUE(contains(why_not(form), "another engine"));
  auto second = open_engine(sigwait);
  ASSERT_TRUE(second) << second.error().reason;
  first->reset();
  EXPECT_EQ(why_not(form), "");
}

TEST(Sigwait, plain_signals_and_those_of_the_program_are_refused) {
  EXPECT_TRUE(contains(why_not({.notify = "sigwait", .signal = SIGUSR1}), "no real-time signal"));
  struct sigaction mine{};
  mine.sa_handler = [](int) {};
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGRTMIN + 7, &mine, &before), 0);
  EXPECT_TRUE(
      contains(why_not({.notify = "sigwait", .signal = SIGRTMIN + 7}), "handler of the program"));
  ::sigaction(SIGRTMIN + 7, &before, nullptr);
}

// A thread that comes later and unblocks everything takes signals from the leader. It is not
// killed, and nothing is lost.
TEST(Sigwait, a_thread_that_unblocks_it_later_is_not_killed) {
  Driver driver{sigwait};
  const OpenThread thread{"late"};
  Handle* const handle = driver.adopt(temporary_file());
  std::string text = "text";
  for (int i = 0; i < 10; ++i) {
    Operation write;
    set_file(write, OperationKind::write_file, handle, text);
    ASSERT_TRUE(driver.complete(write));
  }
}

// Such a thread could take an interrupt, which was sent to the process: the leader slept for ever.
TEST(Sigwait, a_thread_that_unblocks_it_later_takes_no_interrupt) {
  Driver driver{sigwait};
  const OpenThread thread{"late"};  // the kernel finds it before the leader
  constexpr int rounds = 300;
  std::atomic<int> waits{0};
  std::thread leader{[&] {
    for (; waits < rounds; ++waits) {
      OperationQueue nothing;
      driver.engine().wait(nothing, Deadline::never());
    }
  }};
  for (int i = 0; i < rounds; ++i) {
    driver.engine().interrupt();
    while (waits <= i) std::this_thread::yield();
  }
  leader.join();
}

// -- the process ----------------------------------------------------------------------------------

TEST(Process, a_child_may_destroy_the_engine_and_not_open_one) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  for (const char* const notify : {"suspend", "sigwait", "callback"}) {
    auto engine = open_engine({.notify = notify});
    ASSERT_TRUE(engine) << engine.error().reason;
    OperationQueue nothing;
    (*engine)->wait(nothing, Deadline::immediately());
    EXPECT_EQ(status_of_child([&] {
                (*engine)->after_fork_in_child();
                engine->reset();
                return contains(why_not({.notify = notify}), "forked") ? 0 : 1;
              }),
              0)
        << notify;
    (*engine)->interrupt();  // the parent's is as it was
    (*engine)->wait(nothing, Deadline::never());
  }
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 1'024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) ++count;
  }
  return count;
}

TEST(Process, a_child_keeps_no_descriptor_of_the_engine) {
  for (const Form& form : forms()) {
    const std::size_t before = open_descriptors();
    auto engine = open_engine(form);
    ASSERT_TRUE(engine) << engine.error().reason;
    EXPECT_EQ(status_of_child([&] {
                (*engine)->after_fork_in_child();
                engine->reset();
                return open_descriptors() == before ? 0 : 1;
              }),
              0)
        << form.notify;
  }
}

// Partial engines are used only if they are named.
TEST(Process, is_not_chosen_for_sockets_unless_it_is_named) {
  Config config;
  config.forbid = {"emulated", "io_uring"};
  for (const auto& entry : registry().engines()) {
    if (entry.name != "posix_aio" && !contains(entry.name, "emulated") &&
        entry.name != "io_uring") {
      config.forbid.push_back(entry.name);
    }
  }
  const auto none = Proactor::open(config);
  ASSERT_FALSE(none);
  EXPECT_TRUE(contains(none.error().reason, "forbidden by policy")) << none.error().reason;
  for (const char* name : {"emulated", "io_uring"}) {
    EXPECT_TRUE(contains(none.error().reason, name)) << none.error().reason;
  }
  config.processors.push_back({.operations = file_operations});
  const auto files = Proactor::open(config);
  ASSERT_TRUE(files) << files.error().reason;
  EXPECT_TRUE(contains((*files)->explain(), "engine=posix_aio wait=suspend interrupt=eventfd"))
      << (*files)->explain();
  config.processors[0] = {.engine = "posix_aio", .interrupt = "pipe", .notify = "suspend"};
  const auto named = Proactor::open(config);
  ASSERT_TRUE(named) << named.error().reason;
  EXPECT_TRUE(contains((*named)->explain(), "interrupt: pipe -> eventfd")) << (*named)->explain();
}

}  // namespace
}  // namespace baton::test::aio
