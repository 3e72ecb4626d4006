// Reports: their contents, and their tokens.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "demux/registry.hpp"
#include "harness.hpp"

namespace baton::test {

BATON_EVERY_WAIT_STRATEGY();

TEST_P(wait_strategy, carries_its_name) { EXPECT_EQ(info().name, GetParam()); }

TEST_P(wait_strategy, nothing_to_report) {
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(0));
  EXPECT_TRUE(wait().empty());
}

TEST_P(wait_strategy, nothing_registered) { EXPECT_TRUE(wait().empty()); }

TEST_P(wait_strategy, level_report) {
  if (info().trigger != Trigger::level) GTEST_SKIP() << "declares not to be level-triggered";
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(3, 7));
  pair.make_readable();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ready_of(wait(), token_of(3, 7)), Interest::in);
  }
  EXPECT_EQ(pair.drain(), 1);
  EXPECT_TRUE(wait().empty());
}

TEST_P(wait_strategy, one_shot_report) {
  if (info().trigger != Trigger::one_shot) GTEST_SKIP() << "declares not to be one-shot";
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(3));
  pair.make_readable();
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(3)), Interest::in);
  EXPECT_TRUE(wait().empty());
  again(pair.ours.get(), Interest::in, token_of(3));
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(3)), Interest::in);
}

TEST_P(wait_strategy, edge_report) {
  if (info().trigger != Trigger::edge) GTEST_SKIP() << "declares not to be edge-triggered";
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(3));
  for (int i = 0; i < 3; ++i) {
    pair.make_readable();
    EXPECT_EQ(ready_of(wait_for_reports(), token_of(3)) & Interest::in, Interest::in);
    EXPECT_EQ(pair.drain(), 1);
  }
}

TEST_P(wait_strategy, reports_writable) {
  const SocketPair pair;
  add(pair.ours.get(), Interest::out, token_of(1));
  EXPECT_EQ(ready_of(wait(), token_of(1)), Interest::out);
  pair.fill();
  again(pair.ours.get(), Interest::out, token_of(1));
  if (info().trigger == Trigger::level) {
    EXPECT_TRUE(wait().empty());
  }
}

TEST_P(wait_strategy, reports_both) {
  const SocketPair pair;
  pair.make_readable();
  add(pair.ours.get(), Interest::both, token_of(1));
  EXPECT_EQ(ready_of(wait(), token_of(1)), Interest::both);
}

TEST_P(wait_strategy, no_interest_no_report) {
  SocketPair pair;
  add(pair.ours.get(), Interest::none, token_of(1));
  pair.make_readable();
  EXPECT_TRUE(wait().empty());
  pair.peer.close();  // a hang-up is no exception: it would end every wait
  EXPECT_TRUE(wait().empty());
  EXPECT_FALSE(strategy().modify(pair.ours.get(), Interest::in, token_of(1)));
  EXPECT_TRUE(any(ready_of(wait(), token_of(1)) & Interest::in));
}

TEST_P(wait_strategy, interest_can_be_taken_away) {
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(1));
  EXPECT_FALSE(strategy().modify(pair.ours.get(), Interest::none, token_of(1)));
  pair.make_readable();
  EXPECT_TRUE(wait().empty());
  EXPECT_FALSE(strategy().modify(pair.ours.get(), Interest::in, token_of(2)));
  EXPECT_TRUE(any(ready_of(wait(), token_of(2)) & Interest::in));
}

TEST_P(wait_strategy, hang_up_is_both) {
  SocketPair pair;
  add(pair.ours.get(), Interest::both, token_of(1));
  pair.fill();
  pair.peer.close();
  again(pair.ours.get(), Interest::both, token_of(1));  // a report may date from its addition
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(1)), Interest::both);
}

TEST_P(wait_strategy, error_is_reported_to_the_writer) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  Fd reader(ends[0]);
  const Fd writer(ends[1]);
  const std::vector<char> block(1 << 16);
  while (::write(writer.get(), block.data(), block.size()) > 0) {
  }
  add(writer.get(), Interest::out, token_of(1));
  reader.close();
  EXPECT_TRUE(any(ready_of(wait_for_reports(), token_of(1)) & Interest::out));
}

