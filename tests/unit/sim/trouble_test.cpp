// Each fault of the simulated machine, alone and always: its effect on calls.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <string>

#include "machine.hpp"

namespace baton::sim::test {
namespace {

TEST(SimulatedTrouble, interrupts_calls) {
  Faults faults;
  faults.interrupted = always;
  in_machine(faults, [](const os::System& s) {
    const Answer interrupted = failed(EINTR);
    const int file = s.open("/a", O_RDWR | O_CREAT, 0);
    char byte = 0;
    const iovec piece{&byte, 1};
    EXPECT_EQ(answer_of(s.read(file, &byte, 1)), interrupted);
    EXPECT_EQ(answer_of(s.write(file, &byte, 1)), interrupted);
    EXPECT_EQ(answer_of(s.preadv2(file, &piece, 1, 0, 0)), interrupted);
    EXPECT_EQ(answer_of(s.pwritev2(file, &piece, 1, 0, 0)), interrupted);
    EXPECT_EQ(answer_of(s.fsync(file)), interrupted);
    EXPECT_EQ(accept_from(s, listener_at(s, 80)), interrupted);
    const int datagrams = s.socket(AF_INET, SOCK_DGRAM, 0);
    msghdr message{};
    EXPECT_EQ(answer_of(s.recvfrom(datagrams, &byte, 1, 0, nullptr, nullptr)), interrupted);
    EXPECT_EQ(answer_of(s.sendto(datagrams, &byte, 1, 0, nullptr, 0)), interrupted);
    EXPECT_EQ(answer_of(s.recvmsg(datagrams, &message, 0)), interrupted);
    EXPECT_EQ(answer_of(s.sendmsg(datagrams, &message, 0)), interrupted);
    const int event = s.eventfd(0, 0);
    pollfd entry{event, POLLIN, 0};
    EXPECT_EQ(answer_of(s.ppoll(&entry, 1, nullptr, nullptr)), interrupted);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(event, &in);
    EXPECT_EQ(answer_of(s.pselect(event + 1, &in, nullptr, nullptr, nullptr, nullptr)),
              interrupted);
    const int set = s.epoll_create1(0);
    epoll_event told{};
    EXPECT_EQ(answer_of(s.epoll_pwait(set, &told, 1, -1, nullptr)), interrupted);
    // A pipe that wakes a thread is not stopped by a signal.
    int ends[2];
    ASSERT_EQ(s.pipe2(ends, 0), 0);
    EXPECT_EQ(s.write(ends[1], &byte, 1), 1);
  });
}

TEST(SimulatedTrouble, withdraws_readiness) {
  Faults faults;
  faults.again = always;
  in_machine(faults, [](const os::System& s) {
    int ends[2];
    ASSERT_EQ(s.socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    EXPECT_EQ(send_text(s, ends[0], "x"), failed(EAGAIN));
    EXPECT_EQ(receive(s, ends[1]), failed(EAGAIN));
  });
}

TEST(SimulatedTrouble, reports_false_readiness) {
  Faults faults;
  faults.spurious_ready = always;
  in_machine(faults, [](const os::System& s) {
    const int event = s.eventfd(0, 0);
    pollfd entries[] = {{event, POLLIN, 0}, {s.eventfd(0, 0), POLLIN, 0}};
    EXPECT_EQ(s.ppoll(entries, 2, nullptr, nullptr), 1);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(event, &in);
    FD_SET(entries[1].fd, &in);
    EXPECT_EQ(s.pselect(entries[1].fd + 1, &in, nullptr, nullptr, nullptr, nullptr), 1);
    const int set = s.epoll_create1(0);
    epoll_event told{};
    told.events = EPOLLIN;
    EXPECT_EQ(s.epoll_ctl(set, EPOLL_CTL_ADD, event, &told), 0);
    EXPECT_EQ(s.epoll_pwait(set, &told, 1, -1, nullptr), 1);
    EXPECT_EQ(told.events, EPOLLIN);
    // A call that does not wait gets the true state.
    EXPECT_EQ(s.epoll_pwait(set, &told, 1, 0, nullptr), 0);
    char byte = 0;
    EXPECT_EQ(answer_of(s.read(event, &byte, 1)), failed(EAGAIN));
  });
}

TEST(SimulatedTrouble, reports_readiness_late) {
  Faults faults;
  faults.late_ready = always;
  in_machine(faults, [](const os::System& s) {
    const int event = s.eventfd(1, 0);
    const int set = s.epoll_create1(0);
    epoll_event told{};
    told.events = EPOLLIN;
    EXPECT_EQ(s.epoll_ctl(set, EPOLL_CTL_ADD, event, &told), 0);
    EXPECT_EQ(s.epoll_pwait(set, &told, 1, 0, nullptr), 0);
    EXPECT_EQ(s.epoll_pwait(set, &told, 1, -1, nullptr), 1);
    // Closed before its late event: the event is dropped.
    const int other = s.eventfd(1, 0);
    EXPECT_EQ(s.epoll_ctl(set, EPOLL_CTL_ADD, other, &told), 0);
    EXPECT_EQ(s.close(other), 0);
    EXPECT_EQ(s.epoll_ctl(set, EPOLL_CTL_DEL, event, &told), 0);
    EXPECT_EQ(s.epoll_pwait(set, &told, 1, 5, nullptr), 0);
  });
}

TEST(SimulatedTrouble, refuses_connections) {
  Faults faults;
  faults.refuse = always;
  in_machine(faults, [](const os::System& s) {
    listener_at(s, 80);
    int at_once = 0;
    int later = 0;
    for (int i = 0; i < 20; ++i) {
      const int fd = stream_socket(s);
      const Answer answer = connect_to(s, fd, 80);
      if (answer == failed(ECONNREFUSED)) {
        ++at_once;
        continue;
      }
      EXPECT_EQ(answer, failed(EINPROGRESS));
      sleep_for(s, 1'000'000);
      EXPECT_EQ(error_of(s, fd), ECONNREFUSED);
      ++later;
    }
    EXPECT_GT(at_once, 0);
    EXPECT_GT(later, 0);
  });
}

TEST(SimulatedTrouble, makes_connections_slow) {
  Faults faults;
  faults.slow = always;
  in_machine(faults, [](const os::System& s) {
    listener_at(s, 80, 64);
    int came = 0;
    int never_answered = 0;
    for (int i = 0; i < 30; ++i) {
      const int fd = stream_socket(s);
      EXPECT_EQ(connect_to(s, fd, 80), failed(EINPROGRESS));
      sleep_for(s, 200'000'000);
      const int error = error_of(s, fd);
      EXPECT_TRUE(error == 0 || error == ETIMEDOUT) << error;
      ++(error == 0 ? came : never_answered);
    }
    EXPECT_GT(came, 0);
    EXPECT_GT(never_answered, 0);
  });
}

TEST(SimulatedTrouble, aborts_connections_before_they_are_accepted) {
  Faults faults;
  faults.abort = always;
  in_machine(faults, [](const os::System& s) {
    const int listener = listener_at(s, 80);
    const int client = stream_socket(s);
    EXPECT_EQ(connect_to(s, client, 80), failed(EINPROGRESS));
    sleep_for(s, 1'000'000);
    EXPECT_EQ(accept_from(s, listener), failed(ECONNABORTED));
    EXPECT_EQ(receive(s, client), failed(ECONNRESET));
  });
}

TEST(SimulatedTrouble, resets_connections) {
  Faults faults;
  faults.reset = always;
  in_machine(faults, [](const os::System& s) {
    const Connection sending = connection_at(s, 80);
    EXPECT_EQ(send_text(s, sending.client, "x"), failed(ECONNRESET));
    const Connection receiving = connection_at(s, 81);
    EXPECT_EQ(receive(s, receiving.server), failed(ECONNRESET));
    // Another reset, by an end whose peer is gone, changes nothing.
    const Connection half = connection_at(s, 82);
    EXPECT_EQ(s.close(half.client), 0);
    EXPECT_LE(receive(s, half.server).result, 0);
    EXPECT_LE(receive(s, half.server).result, 0);
  });
}

TEST(SimulatedTrouble, has_no_buffers) {
  Faults faults;
  faults.no_buffers = always;
  in_machine(faults, [](const os::System& s) {
    const Answer none = failed(ENOBUFS);
    int ends[2];
    ASSERT_EQ(s.socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    EXPECT_EQ(send_text(s, ends[0], "x"), none);
    EXPECT_EQ(receive(s, ends[0]), none);
    const int listener = listener_at(s, 80);
    const int client = stream_socket(s);
    EXPECT_EQ(connect_to(s, client, 80), failed(EINPROGRESS));
    sleep_for(s, 1'000'000);
    EXPECT_EQ(accept_from(s, listener), none);
    const int datagrams = s.socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT_EQ(connect_to(s, datagrams, 91), gave(0));
    EXPECT_EQ(answer_of(s.write(datagrams, "x", 1)), none);
  });
}

TEST(SimulatedTrouble, has_no_descriptor_for_an_accepted_connection) {
  Faults faults;
  faults.descriptors_max = 2;
  in_machine(faults, [](const os::System& s) {
    const int listener = listener_at(s, 80);
    const int client = stream_socket(s);
    EXPECT_EQ(connect_to(s, client, 80), failed(EINPROGRESS));
    sleep_for(s, 1'000'000);
    EXPECT_EQ(accept_from(s, listener), failed(EMFILE));
    EXPECT_EQ(s.close(client), 0);
    EXPECT_GE(accept_from(s, listener).result, 0) << "it has waited";
  });
}

TEST(SimulatedTrouble, loses_datagrams) {
  Faults faults;
  faults.lose = always;
  in_machine(faults, [](const os::System& s) {
    const int to = s.socket(AF_INET, SOCK_DGRAM, 0);
    const sockaddr_in address = address_of(91);
    EXPECT_EQ(s.bind(to, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const int from = s.socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT_EQ(connect_to(s, from, 91), gave(0));
    EXPECT_EQ(s.write(from, "x", 1), 1);
    EXPECT_EQ(receive(s, to), failed(EAGAIN));
  });
}

TEST(SimulatedTrouble, lets_datagrams_overtake_each_other) {
  Faults faults;
  faults.latency_most_ns = 1'000'000;
  in_machine(faults, [](const os::System& s) {
    const int to = s.socket(AF_INET, SOCK_DGRAM, 0);
    const sockaddr_in address = address_of(91);
    EXPECT_EQ(s.bind(to, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const int from = s.socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT_EQ(connect_to(s, from, 91), gave(0));
    std::string sent;
    for (char c = 'a'; c <= 'z'; ++c) {
      EXPECT_EQ(s.write(from, &c, 1), 1);
      sent += c;
    }
    sleep_for(s, 10'000'000);
    std::string received;
    char byte = 0;
    while (s.read(to, &byte, 1) == 1) received += byte;
    EXPECT_EQ(received.size(), sent.size());
    EXPECT_NE(received, sent);
  });
}

TEST(SimulatedTrouble, cuts_transfers_short) {
  Faults faults;
  faults.short_transfer = always;
  in_machine(faults, [](const os::System& s) {
    int ends[2];
    ASSERT_EQ(s.socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Answer sent = send_text(s, ends[0], std::string(60, 'x'));
    EXPECT_GE(sent.result, 1);
    EXPECT_LT(sent.result, 60);
    const int file = s.open("/a", O_RDWR | O_CREAT, 0);
    const std::string text(60, 'x');
    const ssize_t written = s.write(file, text.data(), text.size());
    EXPECT_GE(written, 1);
    EXPECT_LT(written, 60);
    EXPECT_EQ(s.write(file, text.data(), 1), 1) << "less than one byte there is not";
  });
}

TEST(SimulatedTrouble, has_bad_disks) {
  Faults faults;
  faults.disk_error = always;
  faults.sync_error = always;
  in_machine(faults, [](const os::System& s) {
    const int file = s.open("/a", O_RDWR | O_CREAT, 0);
    char byte = 0;
    EXPECT_EQ(answer_of(s.read(file, &byte, 1)), failed(EIO));
    EXPECT_EQ(answer_of(s.write(file, &byte, 1)), failed(EIO));
    EXPECT_EQ(answer_of(s.fsync(file)), failed(EIO));
  });
}

TEST(SimulatedTrouble, has_full_and_slow_disks) {
  Faults faults;
  faults.disk_size = 10;
  faults.disk_least_ns = faults.disk_most_ns = 1'000'000;
  faults.no_wait_refused = always;
  in_machine(faults, [](const os::System& s) {
    const int file = s.open("/a", O_RDWR | O_CREAT, 0);
    char bytes[16] = {};
    const iovec piece{bytes, sizeof(bytes)};
    const Answer refused = failed(EAGAIN);
    EXPECT_EQ(answer_of(s.pwritev2(file, &piece, 1, 0, RWF_NOWAIT)), refused);
    EXPECT_EQ(answer_of(s.preadv2(file, &piece, 1, 0, RWF_NOWAIT)), refused);
    const std::int64_t begin = s.monotonic_ns();
    EXPECT_EQ(s.pwritev2(file, &piece, 1, 0, 0), 10);
    EXPECT_GE(s.monotonic_ns(), begin + 1'000'000);
    EXPECT_EQ(answer_of(s.pwritev2(file, &piece, 1, 10, 0)), failed(ENOSPC));
  });
}

TEST(SimulatedTrouble, starts_no_thread) {
  Faults faults;
  faults.no_thread = always;
  in_machine(faults, [](const os::System& s) {
    std::uint64_t thread = 0;
    EXPECT_EQ(s.thread_start(&thread, [](void*) {}, nullptr), EAGAIN);
  });
}

TEST(SimulatedTrouble, is_drawn_from_the_seed) {
  // Every trouble occurs in some seeds and not in others.
  struct Seen {
    int with = 0;
    int without = 0;
  };
  const std::uint32_t Faults::* const chances[] = {
      &Faults::bytes_per_us, &Faults::short_transfer, &Faults::reset,         &Faults::refuse,
      &Faults::slow,         &Faults::abort,          &Faults::lose,          &Faults::no_buffers,
      &Faults::disk_error,   &Faults::sync_error,     &Faults::at_once,       &Faults::late_cancel,
      &Faults::busy,         &Faults::empty_wait,     &Faults::part_of_batch, &Faults::interrupted,
      &Faults::again,        &Faults::spurious_ready, &Faults::late_ready,    &Faults::no_thread};
  for (const auto chance : chances) {
    Seen seen;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      Random random{seed};
      const Faults drawn = Faults::draw(random);
      EXPECT_LE(drawn.latency_least_ns, drawn.latency_most_ns);
      EXPECT_LE(drawn.buffer_least, drawn.buffer_most);
      ++(drawn.*chance != 0 ? seen.with : seen.without);
    }
    EXPECT_GT(seen.with, 20);
    EXPECT_GT(seen.without, 20);
  }
}

}  // namespace
}  // namespace baton::sim::test
