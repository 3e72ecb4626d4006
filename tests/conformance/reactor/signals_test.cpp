// Signals as events.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "baton/error.hpp"
#include "baton/signal_set.hpp"
#include "harness.hpp"
#include "os/system.hpp"
#include "support/no_signalfd.hpp"

namespace baton::test {

// Sent to this thread, which runs the reactor: so nothing but signalfd can take them.
TEST_P(reactor, calls_for_signals) {
  ASSERT_FALSE(SignalSet::block({SIGUSR1, SIGUSR2}));
  std::string seen;
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [&](int number) {
    EXPECT_EQ(number, SIGUSR1);
    seen += '1';
    return Next::keep;
  }));
  ASSERT_FALSE(loop().add_signal(SIGUSR2, [&](int) { return seen += '2', Next::remove; }));
  EXPECT_EQ(loop().size(), 0U);  // internal registrations do not count
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(::raise(SIGUSR1), 0);
    run_until([&] { return seen.size() == static_cast<std::size_t>(i) + 1; });
  }
  ASSERT_EQ(::raise(SIGUSR2), 0);
  run_until([&] { return seen.size() == 3; });
  EXPECT_EQ(seen, "112");
  EXPECT_EQ(loop().remove_signal(SIGUSR2), std::errc::no_such_file_or_directory);
  EXPECT_FALSE(loop().remove_signal(SIGUSR1));
  EXPECT_EQ(run_what_is_there(), 0U);
}

TEST_P(reactor, signals_that_cannot_be_had) {
  auto nothing = [](int) { return Next::keep; };
  EXPECT_EQ(loop().add_signal(SIGKILL, nothing), std::errc::invalid_argument);
  EXPECT_EQ(loop().add_signal(0, nothing), std::errc::invalid_argument);
  EXPECT_EQ(loop().remove_signal(SIGUSR1), std::errc::no_such_file_or_directory);
  for (const int number : {-1, 0, 65, 1'000'000}) {
    EXPECT_EQ(loop().remove_signal(number), std::errc::no_such_file_or_directory) << number;
  }
  EXPECT_FALSE(loop().add_signal(SIGUSR1, nothing));
  EXPECT_EQ(loop().add_signal(SIGUSR1, nothing), std::errc::file_exists);
  EXPECT_EQ(loop().remove_signal(SIGUSR2), std::errc::no_such_file_or_directory);
}

TEST_P(reactor, a_program_that_is_started_gets_no_descriptor_of_a_signal) {
  const auto before = inherited_descriptors();
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [](int) { return Next::keep; }));
  EXPECT_EQ(inherited_descriptors(), before);
}

bool is_blocked(int number) {
  sigset_t now;
  EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
  return sigismember(&now, number) == 1;
}

void unblock(int number) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  EXPECT_EQ(::pthread_sigmask(SIG_UNBLOCK, &one, nullptr), 0);
}

// If SIGINT stayed blocked, it would no longer end the program.
TEST_P(reactor, signals_that_are_refused_are_not_blocked) {
  auto nothing = [](int) { return Next::keep; };
  ReactorConfig config;
  config.handles_max = 1;
  config.system = &without_signalfd();
  replace(config);
  unblock(SIGUSR1);
  no_signalfd = true;
  EXPECT_EQ(loop().add_signal(SIGUSR1, nothing), std::errc::too_many_files_open);
  no_signalfd = false;
  EXPECT_FALSE(is_blocked(SIGUSR1));
  const SocketPair pair;
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, make<Reader>()).has_value());
  EXPECT_EQ(loop().add_signal(SIGUSR1, nothing), errc::no_free_handles);
  EXPECT_FALSE(is_blocked(SIGUSR1));
  // The program has blocked it before.
  ASSERT_FALSE(SignalSet::block({SIGUSR1}));
  EXPECT_EQ(loop().add_signal(SIGUSR1, nothing), errc::no_free_handles);
  EXPECT_TRUE(is_blocked(SIGUSR1));
}

