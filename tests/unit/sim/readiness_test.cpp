// Reports of poll, select and epoll of the simulated machine.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

#include "machine.hpp"

namespace baton::sim::test {
namespace {

constexpr timespec at_once{0, 0};

short polled(const os::System& s, int fd, short events) {
  pollfd entry{fd, events, 0};
  const int found = s.ppoll(&entry, 1, &at_once, nullptr);
  EXPECT_EQ(found, entry.revents != 0 ? 1 : 0);
  return entry.revents;
}

TEST(SimulatedPoll, tells_of_each_kind_of_descriptor) {
  Faults faults;
  faults.latency_least_ns = faults.latency_most_ns = 100'000;
  in_machine(faults, [](const os::System& s) {
    constexpr short both = POLLIN | POLLOUT;
    EXPECT_EQ(polled(s, -1, both), 0);
    EXPECT_EQ(polled(s, 99, both), POLLNVAL);
    const int file = s.open("/a", O_RDWR | O_CREAT, 0);
    EXPECT_EQ(polled(s, file, both), both);
    EXPECT_EQ(polled(s, s.open("/dev/null", O_RDWR, 0), both), both);
    const int event = s.eventfd(0, 0);
    EXPECT_EQ(polled(s, event, both), POLLOUT);
    const std::uint64_t one = 1;
    EXPECT_EQ(s.write(event, &one, sizeof(one)), 8);
    EXPECT_EQ(polled(s, event, both), both);
    const int fresh = stream_socket(s);
    EXPECT_EQ(polled(s, fresh, both), POLLOUT | POLLHUP);
    EXPECT_EQ(connect_to(s, fresh, 99), failed(EINPROGRESS));
    EXPECT_EQ(polled(s, fresh, both), 0);
    sleep_for(s, 1'000'000);
    EXPECT_EQ(polled(s, fresh, both), both | POLLERR | POLLHUP);
    EXPECT_EQ(error_of(s, fresh), ECONNREFUSED);
    EXPECT_EQ(polled(s, fresh, both), both | POLLHUP);
    const int datagrams = s.socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT_EQ(polled(s, datagrams, both), POLLOUT);
  });
}

TEST(SimulatedPoll, tells_of_connections) {
  in_machine([](const os::System& s) {
    constexpr short all = POLLIN | POLLOUT | POLLRDHUP;
    const Connection c = connection_at(s, 80);
    EXPECT_EQ(polled(s, c.listener, all), 0);
    const int second = stream_socket(s);
    EXPECT_EQ(connect_to(s, second, 80), failed(EINPROGRESS));
    sleep_for(s, 1'000'000);
    EXPECT_EQ(polled(s, c.listener, all), POLLIN);
    EXPECT_EQ(polled(s, c.server, all), POLLOUT);
    EXPECT_EQ(send_text(s, c.client, "x"), gave(1));
    EXPECT_EQ(polled(s, c.server, all), POLLIN | POLLOUT);
    EXPECT_EQ(s.shutdown(c.client, SHUT_WR), 0);
    EXPECT_EQ(polled(s, c.server, all), all);
    EXPECT_EQ(receive(s, c.server), gave(1));
    EXPECT_EQ(s.shutdown(c.server, SHUT_WR), 0);
    EXPECT_EQ(polled(s, c.server, all), all | POLLHUP);
  });
}

TEST(SimulatedPoll, tells_of_a_reset) {
  in_machine([](const os::System& s) {
    constexpr short all = POLLIN | POLLOUT | POLLRDHUP;
    const Connection c = connection_at(s, 80);
    EXPECT_EQ(send_text(s, c.client, "unread"), gave(6));
    EXPECT_EQ(s.close(c.server), 0);
    EXPECT_EQ(polled(s, c.client, all), all | POLLERR | POLLHUP);
  });
}

TEST(SimulatedPoll, tells_of_both_ends_of_a_pipe) {
  in_machine([](const os::System& s) {
    constexpr short both = POLLIN | POLLOUT;
    int ends[2];
    ASSERT_EQ(s.pipe2(ends, 0), 0);
    EXPECT_EQ(polled(s, ends[0], both), 0);
    EXPECT_EQ(polled(s, ends[1], both), POLLOUT);
    EXPECT_EQ(s.write(ends[1], "x", 1), 1);
    EXPECT_EQ(polled(s, ends[0], both), POLLIN);
    EXPECT_EQ(s.close(ends[0]), 0);
    EXPECT_EQ(polled(s, ends[1], both), POLLOUT | POLLERR);
    ASSERT_EQ(s.pipe2(ends, 0), 0);
    EXPECT_EQ(s.close(ends[1]), 0);
    EXPECT_EQ(polled(s, ends[0], both), POLLIN | POLLHUP);
  });
}

TEST(SimulatedPoll, waits_until_its_time_is_over) {
  in_machine([](const os::System& s) {
    const int event = s.eventfd(0, 0);
    pollfd entry{event, POLLIN, 0};
    const std::int64_t begin = s.monotonic_ns();
    const timespec second{1, 0};
    EXPECT_EQ(s.ppoll(&entry, 1, &second, nullptr), 0);
    EXPECT_GE(s.monotonic_ns(), begin + 1'000'000'000);
  });
}

TEST(SimulatedPoll, is_ended_by_another_thread) {
  in_machine([](const os::System& s) {
    struct Shared {
      const os::System& s;
      int event;
    } shared{s, s.eventfd(0, 0)};
    std::uint64_t thread = 0;
    const auto write_later = [](void* argument) {
      const auto& self = *static_cast<Shared*>(argument);
      sleep_for(self.s, 1'000'000);
      const std::uint64_t one = 1;
      EXPECT_EQ(self.s.write(self.event, &one, sizeof(one)), 8);
    };
    ASSERT_EQ(s.thread_start(&thread, write_later, &shared), 0);
    pollfd entry{shared.event, POLLIN, 0};
    EXPECT_EQ(s.ppoll(&entry, 1, nullptr, nullptr), 1);
    EXPECT_EQ(entry.revents, POLLIN);
    s.thread_join(thread);
  });
}

// -- select ---------------------------------------------------------------------------------------

TEST(SimulatedSelect, tells_what_is_wanted_and_nothing_else) {
  in_machine([](const os::System& s) {
    const int event = s.eventfd(1, 0);
    const int empty = s.eventfd(0, 0);
    fd_set in;
    fd_set out;
    fd_set except;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(event, &in);
    FD_SET(empty, &in);
    FD_SET(empty, &out);
    FD_SET(event, &except);
    EXPECT_EQ(s.pselect(empty + 1, &in, &out, &except, &at_once, nullptr), 2);
    EXPECT_TRUE(FD_ISSET(event, &in));
    EXPECT_FALSE(FD_ISSET(empty, &in));
    EXPECT_TRUE(FD_ISSET(empty, &out));
    EXPECT_FALSE(FD_ISSET(event, &except));
    EXPECT_EQ(s.pselect(empty + 1, nullptr, &out, nullptr, &at_once, nullptr), 1);
    EXPECT_EQ(s.pselect(empty + 1, &in, nullptr, nullptr, &at_once, nullptr), 1);
  });
}

TEST(SimulatedSelect, leaves_empty_sets_when_its_time_is_over) {
  in_machine([](const os::System& s) {
    const int empty = s.eventfd(0, 0);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(empty, &in);
    const timespec little{0, 1000};
    EXPECT_EQ(s.pselect(empty + 1, &in, nullptr, nullptr, &little, nullptr), 0);
    EXPECT_FALSE(FD_ISSET(empty, &in));
    fd_set out;
    FD_ZERO(&out);
    EXPECT_EQ(s.pselect(0, nullptr, &out, nullptr, &at_once, nullptr), 0);
    FD_SET(700, &out);
    EXPECT_EQ(answer_of(s.pselect(701, nullptr, &out, nullptr, &at_once, nullptr)), failed(EBADF));
  });
}

// Where a kernel's own select would not notice.
TEST(SimulatedSelect, counts_one_that_is_closed_meanwhile_as_broken) {
  in_machine([](const os::System& s) {
    struct Shared {
      const os::System& s;
      int watched;
      int other;
    } shared{s, s.eventfd(0, 0), s.eventfd(0, 0)};
    std::uint64_t thread = 0;
    const auto close_later = [](void* argument) {
      const auto& self = *static_cast<Shared*>(argument);
      sleep_for(self.s, 1'000'000);
      EXPECT_EQ(self.s.close(self.watched), 0);
    };
    ASSERT_EQ(s.thread_start(&thread, close_later, &shared), 0);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(shared.watched, &in);
    EXPECT_EQ(s.pselect(shared.other + 1, &in, nullptr, nullptr, nullptr, nullptr), 1);
    s.thread_join(thread);
  });
}

// -- epoll ----------------------------------------------------------------------------------------

class Set {
 public:
  explicit Set(const os::System& s) : s_(s), fd_(s.epoll_create1(0)) {}
  [[nodiscard]] int fd() const { return fd_; }
  Answer control(int operation, int fd, std::uint32_t events) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = static_cast<std::uint64_t>(fd);
    return answer_of(s_.epoll_ctl(fd_, operation, fd, &event));
  }
  /// The events of the reported descriptor, or 0.
  std::uint32_t told(int milliseconds = 0) const {
    epoll_event events[4];
    const int found = s_.epoll_pwait(fd_, events, 4, milliseconds, nullptr);
    EXPECT_GE(found, 0);
    return found == 1 ? events[0].events : 0;
  }

 private:
  const os::System& s_;
  int fd_;
};

TEST(SimulatedEpoll, refuses_the_kernels_invalid_arguments) {
  in_machine([](const os::System& s) {
    const Set set{s};
    const int event = s.eventfd(0, 0);
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, 99, EPOLLIN), failed(EBADF));
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, s.open("/a", O_CREAT, 0), EPOLLIN), failed(EPERM));
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, s.open("/dev/null", 0, 0), EPOLLIN), failed(EPERM));
    EXPECT_EQ(set.control(EPOLL_CTL_MOD, event, EPOLLIN), failed(ENOENT));
    EXPECT_EQ(set.control(EPOLL_CTL_DEL, event, EPOLLIN), failed(ENOENT));
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, event, EPOLLIN), gave(0));
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, event, EPOLLIN), failed(EEXIST));
    epoll_event any{};
    EXPECT_EQ(answer_of(s.epoll_ctl(event, EPOLL_CTL_ADD, set.fd(), &any)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.epoll_pwait(event, &any, 1, 0, nullptr)), failed(EBADF));
    EXPECT_EQ(set.control(EPOLL_CTL_DEL, event, 0), gave(0));
  });
}