// The peer has shut both directions down and takes no byte out of its full buffer.
TEST_P(wait_strategy, a_hang_up_without_room_is_reported_to_the_writer) {
  for (const bool unread : {false, true}) {
    for (const bool gone_before : {false, true}) {
      const SocketPair pair;
      pair.fill();
      if (unread) pair.make_readable();
      if (gone_before) {
        ASSERT_EQ(::shutdown(pair.peer.get(), SHUT_RDWR), 0);
      }
      add(pair.ours.get(), Interest::out, token_of(1));
      if (!gone_before) {
        // The first report of an edge strategy about a new descriptor is a hint.
        const auto reports = wait();
        EXPECT_TRUE(reports.empty() || info().trigger == Trigger::edge);
        ASSERT_EQ(::shutdown(pair.peer.get(), SHUT_RDWR), 0);
      }
      ASSERT_TRUE(any(ready_of(wait_for_reports(), token_of(1)) & Interest::out))
          << unread << gone_before;
      EXPECT_FALSE(strategy().remove(pair.ours.get()));
    }
  }
}

// Data is no room, and ends no wait.
TEST_P(wait_strategy, unread_data_is_not_reported_to_the_writer) {
  for (const Interest interest : {Interest::out, Interest::urgent}) {
    const SocketPair pair;
    pair.fill();
    add(pair.ours.get(), interest, token_of(1));
    static_cast<void>(wait());  // an edge strategy may give a hint
    pair.make_readable();
    EXPECT_TRUE(wait().empty());
    EXPECT_FALSE(strategy().modify(pair.ours.get(), Interest::both, token_of(1)));
    EXPECT_TRUE(any(ready_of(wait_for_reports(), token_of(1)) & Interest::in));
    EXPECT_FALSE(strategy().remove(pair.ours.get()));
  }
}

// Each end of a pipe has one direction. The other one is ready when the other end is gone.
TEST_P(wait_strategy, the_end_of_a_pipe_is_reported_for_the_direction_that_it_lacks) {
  for (const bool writer : {false, true}) {
    for (const Interest interest : {writer ? Interest::in : Interest::out, Interest::urgent}) {
      int ends[2];
      ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
      const Fd ours(ends[writer ? 1 : 0]);
      Fd other(ends[writer ? 0 : 1]);
      add(ours.get(), interest, token_of(1));
      const auto reports = wait();
      EXPECT_TRUE(reports.empty() || info().trigger == Trigger::edge) << "other than a hint";
      other.close();
      // A hang-up is both, also for one that waits for urgent data only.
      const Interest told = interest == Interest::urgent ? Interest::both : interest;
      ASSERT_EQ(ready_of(wait_for_reports(), token_of(1)) & told, told)
          << (writer ? "writer" : "reader");
      EXPECT_FALSE(strategy().remove(ours.get()));
    }
  }
}

// The system passes bytes on beside the writer. There is no room for good only when the buffer of
// the reader is full.
void fill_terminal(int writer, int reader) {
  termios raw{};
  ASSERT_EQ(::tcgetattr(reader, &raw), 0);
  ::cfmakeraw(&raw);
  ASSERT_EQ(::tcsetattr(reader, TCSANOW, &raw), 0);
  ASSERT_EQ(::fcntl(writer, F_SETFL, O_NONBLOCK), 0);
  const std::vector<char> block(1 << 16);
  int passed_on = 0;
  int before = 0;
  do {
    while (::write(writer, block.data(), block.size()) > 0) {
    }
    before = passed_on;
    std::this_thread::yield();
    ASSERT_EQ(::ioctl(reader, FIONREAD, &passed_on), 0);
  } while (passed_on < 4095 || before < 4095);
}

// Before and after the hang-up, the terminal still says that it has no room.
TEST_P(wait_strategy, a_hang_up_of_a_terminal_is_reported_to_the_writer) {
  for (const bool gone_before : {false, true}) {
    int ends[2];
    ASSERT_EQ(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr), 0);
    const Fd writer(ends[0]);
    Fd reader(ends[1]);
    fill_terminal(writer.get(), reader.get());
    if (gone_before) reader.close();
    add(writer.get(), Interest::out, token_of(1));
    if (!gone_before) {
      // The first report of an edge strategy about a new descriptor is a hint.
      if (info().trigger == Trigger::edge) static_cast<void>(wait());
      reader.close();
    }
    EXPECT_TRUE(any(ready_of(wait_for_reports(), token_of(1)) & Interest::out)) << gone_before;
    EXPECT_FALSE(strategy().remove(writer.get()));
  }
}

