// The Demultiplexer on epoll, with descriptors that their owner may close and reopen while nothing
// is watched.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "demux/demultiplexer.hpp"
#include "support/counting_system.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

using demux::Demultiplexer;
using demux::Watch;

constexpr auto borrowed = Ownership::borrowed;

class demux_borrowed : public testing::Test {
 protected:
  demux_borrowed() {
    auto opened =
        Demultiplexer::open({.system = &counting_system(), .wait = "epoll", .descriptors_max = 64});
    EXPECT_TRUE(opened.has_value());
    demux_ = std::move(*opened);
    system_calls().clear();
  }

  Demultiplexer& demux() { return *demux_; }
  std::error_code watch(std::uint32_t index, Interest interest = Interest::in) {
    std::error_code error;
    const Watch answer = demux_->watch(index, interest, error);
    EXPECT_EQ(answer == Watch::failed, static_cast<bool>(error));
    return error;
  }
  std::vector<Report> wait(Deadline deadline = Deadline::immediately()) {
    std::vector<Report> reports(16);
    reports.resize(demux_->wait_raw(reports, deadline));
    std::vector<Report> wanted;
    demux_->for_each(reports, [&](std::uint32_t index, Interest ready) {
      wanted.push_back({{index, 0}, ready});
    });
    return wanted;
  }
  void expect_report(std::uint32_t index, Interest ready = Interest::in) {
    const auto reports = wait(at_last());
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].token.index, index);
    EXPECT_EQ(reports[0].ready, ready);
  }
  /// A wait for the set's own descriptor would not be woken either.
  void expect_silence() {
    pollfd set{.fd = demux_->descriptor(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&set, 1, 0), 0);
    EXPECT_TRUE(wait().empty());
  }
  /// The set holds something under this number.
  bool registered(int number) {
    std::ifstream facts("/proc/self/fdinfo/" + std::to_string(demux_->descriptor()));
    for (std::string word; facts >> word;) {
      if (word == "tfd:" && facts >> word && word == std::to_string(number)) return true;
    }
    return false;
  }
  static std::uint64_t changes() { return system_calls().epoll_ctl; }

 private:
  std::unique_ptr<Demultiplexer> demux_;
};

void read_all(const Fd& fd) {
  char buffer[4096];
  while (::read(fd.get(), buffer, sizeof buffer) > 0) {
  }
}

/// From now on the number names the other descriptor's file.
void reuse(const Fd& number, Fd& other) {
  ASSERT_EQ(::dup2(other.get(), number.get()), number.get());
  other.close();
}

TEST_F(demux_borrowed, one_change_a_report) {
  const SocketPair pair;
  ASSERT_FALSE(demux().attach(5, pair.ours.get(), borrowed));
  EXPECT_EQ(changes(), 0U);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_FALSE(watch(5));
    EXPECT_FALSE(watch(5));
    EXPECT_EQ(changes(), i);
    pair.make_readable();
    expect_report(5);
    read_all(pair.ours);
    demux().let_go(5, Interest::in);
    EXPECT_EQ(changes(), i);
  }
  EXPECT_TRUE(registered(pair.ours.get()));
  demux().detach(5);
  EXPECT_FALSE(registered(pair.ours.get()));
}

TEST_F(demux_borrowed, a_reported_descriptor_is_silent_to_the_end) {
  SocketPair pair;
  ASSERT_FALSE(demux().attach(5, pair.ours.get(), borrowed));
  EXPECT_FALSE(watch(5));
  pair.make_readable();
  expect_report(5);
  expect_silence();
  pair.make_readable();
  expect_silence();
  pair.peer.close();
  expect_silence();
  EXPECT_FALSE(watch(5));
  expect_report(5);
  demux().detach(5);
}

// A hang-up of a descriptor that is not watched any more, whatever the reason.
TEST_F(demux_borrowed, a_watch_dropped_before_its_report_is_not_registered) {
  SocketPair pair;
  ASSERT_FALSE(demux().attach(5, pair.ours.get(), borrowed));
  EXPECT_FALSE(watch(5));
  demux().let_go(5, Interest::in);
  EXPECT_FALSE(registered(pair.ours.get()));
  pair.peer.close();
  expect_silence();
  EXPECT_FALSE(watch(5));
  expect_report(5);
  demux().detach(5);
}

TEST_F(demux_borrowed, an_unreported_interest_stays_watched) {
  const SocketPair pair;
  pair.fill();
  ASSERT_FALSE(demux().attach(5, pair.ours.get(), borrowed));
  EXPECT_FALSE(watch(5, Interest::in));
  EXPECT_FALSE(watch(5, Interest::out));
  pair.make_readable();
  expect_report(5);
  read_all(pair.ours);
  expect_silence();
  read_all(pair.peer);
  expect_report(5, Interest::out);
  expect_silence();
  EXPECT_FALSE(watch(5, Interest::in));
  expect_silence();
  EXPECT_FALSE(watch(5, Interest::out));
  demux().let_go(5, Interest::out);
  expect_silence();
  pair.make_readable();
  expect_report(5);
  demux().detach(5);
}

