// The handlers that a program has registered for its signals, and its proactors.
#include <ace/Event_Handler.h>
#include <ace/Reactor.h>
#include <ace/Sig_Handler.h>

#include <csignal>
#include <system_error>

#include "support.hpp"

namespace baton::ace::test {
namespace {

struct Signalled final : ACE_Event_Handler {
  int handle_signal(int, siginfo_t*, ucontext_t*) override { return ++count, 0; }
  int count = 0;
};

/// A base class, so that they are there before the proactor.
class RegisteredBefore {
 protected:
  RegisteredBefore() {
    EXPECT_EQ(0, signals_.register_handler(SIGUSR1, &of_signals_));
    EXPECT_EQ(0, reactor_.register_handler(SIGUSR2, &of_the_reactor_));
  }
  ACE_Sig_Handler signals_;
  ACE_Reactor reactor_;
  Signalled of_signals_;
  Signalled of_the_reactor_;
};

class Signals : protected RegisteredBefore, public AceTest {};

// Otherwise they would end the program.
TEST_F(Signals, KeepTheirHandlersWhenAProactorIsMade) {
  ASSERT_EQ(0, std::raise(SIGUSR1));
  ASSERT_EQ(0, std::raise(SIGUSR2));
  EXPECT_EQ(1, of_signals_.count);
  EXPECT_EQ(1, of_the_reactor_.count);
  ACE_Time_Value time(0, 1'000);
  EXPECT_EQ(0, ace()->handle_events(time));
}

// ACE's own proactor takes them away.
TEST_F(Signals, KeepTheirHandlersWhenAProactorEnds) {
  static_cast<void>(bridge());  // only Baton's
  destroy();
  ASSERT_EQ(0, std::raise(SIGUSR1));
  EXPECT_EQ(1, of_signals_.count);
}

TEST_F(Signals, KeepTheirHandlersWhenAProactorCannotBeMade) {
  static_cast<void>(bridge());
  Config config;
  config.processors = {{.engine = "unknown"}};
  EXPECT_THROW(Proactor{config}, std::system_error);
  ASSERT_EQ(0, std::raise(SIGUSR1));
  EXPECT_EQ(1, of_signals_.count);
}

}  // namespace
}  // namespace baton::ace::test
