// Registrations that end: while they wait, while they are queued, while they run.
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>

#include "baton/error.hpp"
#include "baton/signal_set.hpp"
#include "harness.hpp"
#include "os/system.hpp"

namespace baton::test {

TEST_P(reactor, on_close_is_the_last_call) {
  struct Suicidal final : Reader {
    explicit Suicidal(int& counter) : gone(counter) {}
    ~Suicidal() override { ++gone; }
    void on_close(NativeHandle, std::error_code) noexcept override { delete this; }
    int& gone;
  };
  const SocketPair pair;
  int gone = 0;
  auto* const handler = new Suicidal(gone);
  handler->next = Next::remove;
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, *handler).has_value());
  pair.make_readable();
  run_until([&] { return gone == 1; });
  EXPECT_EQ(loop().size(), 0U);
}

TEST_P(reactor, a_shared_handler_lives_until_on_close) {
  const SocketPair pair;
  auto handler = std::make_shared<Reader>();
  const std::weak_ptr<Reader> watch = handler;
  const Reader& reader = *handler;
  const auto key = loop().add(pair.ours.get(), Interest::in, std::move(handler));
  ASSERT_TRUE(key.has_value());
  pair.make_readable();
  run_until([&] { return reader.calls == 1; });
  EXPECT_EQ(loop().remove(*key), Reactor::Removal::done);
  EXPECT_TRUE(watch.expired());
}

TEST_P(reactor, its_end_closes_all) {
  const std::array<SocketPair, 3> pairs;
  auto& readers = make<std::array<Reader, 3>>();
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(loop().add(pairs[i].ours.get(), Interest::in, readers[i]).has_value());
  }
  pairs[1].make_readable();
  replace({});
  for (const Reader& reader : readers) EXPECT_EQ(reader.closed, 1);
}

TEST_P(reactor, one_that_removes_itself_is_closed_when_it_returns) {
  const SocketPair pair;
  RegistrationKey own;
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle) {
    EXPECT_EQ(loop().remove(own), Reactor::Removal::when_it_returns);
    EXPECT_EQ(loop().remove(own), Reactor::Removal::unknown);
    EXPECT_EQ(reader.closed, 0);
  };
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  own = *key;
  pair.make_readable();
  run_until([&] { return reader.closed == 1; });
  EXPECT_EQ(reader.calls, 1);
}

TEST_P(reactor, one_that_is_queued_is_not_called_after_its_removal) {
  std::array<SocketPair, 2> pairs;
  std::array<RegistrationKey, 2> keys;
  auto& readers = make<std::array<Reader, 2>>();
  for (std::size_t i = 0; i < 2; ++i) {
    readers[i].also = [&, i](NativeHandle) {
      EXPECT_EQ(loop().remove(keys[1 - i]), Reactor::Removal::done);
    };
    const auto key = loop().add(pairs[i].ours.get(), Interest::in, readers[i]);
    ASSERT_TRUE(key.has_value());
    keys[i] = *key;
  }
  for (const SocketPair& pair : pairs) pair.make_readable();
  run_until([&] { return readers[0].calls + readers[1].calls > 0; });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(readers[0].calls + readers[1].calls, 1);
  EXPECT_EQ(readers[0].closed + readers[1].closed, 1);
}

// A descriptor was found ready. Before its turn its number goes to another file, which is not
// ready: the report is not for that file.
TEST_P(reactor, a_reused_number_is_another_registration) {
  for (int round = 0; round < 20; ++round) {
    std::array<SocketPair, 2> pairs;
    SocketPair fresh;
    std::array<RegistrationKey, 2> keys;
    auto& readers = make<std::array<Reader, 2>>();
    auto& successor = make<Reader>();
    RegistrationKey successor_key;
    for (std::size_t i = 0; i < 2; ++i) {
      readers[i].also = [&, i](NativeHandle) {
        if (successor_key.generation != 0) return;
        const int number = pairs[1 - i].ours.get();
        EXPECT_EQ(loop().remove(keys[1 - i]), Reactor::Removal::done);
        EXPECT_EQ(::dup2(fresh.ours.get(), number), number);
        const auto key = loop().add(number, Interest::in, successor);
        ASSERT_TRUE(key.has_value()) << key.error().message();
        successor_key = *key;
        EXPECT_FALSE(successor_key == keys[1 - i]);
      };
      const auto key = loop().add(pairs[i].ours.get(), Interest::in, readers[i]);
      ASSERT_TRUE(key.has_value());
      keys[i] = *key;
    }
    for (const SocketPair& pair : pairs) pair.make_readable();
    run_until([&] { return successor_key.generation != 0; });
    EXPECT_EQ(run_what_is_there(), 0U);
    EXPECT_EQ(successor.calls, 0);
    fresh.make_readable();
    run_until([&] { return successor.calls == 1; });
    EXPECT_EQ(successor.bytes, 1U);
    for (const RegistrationKey key : keys) static_cast<void>(loop().remove(key));
    EXPECT_EQ(loop().remove(successor_key), Reactor::Removal::done);
  }
}