// The same for the reader on the other side, whose requests to a terminal are refused.
TEST_P(wait_strategy, a_terminal_that_has_hung_up_can_be_added) {
  int ends[2];
  ASSERT_EQ(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr), 0);
  Fd master(ends[0]);
  const Fd reader(ends[1]);
  master.close();
  add(reader.get(), Interest::in, token_of(1));
  EXPECT_TRUE(any(ready_of(wait_for_reports(), token_of(1)) & Interest::in));
}

// A number that named a TCP socket before.
TEST_P(wait_strategy, a_hang_up_of_a_terminal_under_a_used_number_is_reported_to_the_writer) {
  const Fd before(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int number = before.get();
  add(number, Interest::out, token_of(1));
  EXPECT_FALSE(strategy().remove(number));
  int ends[2];
  ASSERT_EQ(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr), 0);
  const Fd master(ends[0]);
  Fd reader(ends[1]);
  fill_terminal(master.get(), reader.get());
  ASSERT_EQ(::dup3(master.get(), number, O_CLOEXEC), number);
  add(number, Interest::out, token_of(2));
  if (info().trigger == Trigger::edge) static_cast<void>(wait());  // a hint
  reader.close();
  EXPECT_TRUE(any(ready_of(wait_for_reports(), token_of(2)) & Interest::out));
}

TEST_P(wait_strategy, room_in_a_terminal_is_reported) {
  int ends[2];
  ASSERT_EQ(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr), 0);
  const Fd master(ends[0]);
  const Fd writer(ends[1]);
  ASSERT_EQ(::fcntl(writer.get(), F_SETFL, O_NONBLOCK), 0);
  add(writer.get(), Interest::out, token_of(1));
  std::vector<char> block(1 << 16);
  while (::write(writer.get(), block.data(), block.size()) > 0) {
  }
  if (info().trigger == Trigger::edge) static_cast<void>(wait());
  // A terminal passes bytes on piece by piece, so one read need not make room.
  ASSERT_EQ(::fcntl(master.get(), F_SETFL, O_NONBLOCK), 0);
  std::atomic<bool> told{false};
  std::thread other{[&] {
    while (!told) {
      if (::read(master.get(), block.data(), block.size()) < 0) std::this_thread::yield();
    }
  }};
  again(writer.get(), Interest::out, token_of(1));
  EXPECT_TRUE(any(ready_of(wait_for_reports(), token_of(1)) & Interest::out));
  told = true;
  other.join();
}

TEST_P(wait_strategy, half_close_is_readable_only) {
  const SocketPair pair;
  pair.fill();
  add(pair.ours.get(), Interest::both, token_of(1));
  // An edge strategy's first report of a new descriptor is a hint.
  if (info().trigger == Trigger::edge) static_cast<void>(wait());
  ASSERT_EQ(::shutdown(pair.peer.get(), SHUT_WR), 0);
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(1)), Interest::in);
}

TEST_P(wait_strategy, file_without_readiness) {
  char name[] = "/tmp/baton_test_XXXXXX";
  const Fd file(::mkstemp(name));
  ASSERT_GE(file.get(), 0);
  ::unlink(name);
  const std::error_code error = strategy().add(file.get(), Interest::in, token_of(1));
  if (error) {
    EXPECT_EQ(error, std::errc::operation_not_permitted);
  } else {
    EXPECT_EQ(ready_of(wait(), token_of(1)), Interest::in);
  }
}

TEST_P(wait_strategy, short_report_array_starves_no_descriptor) {
  constexpr std::uint32_t count = 64;
  constexpr std::size_t array_size = 5;
  const std::vector<SocketPair> pairs(count);
  std::uint32_t index = 0;
  for (const SocketPair& pair : pairs) {
    pair.make_readable();
    add(pair.ours.get(), Interest::in, token_of(index++));
  }
  std::set<std::uint32_t> seen;
  // The exact number of waits when each continues where the last one ended.
  for (std::size_t waits = 0; waits < (count + array_size - 1) / array_size; ++waits) {
    for (const Report& report : wait(Deadline::immediately(), array_size)) {
      seen.insert(report.token.index);
    }
  }
  EXPECT_EQ(seen.size(), count);
}