TEST_P(reactor, signals_of_plain_handlers_and_dropped_ones) {
  struct Plain : EventHandler {
    Next on_signal(int number) override {
      ++calls;
      return EventHandler::on_signal(number);  // ends the registration
    }
    int calls = 0;
  };
  ASSERT_FALSE(SignalSet::block({SIGUSR1, SIGUSR2}));
  auto& plain = make<Plain>();
  int dropped = 0;
  ASSERT_FALSE(loop().add_signal(SIGUSR1, plain));
  ASSERT_FALSE(loop().add_signal(SIGUSR2, [&](int) { return ++dropped, Next::drop; }));
  for (const int number : {SIGUSR1, SIGUSR2}) {
    ASSERT_EQ(::raise(number), 0);
    run_until([&] { return (number == SIGUSR1 ? plain.calls : dropped) == 1; });
    EXPECT_EQ(loop().remove_signal(number), std::errc::no_such_file_or_directory);
  }
}

TEST_P(reactor, signals_that_the_system_refuses) {
  static std::atomic<bool> refuses_mask, refuses_descriptor, refuses_read;
  refuses_mask = refuses_descriptor = refuses_read = false;
  os::System system = os::real_system();
  system.thread_sigmask = [](int how, const sigset_t* set, sigset_t* old) {
    return refuses_mask ? EPERM : os::real_system().thread_sigmask(how, set, old);
  };
  system.signalfd = [](int fd, const sigset_t* set, int flags) {
    if (refuses_descriptor) return errno = EMFILE, -1;
    return os::real_system().signalfd(fd, set, flags);
  };
  system.read = [](int fd, void* to, std::size_t size) -> ssize_t {
    if (refuses_read && size >= 128) return errno = EAGAIN, refuses_read = false, -1;
    return os::real_system().read(fd, to, size);
  };
  replace({.handles_max = 1, .system = &system});
  int calls = 0;
  const auto count = [&](int) { return ++calls, Next::keep; };
  EXPECT_EQ(loop().add_signal(SIGSTOP, count), std::errc::invalid_argument);
  EXPECT_EQ(loop().add_signal(SIGUSR1, std::shared_ptr<EventHandler>{}),
            std::errc::invalid_argument);
  refuses_mask = true;
  EXPECT_EQ(loop().add_signal(SIGUSR1, count), std::errc::operation_not_permitted);
  refuses_mask = false;
  refuses_descriptor = true;
  EXPECT_EQ(loop().add_signal(SIGUSR1, count), std::errc::too_many_files_open);
  refuses_descriptor = false;
  {
    const SocketPair pair;
    auto& reader = make<Reader>();
    const auto key = loop().add(pair.ours.get(), Interest::in, reader);
    ASSERT_TRUE(key.has_value());
    EXPECT_EQ(loop().add_signal(SIGUSR1, count), errc::no_free_handles);
    EXPECT_EQ(loop().remove(*key), Reactor::Removal::done);
  }
  ASSERT_FALSE(loop().add_signal(SIGUSR1, count)) << "the others have left nothing behind";
  refuses_read = true;
  ASSERT_EQ(::raise(SIGUSR1), 0);
  run_until([&] { return calls == 1; });
  EXPECT_FALSE(refuses_read);
  replace({});  // before its system goes
}

// The destructor of a refused callback is user code: it may call the reactor.
TEST_P(reactor, a_refused_signal_callback_is_destroyed_without_a_lock) {
  struct CallsAtEnd {
    CallsAtEnd(Reactor& reactor, int& counter) : loop(reactor), ended(counter) {}
    ~CallsAtEnd() { static_cast<void>(loop.remove_signal(SIGUSR2)), ++ended; }
    Reactor& loop;
    int& ended;
  };
  int ended = 0;
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [](int) { return Next::keep; }));
  const auto keeps = [&] {
    return [held = std::make_shared<CallsAtEnd>(loop(), ended)](int) { return Next::keep; };
  };
  EXPECT_EQ(loop().add_signal(SIGUSR1, keeps()), std::errc::file_exists);
  EXPECT_EQ(loop().add_signal(SIGKILL, keeps()), std::errc::invalid_argument);
  EXPECT_EQ(ended, 2);
}

