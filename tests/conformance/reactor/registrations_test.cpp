// Calls of handlers: their reasons, their order, and the effect of their return values.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>
#include <stdexcept>

#include "baton/config.hpp"
#include "baton/error.hpp"
#include "baton/limits.hpp"
#include "harness.hpp"
#include "os/system.hpp"
#include "support/every_call.hpp"

namespace baton::test {

BATON_EVERY_REACTOR();

namespace {

/// Two connected TCP sockets, for what UNIX sockets do not have.
SocketPair tcp_pair() {
  SocketPair pair;
  const Fd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  pair.peer = Fd(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(::connect(pair.peer.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  pair.ours = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
  EXPECT_GE(pair.ours.get(), 0);
  return pair;
}

}  // namespace

TEST_P(reactor, says_what_it_is) {
  EXPECT_EQ(loop().info().name, GetParam());
  EXPECT_EQ(loop().size(), 0U);
  EXPECT_FALSE(loop().interrupt_name().empty());
}

TEST_P(reactor, says_why_it_cannot_be_opened) {
  const auto why_not = [](ReactorTuning tuning) {
    ReactorConfig config;
    config.wait = GetParam();
    config.tuning = tuning;
    const auto made = Reactor::open(config);
    return made ? std::error_code{} : made.error().code;
  };
  using Resumption = ReactorTuning::Resumption;
  EXPECT_EQ(why_not({.reports_max = 0}), errc::bad_configuration);
  EXPECT_EQ(why_not({.reports_max = limits::reports_max + 1}), errc::bad_configuration);
  EXPECT_EQ(why_not({.resumption = Resumption::token}), errc::bad_configuration);
  EXPECT_EQ(why_not({.keep_lead = true, .token_line = true}), errc::bad_configuration);
  EXPECT_FALSE(why_not({.resumption = Resumption::token, .keep_lead = false, .token_line = true}));
  const auto nobody = Reactor::open({.wait = "none-such"});
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code, errc::unknown_name);
}

TEST_P(reactor, takes_what_it_needs_from_a_proactors_configuration) {
  EXPECT_EQ(ReactorConfig::from(Config{}).wait, "auto");
  Config base;
  base.handles_max = 5;
  base.understudy_look_us = 77;
  const auto config = Config::parse("wait_signal=40,interrupt_signal=41,wait=" + GetParam(), base);
  ASSERT_TRUE(config.has_value()) << config.error().reason;
  const ReactorConfig made = ReactorConfig::from(*config);
  EXPECT_EQ(made.wait, GetParam());
  EXPECT_EQ(made.wait_signal, 40);
  EXPECT_EQ(made.interrupt_signal, 41);
  EXPECT_EQ(made.handles_max, 5U);
  EXPECT_EQ(made.understudy_look_us, 77U);
}

// A strategy that is not available is replaced, which is reported.
TEST_P(reactor, tells_what_it_has_chosen) {
  os::System without = os::real_system();
  without.epoll_create1 = [](int) { return errno = ENOSYS, -1; };
  ReactorConfig config;
  config.system = &without;
  const auto made = Reactor::open(config);
  ASSERT_TRUE(made.has_value()) << made.error().reason;
  EXPECT_NE((*made)->info().name, "epoll");
  EXPECT_NE((*made)->explain().find("epoll"), std::string::npos) << (*made)->explain();
}

TEST_P(reactor, a_handler_that_says_nothing_wants_nothing) {
  const SocketPair pair;
  auto& plain = make<EventHandler>();
  for (const Interest one : {Interest::in, Interest::out, Interest::urgent}) {
    const auto key = loop().add(pair.ours.get(), one, plain);
    ASSERT_TRUE(key.has_value());
    ASSERT_FALSE(loop().notify(*key, one));
    run_until([&] { return loop().size() == 0; });
  }
  ASSERT_TRUE(loop().schedule(plain, Deadline::immediately(), std::chrono::milliseconds{1}));
  run_until([&] { return loop().timers() == 0; });
}

TEST_P(reactor, calls_when_readable) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value()) << key.error().message();
  EXPECT_EQ(run_what_is_there(), 0U);
  for (int i = 1; i <= 3; ++i) {
    pair.make_readable();
    run_until([&] { return reader.calls == i; });
  }
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(reader.calls, 3);
  EXPECT_EQ(loop().remove(*key), Reactor::Removal::done);
  EXPECT_EQ(reader.closed, 1);
}

TEST_P(reactor, calls_as_long_as_something_is_left) {
  const SocketPair pair;
  int calls = 0;
  const auto key = loop().add(pair.ours.get(), Interest::in, [&](NativeHandle fd, Interest) {
    char byte;
    EXPECT_EQ(::read(fd, &byte, 1), 1);
    ++calls;
    return Next::keep;
  });
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(::write(pair.peer.get(), "12345", 5), 5);
  run_until([&] { return calls == 5; });
  EXPECT_EQ(run_what_is_there(), 0U);
}

TEST_P(reactor, calls_when_writable) {
  const SocketPair pair;
  pair.fill();
  int calls = 0;
  const auto key = loop().add(pair.ours.get(), Interest::out, [&](NativeHandle, Interest what) {
    EXPECT_EQ(what, Interest::out);
    ++calls;
    return Next::drop;
  });
  ASSERT_TRUE(key.has_value());
  run_what_is_there();
  calls = 0;
  if (loop().size() == 0) {
    // An edge strategy may report missing room once; then the registration has ended.
    return;
  }
  char buffer[4096];
  while (::read(pair.peer.get(), buffer, sizeof buffer) > 0) {
  }
  run_until([&] { return calls == 1; });
  EXPECT_EQ(loop().size(), 0U);  // the last event was dropped
}

TEST_P(reactor, calls_for_urgent_data) {
  const SocketPair pair = tcp_pair();
  std::vector<Interest> seen;
  const auto key = loop().add(pair.ours.get(), Interest::in | Interest::urgent,
                              [&](NativeHandle fd, Interest what) {
                                char byte = 0;
                                if (what == Interest::urgent) {
                                  EXPECT_EQ(::recv(fd, &byte, 1, MSG_OOB), 1);
                                  EXPECT_EQ(byte, '!');
                                } else if (::recv(fd, &byte, 1, 0) < 0) {
                                  return Next::keep;
                                }
                                seen.push_back(what);
                                return Next::keep;
                              });
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(::send(pair.peer.get(), "!", 1, MSG_OOB), 1);
  run_until([&] { return !seen.empty(); });
  EXPECT_EQ(seen.front(), Interest::urgent);
  EXPECT_EQ(::send(pair.peer.get(), "x", 1, 0), 1);
  run_until([&] { return seen.back() == Interest::in; });
}

TEST_P(reactor, one_that_waits_for_urgent_data_alone_hears_of_the_end) {
  SocketPair pair = tcp_pair();
  int calls = 0;
  const auto key = loop().add(pair.ours.get(), Interest::urgent, [&](NativeHandle, Interest what) {
    EXPECT_EQ(what, Interest::urgent);
    ++calls;
    return Next::remove;
  });
  ASSERT_TRUE(key.has_value());
  const linger reset{1, 0};
  EXPECT_EQ(::setsockopt(pair.peer.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  pair.peer.close();
  run_until([&] { return calls == 1; });
}

TEST_P(reactor, a_hang_up_is_readable) {
  SocketPair pair;
  auto& reader = make<Reader>();
  reader.next = Next::remove;
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  pair.peer.close();
  run_until([&] { return reader.closed == 1; });
  EXPECT_EQ(reader.calls, 1);
  EXPECT_FALSE(reader.why);
  EXPECT_EQ(loop().size(), 0U);
}

TEST_P(reactor, room_comes_before_data) {
  const SocketPair pair;
  pair.make_readable();
  std::vector<Interest> seen;
  const auto key = loop().add(pair.ours.get(), Interest::both, [&](NativeHandle, Interest what) {
    seen.push_back(what);
    return what == Interest::in ? Next::remove : Next::keep;
  });
  ASSERT_TRUE(key.has_value());
  run_until([&] { return loop().size() == 0; });
  ASSERT_GE(seen.size(), 2U);
  EXPECT_EQ(seen.front(), Interest::out);
  EXPECT_EQ(seen.back(), Interest::in);
}

TEST_P(reactor, removed_by_the_first_of_two_calls_there_is_no_second) {
  struct Leaves : Reader {
    Next on_output(NativeHandle) override {
      EXPECT_EQ(from->remove(key), Reactor::Removal::when_it_returns);
      return Next::keep;
    }
    Reactor* from = nullptr;
    RegistrationKey key;
  };
  const SocketPair pair;
  auto& leaves = make<Leaves>();
  pair.make_readable();
  const auto key = loop().add(pair.ours.get(), Interest::both, leaves);
  ASSERT_TRUE(key.has_value());
  leaves.from = &loop();
  leaves.key = *key;
  // For both at once, whichever the system reports first.
  ASSERT_FALSE(loop().notify(*key, Interest::both));
  run_until([&] { return leaves.closed == 1; });
  EXPECT_EQ(leaves.calls, 0);
}

TEST_P(reactor, dropping_one_event_leaves_the_other) {
  const SocketPair pair;
  int in = 0;
  int out = 0;
  const auto key = loop().add(pair.ours.get(), Interest::both, [&](NativeHandle fd, Interest what) {
    if (what == Interest::out) return ++out, Next::drop;
    char byte;
    if (::read(fd, &byte, 1) == 1) ++in;
    return Next::keep;
  });
  ASSERT_TRUE(key.has_value());
  run_until([&] { return out == 1; });
  for (int i = 1; i <= 3; ++i) {
    pair.make_readable();
    run_until([&] { return in == i; });
  }
  EXPECT_EQ(out, 1);
}

TEST_P(reactor, again_comes_after_the_others) {
  const SocketPair first;
  const SocketPair second;
  std::string order;
  int left = 3;
  ASSERT_TRUE(loop()
                  .add(first.ours.get(), Interest::in,
                       [&](NativeHandle fd, Interest) {
                         char byte;
                         while (::read(fd, &byte, 1) == 1) {
                         }
                         order += 'a';
                         return --left > 0 ? Next::again : Next::keep;
                       })
                  .has_value());
  ASSERT_TRUE(loop()
                  .add(second.ours.get(), Interest::in,
                       [&](NativeHandle fd, Interest) {
                         char byte;
                         if (::read(fd, &byte, 1) == 1) order += 'b';
                         return Next::keep;
                       })
                  .has_value());
  EXPECT_EQ(::write(second.peer.get(), "12", 2), 2);
  first.make_readable();
  run_until([&] { return order.size() == 5; });
  // Between two turns of one registration the other has had its turn.
  EXPECT_NE(order.find("ab"), std::string::npos) << order;
  EXPECT_EQ(order.find("aa"), 3U) << order;
}

// Also when the system cannot report all of them at once, both when the handlers ask to be called
// again and when the system has to be polled.
TEST_P(reactor, every_registration_has_a_turn_before_any_has_two) {
  constexpr std::size_t count = 20;
  constexpr int each = 10;
  for (const std::uint32_t reports_max : {1U, 7U, 256U}) {
    for (const Next answer : {Next::keep, Next::again}) {
      SCOPED_TRACE(testing::Message() << "reports " << reports_max << ", answer "
                                      << (answer == Next::again ? "again" : "keep"));
      replace({.tuning = {.reports_max = reports_max}});
      const std::vector<SocketPair> pairs(count);
      std::vector<int> turns(count, 0);
      for (std::size_t i = 0; i < count; ++i) {
        const auto callback = [&turns, i, answer](NativeHandle fd, Interest) {
          char byte;
          if (::read(fd, &byte, 1) == 1) ++turns[i];
          return turns[i] < each ? answer : Next::keep;
        };
        ASSERT_TRUE(loop().add(pairs[i].ours.get(), Interest::in, callback).has_value());
        EXPECT_EQ(::write(pairs[i].peer.get(), "1234567890", each), each);
      }
      for (int done = 0; done < static_cast<int>(count) * each;) {
        const auto ran = loop().handle_one(at_last());
        ASSERT_TRUE(ran.has_value());
        done = std::accumulate(turns.begin(), turns.end(), 0);
        const auto [least, most] = std::minmax_element(turns.begin(), turns.end());
        ASSERT_LE(*most - *least, 1) << "after " << done;
      }
      replace({});
    }
  }
}

TEST_P(reactor, a_changed_mask_counts) {
  const SocketPair pair;
  pair.make_readable();
  std::vector<Interest> seen;
  const auto key = loop().add(pair.ours.get(), Interest::none, [&](NativeHandle, Interest what) {
    seen.push_back(what);
    return Next::keep;
  });
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_FALSE(loop().change(*key, Interest::in));
  run_until([&] { return !seen.empty(); });
  EXPECT_EQ(seen.back(), Interest::in);
  EXPECT_FALSE(loop().change(*key, Interest::out));
  seen.clear();
  run_until([&] { return !seen.empty(); });
  for (const Interest one : seen) EXPECT_EQ(one, Interest::out);
  EXPECT_FALSE(loop().change(*key, Interest::none));
  seen.clear();
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(loop().remove(*key), Reactor::Removal::done);
  EXPECT_EQ(loop().change(*key, Interest::in), std::errc::no_such_file_or_directory);
}

// The system can refuse a change of strategies that pass it on.
TEST_P(reactor, a_change_that_fails_leaves_the_watch_as_it_was) {
  replace({.system = &EveryCall::system()});
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(run_what_is_there(), 0U);
  for (const char* const call : {"epoll_ctl", "fcntl"}) {
    EveryCall::fail(call, EveryCall::any_descriptor, ENOMEM);
  }
  const std::error_code error = loop().change(*key, Interest::out);
  EveryCall::heal();
  EXPECT_EQ(error, GetParam().starts_with("epoll") ? std::errc::not_enough_memory : std::errc{});
  if (!error) {
    EXPECT_FALSE(loop().change(*key, Interest::in));
  }
  pair.make_readable();
  run_until([&] { return reader.bytes == 1; });
  replace({});
}

TEST_P(reactor, a_handler_may_change_its_own_mask) {
  const SocketPair pair;
  pair.make_readable();
  RegistrationKey own;
  std::vector<Interest> seen;
  const auto key = loop().add(pair.ours.get(), Interest::in, [&](NativeHandle fd, Interest what) {
    seen.push_back(what);
    EXPECT_FALSE(loop().change(own, what == Interest::in ? Interest::out : Interest::in));
    if (what == Interest::out) pair.make_readable();
    char byte;
    if (what == Interest::in) {
      EXPECT_EQ(::read(fd, &byte, 1), 1);
    }
    return Next::keep;
  });
  ASSERT_TRUE(key.has_value());
  own = *key;
  run_until([&] { return seen.size() >= 6; });
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(seen[i], i % 2 == 0 ? Interest::in : Interest::out);
}

// Found by the fuzzer: both events were found in one look, and the first call declines a second
// one.
TEST_P(reactor, a_mask_changed_by_the_first_of_two_calls_counts_for_the_second) {
  const SocketPair pair;
  pair.make_readable();
  RegistrationKey own;
  std::string seen;
  const auto key = loop().add(pair.ours.get(), Interest::both, [&](NativeHandle, Interest what) {
    seen += what == Interest::out ? 'o' : 'i';
    EXPECT_FALSE(loop().change(own, Interest::none));
    return Next::keep;
  });
  ASSERT_TRUE(key.has_value());
  own = *key;
  run_until([&] { return !seen.empty(); });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(seen.size(), 1U);
}

TEST_P(reactor, suspended_until_resumed) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(loop().suspend(*key));
    pair.make_readable();
    EXPECT_EQ(run_what_is_there(), 0U);
    EXPECT_FALSE(loop().resume(*key));
    run_until([&] { return reader.calls == i + 1; });
  }
  EXPECT_EQ(loop().remove(*key), Reactor::Removal::done);
  EXPECT_EQ(loop().suspend(*key), std::errc::no_such_file_or_directory);
  EXPECT_EQ(loop().resume(*key), std::errc::no_such_file_or_directory);
}

TEST_P(reactor, a_handler_may_suspend_itself) {
  const SocketPair pair;
  RegistrationKey own;
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle) { EXPECT_FALSE(loop().suspend(own)); };
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  own = *key;
  pair.make_readable();
  run_until([&] { return reader.calls == 1; });
  pair.make_readable();
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_FALSE(loop().resume(own));
  run_until([&] { return reader.calls == 2; });
}