TEST(SimulatedEpoll, tells_by_level_by_edge_and_once) {
  in_machine([](const os::System& s) {
    const Set set{s};
    const int event = s.eventfd(1, 0);
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, event, EPOLLIN), gave(0));
    EXPECT_EQ(set.told(), EPOLLIN);
    EXPECT_EQ(set.told(), EPOLLIN);
    EXPECT_EQ(set.control(EPOLL_CTL_MOD, event, EPOLLIN | EPOLLET), gave(0));
    EXPECT_EQ(set.told(), EPOLLIN);
    EXPECT_EQ(set.told(), 0U);
    const std::uint64_t one = 1;
    EXPECT_EQ(s.write(event, &one, sizeof(one)), 8);
    EXPECT_EQ(set.told(), EPOLLIN);
    EXPECT_EQ(set.control(EPOLL_CTL_MOD, event, EPOLLIN | EPOLLOUT | EPOLLONESHOT), gave(0));
    EXPECT_EQ(set.told(), EPOLLIN | EPOLLOUT);
    EXPECT_EQ(set.told(), 0U);
    EXPECT_EQ(s.close(event), 0);
    EXPECT_EQ(set.told(1), 0U);
  });
}

TEST(SimulatedEpoll, tells_of_ends_and_errors) {
  in_machine([](const os::System& s) {
    const Set set{s};
    const Connection c = connection_at(s, 80);
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, c.client, EPOLLIN | EPOLLRDHUP), gave(0));
    EXPECT_EQ(set.told(), 0U);
    EXPECT_EQ(send_text(s, c.client, "unread"), gave(6));
    EXPECT_EQ(s.close(c.server), 0);
    EXPECT_EQ(set.told(), EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP);
  });
}