TEST_F(demux_borrowed, a_number_is_closed_and_names_another_file) {
  SocketPair pair;
  const int number = pair.ours.get();
  ASSERT_FALSE(demux().attach(5, number, borrowed));
  std::vector<Fd> left;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(watch(5));
    expect_silence();
    pair.make_readable();
    expect_report(5);
    // With a duplicate, and without.
    if (i % 2 == 0) left.emplace_back(::dup(number));
    SocketPair next;
    reuse(pair.ours, next.ours);
    left.push_back(std::move(pair.peer));
    pair.peer = std::move(next.peer);
    EXPECT_EQ(::send(left.back().get(), "old", 3, MSG_NOSIGNAL), i % 2 == 0 ? 3 : -1);
    expect_silence();
  }
  left.clear();
  expect_silence();
  demux().detach(5);
}

TEST_F(demux_borrowed, a_number_without_a_file_or_readiness) {
  SocketPair pair;
  ASSERT_FALSE(demux().attach(5, pair.ours.get(), borrowed));
  EXPECT_FALSE(watch(5));
  pair.make_readable();
  expect_report(5);
  Fd file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_GE(file.get(), 0);
  reuse(pair.ours, file);
  EXPECT_EQ(watch(5), std::errc::operation_not_permitted);
  const int number = pair.ours.get();
  pair.ours.close();
  EXPECT_EQ(watch(5), std::errc::bad_file_descriptor);
  SocketPair next;
  ASSERT_EQ(::dup2(next.ours.get(), number), number);
  pair.ours = Fd(number);
  next.make_readable();
  EXPECT_FALSE(watch(5));
  expect_report(5);
  demux().detach(5);
}

// The number has a new owner in the same set before the old one is gone.
TEST_F(demux_borrowed, the_end_of_the_first_leaves_the_second_alone) {
  for (const Ownership second : {Ownership::owned, Ownership::borrowed}) {
    for (const bool another_file : {false, true}) {
      SocketPair pair;
      ASSERT_FALSE(demux().attach(5, pair.ours.get(), borrowed));
      EXPECT_FALSE(watch(5));
      pair.make_readable();
      expect_report(5);
      read_all(pair.ours);
      SocketPair next;
      if (another_file) {
        reuse(pair.ours, next.ours);
        pair.peer = std::move(next.peer);
      }
      ASSERT_FALSE(demux().attach(6, pair.ours.get(), second));
      EXPECT_FALSE(watch(6));
      EXPECT_EQ(watch(5), std::errc::file_exists) << "two want the same number";
      demux().let_go(5, Interest::in);
      demux().detach(5);
      pair.make_readable();
      expect_report(6);
      demux().detach(6);
      EXPECT_FALSE(registered(pair.ours.get()));
    }
  }
}

// The set may still contain a file that the demultiplexer has dropped: its number was closed, a
// duplicate is open.
TEST_F(demux_borrowed, a_file_comes_back_under_its_number) {
  for (const Ownership second : {Ownership::owned, Ownership::borrowed}) {
    SocketPair pair;
    const int number = pair.ours.get();
    ASSERT_FALSE(demux().attach(5, number, borrowed));
    EXPECT_FALSE(watch(5));
    pair.make_readable();
    expect_report(5);
    read_all(pair.ours);
    const Fd kept(::dup(number));
    pair.ours.close();
    demux().detach(5);
    ASSERT_EQ(::dup2(kept.get(), number), number);
    pair.ours = Fd(number);
    ASSERT_FALSE(demux().attach(6, number, second));
    EXPECT_FALSE(watch(6));
    pair.make_readable();
    expect_report(6);
    demux().detach(6);
  }
}

TEST_F(demux_borrowed, one_that_was_registered_twice_gets_an_error) {
  const SocketPair pair;
  ASSERT_FALSE(demux().attach(5, pair.ours.get()));
  ASSERT_FALSE(demux().attach(6, pair.ours.get()));
  EXPECT_FALSE(watch(5));
  EXPECT_EQ(watch(6), std::errc::file_exists);
  demux().detach(6);
  demux().detach(5);
}

// Two sets, two owners of a registration.
TEST_F(demux_borrowed, another_set_has_its_own_registration) {
  const SocketPair pair;
  auto other = Demultiplexer::open({.wait = "epoll", .descriptors_max = 64});
  ASSERT_TRUE(other.has_value());
  ASSERT_FALSE(demux().attach(5, pair.ours.get(), borrowed));
  ASSERT_FALSE((*other)->attach(5, pair.ours.get(), borrowed));
  EXPECT_FALSE(watch(5));
  std::error_code error;
  EXPECT_EQ((*other)->watch(5, Interest::in, error), Watch::armed);
  (*other)->detach(5);
  pair.make_readable();
  expect_report(5);
  demux().detach(5);
}

}  // namespace
}  // namespace baton::test