TEST_P(reactor, suspending_forgets_queued_events) {
  std::array<SocketPair, 2> pairs;
  std::array<RegistrationKey, 2> keys;
  auto& readers = make<std::array<Reader, 2>>();
  for (std::size_t i = 0; i < 2; ++i) {
    readers[i].also = [&, i](NativeHandle) { EXPECT_FALSE(loop().suspend(keys[1 - i])); };
    const auto key = loop().add(pairs[i].ours.get(), Interest::in, readers[i]);
    ASSERT_TRUE(key.has_value());
    keys[i] = *key;
  }
  for (const SocketPair& pair : pairs) pair.make_readable();
  run_until([&] { return readers[0].calls + readers[1].calls > 0; });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(readers[0].calls + readers[1].calls, 1);
  for (const RegistrationKey key : keys) EXPECT_FALSE(loop().resume(key));
  readers[0].also = readers[1].also = nullptr;
  run_until([&] { return readers[0].calls + readers[1].calls == 2; });
}

// The bytes may be gone when it is watched for them again.
TEST_P(reactor, a_changed_mask_forgets_queued_events) {
  std::array<SocketPair, 2> pairs;
  std::array<RegistrationKey, 2> keys;
  auto& readers = make<std::array<Reader, 2>>();
  for (std::size_t i = 0; i < 2; ++i) {
    readers[i].also = [&, i](NativeHandle) {
      const std::size_t other = 1 - i;
      EXPECT_EQ(pairs[other].drain(), 1);
      EXPECT_FALSE(loop().change(keys[other], Interest::urgent));
      EXPECT_FALSE(loop().change(keys[other], Interest::in));
    };
    const auto key = loop().add(pairs[i].ours.get(), Interest::in, readers[i]);
    ASSERT_TRUE(key.has_value());
    keys[i] = *key;
  }
  for (const SocketPair& pair : pairs) pair.make_readable();
  run_until([&] { return readers[0].calls + readers[1].calls > 0; });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(readers[0].calls + readers[1].calls, 1);
}