TEST_P(reactor, a_number_may_be_registered_again_while_the_old_handler_runs) {
  const SocketPair pair;
  RegistrationKey own;
  auto& next = make<Reader>();
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle fd) {
    EXPECT_EQ(loop().remove(own), Reactor::Removal::when_it_returns);
    ASSERT_TRUE(loop().add(fd, Interest::in, next).has_value());
  };
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  own = *key;
  pair.make_readable();
  run_until([&] { return reader.closed == 1; });
  pair.make_readable();
  run_until([&] { return next.calls == 1; });
  EXPECT_EQ(reader.calls, 1);
  EXPECT_EQ(loop().size(), 1U);
}

TEST_P(reactor, an_old_key_names_no_registration) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto old = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(old.has_value());
  EXPECT_EQ(loop().remove(*old), Reactor::Removal::done);
  const auto fresh = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(loop().remove(*old), Reactor::Removal::unknown);
  EXPECT_EQ(loop().remove_and_wait(*old), Reactor::Removal::unknown);
  EXPECT_TRUE(loop().suspend(*old));
  EXPECT_TRUE(loop().notify(*old, Interest::in));
  EXPECT_EQ(loop().remove({}), Reactor::Removal::unknown);
  EXPECT_EQ(loop().remove({1'000'000, 1}), Reactor::Removal::unknown);
  EXPECT_EQ(loop().size(), 1U);
}

// Its place belongs to another by then, whose on_close this thread is in.
TEST_P(reactor, removal_waits_for_no_later_registration) {
  struct Closed : EventHandler {
    std::function<void()> closed;
    void on_close(NativeHandle, std::error_code) noexcept override { closed(); }
  };
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto old = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(old.has_value());
  EXPECT_EQ(loop().remove(*old), Reactor::Removal::done);
  auto& later = make<Closed>();
  bool closed = false;
  later.closed = [&] {
    EXPECT_EQ(loop().remove_and_wait(*old), Reactor::Removal::unknown);
    closed = true;
  };
  const auto key = loop().add(pair.ours.get(), Interest::in, later);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->index, old->index);
  EXPECT_EQ(loop().remove(*key), Reactor::Removal::done);
  EXPECT_TRUE(closed);
}

std::atomic<bool> watches_fail{false};

const os::System& failing_watches() {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.epoll_ctl = [](int set, int operation, int fd, epoll_event* event) {
      if (watches_fail && operation != EPOLL_CTL_DEL) return errno = ENOMEM, -1;
      return os::real_system().epoll_ctl(set, operation, fd, event);
    };
    return made;
  }();
  return system;
}

// A registration that cannot be watched any more ends by itself. The only thread has its on_close
// still to call, so it must not wait for that.
TEST(reactor_removal, waits_for_no_on_close_that_is_left_to_its_own_thread) {
  const SocketPair first, second;
  Reader ends, removes;
  ReactorConfig config;
  config.wait = "epoll";
  config.system = &failing_watches();
  auto opened = Reactor::open(config);
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  Reactor& loop = **opened;
  const auto ending = loop.add(first.ours.get(), Interest::in, ends);
  ASSERT_TRUE(ending.has_value());
  ASSERT_TRUE(loop.add(second.ours.get(), Interest::in, removes).has_value());
  ends.also = [&](NativeHandle) {
    EXPECT_FALSE(loop.change(*ending, Interest::both));
    watches_fail = true;
    second.make_readable();
  };
  removes.also = [&](NativeHandle) {
    EXPECT_EQ(ends.closed, 0);
    EXPECT_EQ(loop.remove_and_wait(*ending), Reactor::Removal::unknown);
    EXPECT_EQ(ends.closed, 1);
  };
  first.make_readable();
  const Deadline limit = at_last();
  while (removes.calls == 0 && is_ahead(limit)) {
    ASSERT_TRUE(loop.handle_events(limit).has_value());
  }
  watches_fail = false;
  EXPECT_EQ(removes.calls, 1);
  EXPECT_EQ(ends.why, std::errc::not_enough_memory);
  EXPECT_EQ(loop.size(), 1U);
}

TEST(reactor_removal, of_a_signal_that_cannot_be_watched_any_more_is_told) {
  struct Ends final : Reader {
    Next on_signal(int) override {
      watches_fail = true;
      return ++calls, Next::keep;
    }
  };
  ASSERT_FALSE(SignalSet::block({SIGUSR1}));
  using Resumption = ReactorTuning::Resumption;
  for (const Resumption resumption : {Resumption::late, Resumption::immediate}) {
    Ends ends;
    ReactorConfig config;
    config.wait = "epoll";
    config.system = &failing_watches();
    config.tuning.suspension = ReactorTuning::Suspension::eager;
    config.tuning.resumption = resumption;
    auto opened = Reactor::open(config);
    ASSERT_TRUE(opened.has_value()) << opened.error().reason;
    Reactor& loop = **opened;
    ASSERT_FALSE(loop.add_signal(SIGUSR1, ends));
    ASSERT_EQ(::raise(SIGUSR1), 0);
    for (int i = 0; i < 100 && ends.closed == 0; ++i) {
      static_cast<void>(loop.handle_events(Deadline::immediately()));
    }
    watches_fail = false;
    EXPECT_EQ(ends.calls, 1);
    EXPECT_EQ(ends.closed, 1);
    EXPECT_EQ(ends.why, std::errc::not_enough_memory);
    EXPECT_EQ(loop.remove_signal(SIGUSR1), std::errc::no_such_file_or_directory);
  }
}

