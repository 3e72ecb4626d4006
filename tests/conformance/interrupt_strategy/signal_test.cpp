// Faults of the signal interrupt only: the program's own handlers and signal masks.
#include <gtest/gtest.h>
#include <signal.h>

#include "baton/interrupt_strategy.hpp"
#include "demux/registry.hpp"
#include "os/system.hpp"

namespace baton::test {
namespace {

Result<std::unique_ptr<InterruptStrategy>, Failure> open_signal(int number = 0) {
  return demux::find_interrupt_strategy("signal")->factory({.signal_number = number});
}

void program_handler(int) {}

class ProgramHandler {
 public:
  explicit ProgramHandler(int number, void (*handler)(int) = program_handler) : number_(number) {
    struct sigaction action{};
    action.sa_handler = handler;
    EXPECT_EQ(::sigaction(number, &action, &before_), 0);
  }
  ~ProgramHandler() { ::sigaction(number_, &before_, nullptr); }
  ProgramHandler(ProgramHandler&& other) noexcept = delete;

  [[nodiscard]] bool stands() const {
    struct sigaction now{};
    ::sigaction(number_, nullptr, &now);
    return now.sa_handler == program_handler;
  }

 private:
  const int number_;
  struct sigaction before_{};
};

// The signal of a strategy: its mask lets it in although the thread blocks it.
int number_of(InterruptStrategy& strategy) {
  const SignalMask* mask = strategy.signal_mask();
  sigset_t own;
  EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &own), 0);
  int found = 0;
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (sigismember(&own, number) == 1 && sigismember(&mask->set, number) == 0) {
      EXPECT_EQ(found, 0) << "one signal only";
      found = number;
    }
  }
  return found;
}

}  // namespace

TEST(signal_interrupt, works_with_the_number_asked_for) {
  auto opened = open_signal(SIGRTMIN + 3);
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  EXPECT_EQ(number_of(**opened), SIGRTMIN + 3);
}

TEST(signal_interrupt, leaves_a_handler_of_the_program_alone) {
  const ProgramHandler handler(SIGRTMIN + 4);
  auto opened = open_signal(SIGRTMIN + 4);
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().reason.find(std::to_string(SIGRTMIN + 4)), std::string::npos);
  EXPECT_EQ(opened.error().reason_code, ReasonCode::signal_taken);
  EXPECT_TRUE(handler.stands());
}

// Another thread may take it, in a call that the program does not expect to be interrupted.
TEST(signal_interrupt, lets_the_calls_of_other_threads_go_on) {
  const auto opened = open_signal(SIGRTMIN + 3);
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  struct sigaction now{};
  ASSERT_EQ(::sigaction(SIGRTMIN + 3, nullptr, &now), 0);
  EXPECT_NE(now.sa_flags & SA_RESTART, 0);
}

TEST(signal_interrupt, leaves_an_ignored_signal_alone) {
  const ProgramHandler handler(SIGRTMIN + 4, SIG_IGN);
  EXPECT_FALSE(open_signal(SIGRTMIN + 4).has_value());
}

TEST(signal_interrupt, chooses_another_when_its_first_choice_is_taken) {
  auto first = open_signal();
  ASSERT_TRUE(first.has_value());
  const int number = number_of(**first);
  const ProgramHandler handler(number);
  auto second = open_signal();
  ASSERT_TRUE(second.has_value()) << second.error().reason;
  EXPECT_NE(number_of(**second), number);
  EXPECT_TRUE(handler.stands());
}

TEST(signal_interrupt, says_so_when_none_is_free) {
  std::vector<std::unique_ptr<ProgramHandler>> handlers;
  handlers.push_back(std::make_unique<ProgramHandler>(SIGURG));
#ifdef SIGSTKFLT
  handlers.push_back(std::make_unique<ProgramHandler>(SIGSTKFLT));
#endif
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) {
    handlers.push_back(std::make_unique<ProgramHandler>(number));
  }
  auto opened = open_signal();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, errc::engine_unavailable);
  for (const auto& handler : handlers) EXPECT_TRUE(handler->stands());
}

TEST(signal_interrupt, refuses_what_cannot_be_waited_with) {
  for (const int number : {SIGKILL, SIGSTOP, SIGSEGV, -1, 65, 1000}) {
    const auto refused = open_signal(number);
    ASSERT_FALSE(refused.has_value()) << number;
    const bool caught = number != SIGKILL && number != SIGSTOP;
    EXPECT_EQ(refused.error().reason_code, caught ? ReasonCode::bad_value : ReasonCode::denied)
        << number;
  }
}

TEST(signal_interrupt, its_mask_keeps_what_the_thread_blocks) {
  sigset_t term;
  sigset_t before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &term, &before), 0);
  auto opened = open_signal(SIGRTMIN + 5);  // a number that this thread has not waited with yet
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(sigismember(&(*opened)->signal_mask()->set, SIGTERM), 1);
  EXPECT_EQ(sigismember(&(*opened)->signal_mask()->set, SIGRTMIN + 5), 0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// A queue of real-time signals that is full loses a directed one; the next interrupt must try
// again.
TEST(signal_interrupt, a_lost_signal_does_not_silence_the_next) {
  static int sent = 0;
  static bool full = true;
  sent = 0;
  full = true;
  os::System system = os::real_system();
  system.kill_thread = [](std::uint64_t, int) {
    ++sent;
    errno = full ? EAGAIN : 0;
    return full ? -1 : 0;
  };
  auto opened = demux::find_interrupt_strategy("signal")->factory({.system = &system});
  ASSERT_TRUE(opened.has_value());
  (*opened)->signal_mask();
  (*opened)->interrupt();
  full = false;
  (*opened)->interrupt();
  (*opened)->interrupt();
  EXPECT_EQ(sent, 2);
}

}  // namespace baton::test