TEST_P(reactor, descriptors_that_cannot_be_registered) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  EXPECT_EQ(loop().add(-1, Interest::in, reader).error(), std::errc::bad_file_descriptor);
  EXPECT_EQ(loop().add(pair.ours.get(), Interest::in, std::shared_ptr<EventHandler>{}).error(),
            std::errc::invalid_argument);
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(loop().add(pair.ours.get(), Interest::in, reader).error(), std::errc::file_exists);
  EXPECT_EQ(loop().size(), 1U);
  // The first one is not affected.
  pair.make_readable();
  run_until([&] { return reader.calls == 1; });
}

TEST_P(reactor, no_more_than_its_bound) {
  replace({.handles_max = 3});
  std::vector<SocketPair> pairs(4);
  auto& reader = make<Reader>();
  std::vector<RegistrationKey> keys;
  for (int i = 0; i < 3; ++i) {
    const auto key =
        loop().add(pairs[static_cast<std::size_t>(i)].ours.get(), Interest::in, reader);
    ASSERT_TRUE(key.has_value()) << key.error().message();
    keys.push_back(*key);
  }
  EXPECT_EQ(loop().add(pairs[3].ours.get(), Interest::in, reader).error(), errc::no_free_handles);
  EXPECT_EQ(loop().remove(keys[1]), Reactor::Removal::done);
  EXPECT_TRUE(loop().add(pairs[3].ours.get(), Interest::in, reader).has_value());
}

TEST_P(reactor, an_exception_comes_through_and_changes_nothing) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle) {
    if (reader.calls == 1) throw std::runtime_error("expected");
  };
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  pair.make_readable();
  EXPECT_THROW(static_cast<void>(loop().handle_events(at_last())), std::runtime_error);
  EXPECT_EQ(loop().size(), 1U);
  pair.make_readable();
  run_until([&] { return reader.calls == 2; });
}

TEST_P(reactor, an_exception_ends_run) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle) {
    if (reader.calls == 3) throw std::runtime_error("expected");
    pair.make_readable();
  };
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  pair.make_readable();
  EXPECT_THROW(static_cast<void>(loop().run()), std::runtime_error);
  EXPECT_EQ(reader.calls, 3);
}

TEST_P(reactor, time_passes_without_events) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  const Deadline soon = Deadline::after(std::chrono::milliseconds{5});
  EXPECT_EQ(loop().handle_events(soon).value_or(99), 0U);
  EXPECT_GE(Deadline::after(Duration{0}), soon);
}

}  // namespace baton::test