TEST_P(wait_strategy, descriptor_is_readable_when_there_is_a_report) {
  pollfd set{};
  set.fd = strategy().descriptor();
  set.events = POLLIN;
  if (set.fd == invalid_handle) GTEST_SKIP() << "has no descriptor of its own";
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(1));
  EXPECT_EQ(::poll(&set, 1, 0), 0);
  pair.make_readable();
  EXPECT_EQ(::poll(&set, 1, 10'000), 1);
}

// A daemon lowers the limit when it has opened all that it needs.
TEST_P(wait_strategy, urgent_data_is_reported_below_a_lowered_limit) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), name, size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), name, &size), 0);
  const Fd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(peer.get(), name, size), 0);
  const Fd ours(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  // Before it is watched: a ring's poll misses urgent data that comes later (seen on Linux 6.18).
  EXPECT_EQ(::send(peer.get(), "!", 1, MSG_OOB), 1);
  add(ours.get(), Interest::urgent, token_of(1));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(1)), Interest::urgent);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

// An eventfd is watched in a set of its own by some.
TEST_P(wait_strategy, a_program_that_is_started_gets_none_of_its_descriptors) {
  const Fd event(::eventfd(0, EFD_CLOEXEC));
  const std::set<int> before = inherited_descriptors();
  const auto another = demux::find_wait_strategy(GetParam())->factory({});
  ASSERT_TRUE(another.has_value()) << another.error().reason;
  EXPECT_FALSE((*another)->add(event.get(), Interest::in, token_of(1)));
  EXPECT_EQ(inherited_descriptors(), before);
}

TEST_P(wait_strategy, numbers_beyond_its_range) {
  constexpr int high = 1024;
  if (!allow_descriptors(high + 1)) GTEST_SKIP() << "RLIMIT_NOFILE";
  const int number = info().descriptor_end != 0 ? static_cast<int>(info().descriptor_end) : high;
  const SocketPair pair;
  const Fd moved(::fcntl(pair.ours.get(), F_DUPFD_CLOEXEC, number));
  ASSERT_GE(moved.get(), number);
  pair.make_readable();
  const std::error_code error = strategy().add(moved.get(), Interest::in, token_of(1));
  if (info().descriptor_end != 0) {
    EXPECT_EQ(error, errc::descriptor_out_of_range);
    EXPECT_EQ(strategy().modify(moved.get(), Interest::in, token_of(1)),
              errc::descriptor_out_of_range);
    EXPECT_FALSE(strategy().remove(moved.get()));
    EXPECT_TRUE(wait().empty());
  } else {
    EXPECT_FALSE(error);
    EXPECT_EQ(ready_of(wait(), token_of(1)), Interest::in);
  }
}

TEST_P(wait_strategy, five_thousand_descriptors) {
  constexpr std::uint32_t count = 5000;
  if (info().descriptors_max != 0 && info().descriptors_max < count) {
    GTEST_SKIP() << "declares to watch " << info().descriptors_max << " at most";
  }
  if (!allow_descriptors(count)) GTEST_SKIP() << "RLIMIT_NOFILE";
  std::vector<Fd> fds;
  for (std::uint32_t i = 0; i < count; ++i) {
    fds.emplace_back(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    ASSERT_GE(fds.back().get(), 0);
    add(fds.back().get(), Interest::in, token_of(i));
  }
  EXPECT_TRUE(wait().empty());
  const std::uint64_t one = 1;
  for (const std::uint32_t index : {0U, 1U, 2500U, 4998U, 4999U}) {
    ASSERT_EQ(::write(fds[index].get(), &one, sizeof one), 8);
    const auto reports = wait_for_reports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].token, token_of(index));
    ASSERT_EQ(::write(fds[index].get(), &one, sizeof one), 8);
    EXPECT_FALSE(strategy().remove(fds[index].get()));
    EXPECT_TRUE(wait().empty());
  }
}

}  // namespace baton::test