TEST_P(reactor, removal_waits_for_a_call_in_another_thread) {
  const SocketPair pair;
  std::atomic<bool> entered{false};
  std::atomic<bool> go_on{false};
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle) {
    entered = true;
    wait_for([&] { return go_on.load(); });
  };
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  start_threads(2);
  pair.make_readable();
  wait_for([&] { return entered.load(); });
  std::atomic<bool> removed{false};
  std::thread remover([&] {
    EXPECT_EQ(loop().remove_and_wait(*key), Reactor::Removal::when_it_returns);
    EXPECT_EQ(reader.closed, 1);
    removed = true;
  });
  wait_for([&] { return loop().suspend(*key) == std::errc::no_such_file_or_directory; });
  EXPECT_FALSE(removed);
  // A later call has nothing to remove, and waits as well.
  std::atomic<bool> removed_again{false};
  std::thread second([&] {
    EXPECT_EQ(loop().remove_and_wait(*key), Reactor::Removal::unknown);
    EXPECT_EQ(reader.closed, 1);
    removed_again = true;
  });
  EXPECT_EQ(reader.closed, 0);
  go_on = true;
  wait_for([&] { return removed && removed_again; });
  remover.join();
  second.join();
  join_threads();
}

TEST_P(reactor, a_handler_may_end_with_its_registration_at_any_time) {
  constexpr int rounds = 200;
  start_threads(3);
  for (int i = 0; i < rounds; ++i) {
    const SocketPair pair;
    auto handler = std::make_unique<Reader>();
    const auto key = loop().add(pair.ours.get(), Interest::in, *handler);
    ASSERT_TRUE(key.has_value());
    pair.make_readable();
    if (i % 2 == 0) wait_for([&] { return handler->calls > 0; });
    static_cast<void>(loop().remove_and_wait(*key));
    EXPECT_EQ(handler->closed, 1);
    EXPECT_FALSE(handler->overlapped);
  }
  join_threads();
  EXPECT_EQ(loop().size(), 0U);
}

// The destructor of a handler that waits to be notified may call the reactor, which is being
// destroyed.
TEST_P(reactor, its_end_destroys_notified_handlers_that_purge) {
  struct Purges final : EventHandler {
    Purges(Reactor& reactor, int& counter) : loop(reactor), gone(counter) {}
    ~Purges() override { static_cast<void>(loop.purge(this)), ++gone; }
    Reactor& loop;
    int& gone;
  };
  int gone = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_FALSE(loop().notify(std::make_shared<Purges>(loop(), gone), Interest::in));
  }
  replace({});
  EXPECT_EQ(gone, 10);
}

// In every state of the first: it waits, is suspended, or runs.
TEST_P(reactor, a_descriptor_is_registered_once) {
  const SocketPair pair;
  auto& second = make<Reader>();
  const auto is_refused = [&] {
    const auto key = loop().add(pair.ours.get(), Interest::in, second);
    return !key && key.error() == std::errc::file_exists;
  };
  auto& first = make<Reader>();
  first.also = [&](NativeHandle) { EXPECT_TRUE(is_refused()); };
  const auto key = loop().add(pair.ours.get(), Interest::in, first);
  ASSERT_TRUE(key.has_value());
  EXPECT_TRUE(is_refused());
  EXPECT_FALSE(loop().suspend(*key));
  EXPECT_TRUE(is_refused());
  EXPECT_FALSE(loop().resume(*key));
  EXPECT_FALSE(loop().change(*key, Interest::none));
  EXPECT_TRUE(is_refused());
  EXPECT_FALSE(loop().change(*key, Interest::in));
  for (int i = 1; i <= 2; ++i) {
    pair.make_readable();
    run_until([&] { return first.bytes == static_cast<std::size_t>(i); });
  }
  EXPECT_EQ(first.closed, 0);
  EXPECT_EQ(loop().remove(*key), Reactor::Removal::done);
  EXPECT_TRUE(loop().add(pair.ours.get(), Interest::in, second).has_value());
}

TEST_P(reactor, the_table_has_an_end) {
  ReactorConfig config;
  config.wait = GetParam();
  config.handles_max = UINT32_MAX;
  const auto opened = Reactor::open(config);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, errc::bad_configuration);
}

}  // namespace baton::test
