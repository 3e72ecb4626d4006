// The handlers that a program has registered for its signals, and its proactors.
#include <ace/Event_Handler.h>
#include <ace/Reactor.h>
#include <ace/Sig_Handler.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <system_error>
#include <utility>

#include "support.hpp"
#include "support/sleeping_thread.hpp"

namespace baton::ace::test {
namespace {

struct Signalled final : ACE_Event_Handler {
  int handle_signal(int, siginfo_t*, ucontext_t*) override {
    if (action) action();
    return ++count, 0;
  }
  std::function<void()> action;
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

/// Calls a function in a signal handler that interrupts a thread in its wait for events.
class SignalsDuringAWait : public Signals, protected ACE_Handler {
 protected:
  /// The thread leaves the event loop after one event.
  void interrupt(std::function<void()> function) {
    of_signals_.action = std::move(function);
    const int before = of_signals_.count;
    std::atomic<bool> waits{false};
    baton::test::WatchedThread waiter([&] {
      waits = true;
      EXPECT_EQ(1, ace()->handle_events());
    });
    waiter.until_asleep([&] { return waits.load(); });
    ASSERT_EQ(0, ::syscall(SYS_tgkill, ::getpid(), waiter.number(), SIGUSR1));
    waiter.join();
    EXPECT_EQ(before + 1, of_signals_.count);
  }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    error_ = result.error();
  }
  u_long error_ = 0;
};

// As a program does that ends its event loop so.
TEST_F(SignalsDuringAWait, MayPost) {
  for (int round = 0; round < 3; ++round) {
    bool came = false;
    auto* const posted = new PostedCall(*this, [&came] { came = true; });
    interrupt([&] { EXPECT_EQ(0, implementation().post_completion(posted)); });
    EXPECT_TRUE(came);
  }
}

TEST_F(SignalsDuringAWait, MayCancel) {
  const SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(*this, pair.first, nullptr, ace()));
  for (int round = 0; round < 3; ++round) {
    ACE_Message_Block block(10);
    ASSERT_EQ(0, reader.read(block, 10));
    interrupt([&] { EXPECT_EQ(0, reader.cancel()); });
    EXPECT_EQ(static_cast<u_long>(ECANCELED), std::exchange(error_, 0));
  }
}

}  // namespace
}  // namespace baton::ace::test