// A handler that has replaced itself answers for its own entry, not for the new one.
TEST_P(reactor, a_signal_handler_that_replaces_itself_keeps_the_new_one) {
  ASSERT_FALSE(SignalSet::block({SIGUSR1}));
  int first = 0;
  int second = 0;
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [&](int) {
    ++first;
    EXPECT_FALSE(loop().remove_signal(SIGUSR1));
    EXPECT_FALSE(loop().add_signal(SIGUSR1, [&](int) { return ++second, Next::keep; }));
    return Next::remove;
  }));
  ASSERT_EQ(::raise(SIGUSR1), 0);
  run_until([&] { return first == 1; });
  EXPECT_FALSE(loop().remove_signal(SIGUSR1)) << "the new one is still there";
  EXPECT_EQ(second, 0);
}

TEST_P(reactor, a_slow_signal_handler_holds_up_no_other) {
  ASSERT_FALSE(SignalSet::block({SIGUSR1, SIGUSR2}));
  std::atomic<bool> second{false};
  std::atomic<bool> first{false};
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [&](int) {
    wait_for([&] { return second.load(); });
    first = true;
    return Next::keep;
  }));
  ASSERT_FALSE(loop().add_signal(SIGUSR2, [&](int) { return second = true, Next::keep; }));
  start_threads(3);
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  ASSERT_EQ(::kill(::getpid(), SIGUSR2), 0);
  wait_for([&] { return first.load(); });
  join_threads();
}

TEST_P(reactor, the_removal_of_a_signal_waits_for_its_call) {
  struct Plain final : EventHandler {
    std::atomic<bool> entered{false};
    std::atomic<bool> go_on{false};
    std::atomic<bool> left{false};
    Next on_signal(int) override {
      entered = true;
      wait_for([&] { return go_on.load(); });
      left = true;
      return Next::keep;
    }
  };
  ASSERT_FALSE(SignalSet::block({SIGUSR1}));
  Plain plain;
  ASSERT_FALSE(loop().add_signal(SIGUSR1, plain));
  start_threads(2);
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  wait_for([&] { return plain.entered.load(); });
  std::thread remover([&] {
    EXPECT_FALSE(loop().remove_signal_and_wait(SIGUSR1));
    EXPECT_TRUE(plain.left);
  });
  // Its place is free as soon as it is removed.
  wait_for([&] { return !loop().add_signal(SIGUSR1, [](int) { return Next::keep; }); });
  plain.go_on = true;
  remover.join();
  join_threads();
}

TEST_P(reactor, a_signals_handler_that_answers_remove_is_closed) {
  struct Closes final : Reader {
    Next answer = Next::remove;
    Next on_signal(int) override { return ++calls, answer; }
    void on_close(NativeHandle fd, std::error_code error) noexcept override {
      EXPECT_EQ(fd, invalid_handle);
      Reader::on_close(fd, error);
    }
  };
  ASSERT_FALSE(SignalSet::block({SIGUSR1}));
  for (const Next answer : {Next::remove, Next::drop}) {
    auto& handler = make<Closes>();
    handler.answer = answer;
    ASSERT_FALSE(loop().add_signal(SIGUSR1, handler));
    ASSERT_EQ(::raise(SIGUSR1), 0);
    run_until([&] { return handler.calls == 1; });
    EXPECT_EQ(handler.closed, answer == Next::remove ? 1 : 0);
    EXPECT_EQ(loop().remove_signal(SIGUSR1), std::errc::no_such_file_or_directory);
    EXPECT_EQ(loop().size(), 0U);
  }
}

}  // namespace baton::test
