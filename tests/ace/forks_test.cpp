// Forks: the child of a fork closes and deletes the parent's proactor, at any moment of the
// parent's threads.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "support.hpp"

namespace baton::ace::test {
namespace {

/// Its end lasts until the test says so.
class LastingResult final : public ACE_POSIX_Asynch_Result {
 public:
  LastingResult(ACE_Handler& handler, std::promise<void>& ends, std::future<void> may_end)
      : ACE_POSIX_Asynch_Result(handler.proxy(), nullptr, ACE_INVALID_HANDLE, 0, 0, 0, 0),
        ends_(ends),
        may_end_(std::move(may_end)) {}
  ~LastingResult() override {
    ends_.set_value();
    may_end_.wait();
  }
  void complete(std::size_t, int, const void*, u_long) override {}

 private:
  std::promise<void>& ends_;
  std::future<void> may_end_;
};

class Forks : public AceTest {
 protected:
  /// The exit code of the child, or -1 for a signal: a lock that is held for ever ends by SIGALRM.
  template <class Function>
  static int in_child(Function&& function) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(static_cast<unsigned>(patience.count()));
      function();
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(child, ::waitpid(child, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  ACE_Handler handler_;
};

// The closing thread holds the locks of the bridge while it deletes what nobody has taken.
TEST_F(Forks, ChildTakesNoLockThatTheClosingThreadHolds) {
  std::promise<void> ends;
  std::promise<void> may_end;
  auto* const result = new LastingResult(handler_, ends, may_end.get_future());
  ASSERT_EQ(0, bridge().post_completion(result));
  std::thread closing{[&] { EXPECT_EQ(0, bridge().close()); }};
  ends.get_future().wait();
  EXPECT_EQ(0, in_child([&] { delete &bridge(); }));
  may_end.set_value();
  closing.join();
}

// The allocators of the sanitizers have locks that another thread may hold at a fork.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A thread is inside the bridge at most of these forks.
TEST_F(Forks, ChildTakesNoLockThatAPostingThreadHolds) {
  Proactor& proactor = bridge();
  std::atomic<bool> end{false};
  std::thread posting{[&] {
    while (!end) EXPECT_EQ(0, proactor.post_completion(new PostedCall(handler_, [] {})));
  }};
  std::thread driving{[&] {
    while (!end) {
      ACE_Time_Value wait{0, 1'000};
      EXPECT_NE(-1, ace()->handle_events(wait));
    }
  }};
  int wrong = 0;
  constexpr int forks = 20;
  for (int i = 0; i < forks; ++i) wrong += in_child([&] { delete &proactor; }) != 0 ? 1 : 0;
  EXPECT_EQ(0, wrong);
  end = true;
  posting.join();
  driving.join();
}
#endif

}  // namespace
}  // namespace baton::ace::test