TEST(SimulatedEpoll, may_be_watched_itself) {
  in_machine([](const os::System& s) {
    const Set set{s};
    const int event = s.eventfd(0, 0);
    const int gone = s.eventfd(1, 0);
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, gone, EPOLLIN), gave(0));
    EXPECT_EQ(set.control(EPOLL_CTL_ADD, event, EPOLLIN), gave(0));
    EXPECT_EQ(s.close(gone), 0);
    EXPECT_EQ(polled(s, set.fd(), POLLIN), 0);
    const std::uint64_t one = 1;
    EXPECT_EQ(s.write(event, &one, sizeof(one)), 8);
    EXPECT_EQ(polled(s, set.fd(), POLLIN), POLLIN);
    EXPECT_EQ(s.close(set.fd()), 0);
  });
}

TEST(SimulatedEpoll, that_is_closed_meanwhile_ends_the_wait) {
  in_machine([](const os::System& s) {
    struct Shared {
      const os::System& s;
      int set;
    } shared{s, s.epoll_create1(0)};
    const int event = s.eventfd(0, 0);
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    EXPECT_EQ(s.epoll_ctl(shared.set, EPOLL_CTL_ADD, event, &wanted), 0);
    std::uint64_t thread = 0;
    const auto close_later = [](void* argument) {
      const auto& self = *static_cast<Shared*>(argument);
      sleep_for(self.s, 1'000'000);
      EXPECT_EQ(self.s.close(self.set), 0);
    };
    ASSERT_EQ(s.thread_start(&thread, close_later, &shared), 0);
    EXPECT_EQ(answer_of(s.epoll_pwait(shared.set, &wanted, 1, 10, nullptr)), failed(EBADF));
    s.thread_join(thread);
  });
}

}  // namespace
}  // namespace baton::sim::test
