// Without faults, the calls of the simulated machine answer like a kernel's. All results from the
// simulator depend on this.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "machine.hpp"

namespace baton::sim::test {
namespace {

TEST(SimulatedCalls, know_a_descriptor_that_is_not_there) {
  in_machine([](const os::System& s) {
    char byte = 0;
    const iovec piece{&byte, 1};
    msghdr message{};
    struct stat status;
    const sockaddr_in address = address_of(1);
    const auto* peer = reinterpret_cast<const sockaddr*>(&address);
    sockaddr_in out;
    auto* name = reinterpret_cast<sockaddr*>(&out);
    socklen_t size = sizeof(out);
    epoll_event event{};
    for (const int fd : {-1, 3, 1000}) {
      SCOPED_TRACE(fd);
      const Answer bad = failed(EBADF);
      EXPECT_EQ(answer_of(s.read(fd, &byte, 1)), bad);
      EXPECT_EQ(answer_of(s.write(fd, &byte, 1)), bad);
      EXPECT_EQ(answer_of(s.readv(fd, &piece, 1)), bad);
      EXPECT_EQ(answer_of(s.writev(fd, &piece, 1)), bad);
      EXPECT_EQ(answer_of(s.preadv2(fd, &piece, 1, 0, 0)), bad);
      EXPECT_EQ(answer_of(s.pwritev2(fd, &piece, 1, 0, 0)), bad);
      EXPECT_EQ(answer_of(s.close(fd)), bad);
      EXPECT_EQ(answer_of(s.fcntl(fd, F_GETFL, 0)), bad);
      EXPECT_EQ(answer_of(s.fstat(fd, &status)), bad);
      EXPECT_EQ(answer_of(s.fsync(fd)), bad);
      EXPECT_EQ(answer_of(s.fdatasync(fd)), bad);
      EXPECT_EQ(answer_of(s.bind(fd, peer, sizeof(address))), bad);
      EXPECT_EQ(answer_of(s.listen(fd, 1)), bad);
      EXPECT_EQ(answer_of(s.accept4(fd, nullptr, nullptr, 0)), bad);
      EXPECT_EQ(answer_of(s.connect(fd, peer, sizeof(address))), bad);
      EXPECT_EQ(answer_of(s.shutdown(fd, SHUT_WR)), bad);
      EXPECT_EQ(answer_of(s.recv(fd, &byte, 1, 0)), bad);
      EXPECT_EQ(answer_of(s.send(fd, &byte, 1, 0)), bad);
      EXPECT_EQ(answer_of(s.recvfrom(fd, &byte, 1, 0, nullptr, nullptr)), bad);
      EXPECT_EQ(answer_of(s.sendto(fd, &byte, 1, 0, peer, sizeof(address))), bad);
      EXPECT_EQ(answer_of(s.recvmsg(fd, &message, 0)), bad);
      EXPECT_EQ(answer_of(s.sendmsg(fd, &message, 0)), bad);
      EXPECT_EQ(answer_of(s.getsockopt(fd, SOL_SOCKET, SO_ERROR, &byte, &size)), bad);
      EXPECT_EQ(answer_of(s.setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &byte, 1)), bad);
      EXPECT_EQ(answer_of(s.getsockname(fd, name, &size)), bad);
      EXPECT_EQ(answer_of(s.getpeername(fd, name, &size)), bad);
      EXPECT_EQ(answer_of(s.epoll_pwait(fd, &event, 1, 0, nullptr)), bad);
      EXPECT_EQ(answer_of(s.epoll_ctl(fd, EPOLL_CTL_ADD, fd, &event)), bad);
    }
  });
}

TEST(SimulatedCalls, that_are_not_simulated_say_so) {
  in_machine([](const os::System& s) {
    const Answer none = failed(ENOSYS);
    EXPECT_EQ(answer_of(s.io_uring_setup(1, nullptr)), none);
    EXPECT_EQ(answer_of(s.io_uring_enter(1, 0, 0, 0, nullptr, 0)), none);
    EXPECT_EQ(answer_of(s.io_uring_register(1, 0, nullptr, 0)), none);
    EXPECT_EQ(answer_of(s.io_setup(1, nullptr)), none);
    EXPECT_EQ(answer_of(s.io_submit(0, 0, nullptr)), none);
    EXPECT_EQ(answer_of(s.io_getevents(0, 0, 0, nullptr, nullptr)), none);
    EXPECT_EQ(answer_of(s.aio_read(nullptr)), none);
    EXPECT_EQ(answer_of(s.aio_write(nullptr)), none);
    EXPECT_EQ(answer_of(s.aio_fsync(0, nullptr)), none);
    EXPECT_EQ(answer_of(s.signalfd(-1, nullptr, 0)), none);
    EXPECT_EQ(answer_of(s.kill(1, 0)), none);
    EXPECT_EQ(answer_of(s.kill_thread(1, 0)), none);
    EXPECT_EQ(answer_of(s.sigaction(1, nullptr, nullptr)), none);
    EXPECT_EQ(answer_of(s.getdents64(1, nullptr, 0)), none);
  });
}

TEST(SimulatedCalls, tell_of_a_process_without_signals) {
  in_machine([](const os::System& s) {
    sigset_t set;
    sigfillset(&set);
    EXPECT_EQ(s.thread_sigmask(SIG_BLOCK, nullptr, &set), 0);
    EXPECT_EQ(::sigismember(&set, SIGUSR1), 0);
    EXPECT_EQ(s.thread_sigmask(SIG_BLOCK, &set, nullptr), 0);
    sigfillset(&set);
    EXPECT_EQ(s.sigpending(&set), 0);
    EXPECT_EQ(::sigismember(&set, SIGUSR1), 0);
    EXPECT_EQ(answer_of(s.sigtimedwait(&set, nullptr, nullptr)), failed(EAGAIN));
    rlimit limit{};
    EXPECT_EQ(s.getrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(limit.rlim_cur, 1024U);
    EXPECT_EQ(s.getpid(), 2);
    EXPECT_EQ(s.realtime_us(), s.monotonic_coarse_ns() / 1000);
    EXPECT_EQ(s.usable_cores(), 4U);
  });
}

// -- addresses ------------------------------------------------------------------------------------

TEST(SimulatedCalls, take_addresses_of_both_families_and_no_others) {
  in_machine([](const os::System& s) {
    EXPECT_EQ(answer_of(s.socket(AF_UNIX, SOCK_STREAM, 0)), failed(EAFNOSUPPORT));
    const int fd = s.socket(AF_INET6, SOCK_STREAM, 0);
    ASSERT_GE(fd, 0);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(70);
    const auto* address = reinterpret_cast<const sockaddr*>(&v6);
    EXPECT_EQ(answer_of(s.bind(fd, nullptr, 0)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.bind(fd, address, 1)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.bind(fd, address, sizeof(sockaddr_in))), failed(EAFNOSUPPORT));
    EXPECT_EQ(answer_of(s.connect(fd, address, 1)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.bind(fd, address, sizeof(v6))), gave(0));
    sockaddr_in v4 = address_of(1);
    EXPECT_EQ(answer_of(s.bind(fd, reinterpret_cast<sockaddr*>(&v4), 4)), failed(EAFNOSUPPORT));
    sockaddr_in name{};
    socklen_t size = sizeof(name);
    EXPECT_EQ(s.getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size), 0);
    EXPECT_EQ(ntohs(name.sin_port), 70);
    EXPECT_EQ(size, sizeof(sockaddr_in));
    // Arguments that are null are optional.
    EXPECT_EQ(s.getsockname(fd, nullptr, &size), 0);
    EXPECT_EQ(s.getsockname(fd, reinterpret_cast<sockaddr*>(&name), nullptr), 0);
    EXPECT_EQ(answer_of(s.getpeername(fd, nullptr, nullptr)), failed(ENOTCONN));
  });
}

TEST(SimulatedCalls, keep_the_flag_of_a_descriptor_that_does_not_block) {
  in_machine([](const os::System& s) {
    const int fd = s.socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(s.fcntl(fd, F_GETFL, 0), O_RDWR);
    EXPECT_EQ(s.fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(s.fcntl(fd, F_GETFL, 0), O_RDWR | O_NONBLOCK);
    EXPECT_EQ(s.fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
    EXPECT_EQ(s.setsockopt(fd, IPPROTO_TCP, 1, nullptr, 0), 0);
    int number = 7;
    socklen_t size = sizeof(number);
    EXPECT_EQ(s.getsockopt(fd, IPPROTO_TCP, SO_ERROR, &number, &size), 0);
    EXPECT_EQ(number, 0);
  });
}

// -- files ----------------------------------------------------------------------------------------

TEST(SimulatedCalls, open_create_and_truncate_files) {
  in_machine([](const os::System& s) {
    EXPECT_EQ(answer_of(s.open("/a", O_RDWR, 0)), failed(ENOENT));
    const int fd = s.open("/a", O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(answer_of(s.open("/a", O_RDWR | O_CREAT | O_EXCL, 0600)), failed(EEXIST));
    EXPECT_EQ(s.write(fd, "hello", 5), 5);
    struct stat status;
    EXPECT_EQ(s.fstat(fd, &status), 0);
    EXPECT_TRUE(S_ISREG(status.st_mode));
    EXPECT_EQ(status.st_size, 5);
    const int more = s.open("/a", O_RDWR | O_CREAT | O_APPEND, 0600);
    EXPECT_EQ(s.write(more, "!", 1), 1);
    char text[8] = {};
    EXPECT_EQ(s.lseek(fd, 0, SEEK_SET), 0);
    EXPECT_EQ(s.read(fd, text, sizeof(text)), 6);
    EXPECT_STREQ(text, "hello!");
    EXPECT_EQ(s.read(fd, text, sizeof(text)), 0);
    EXPECT_GE(s.open("/a", O_RDWR | O_TRUNC, 0), 0);
    EXPECT_EQ(s.fstat(fd, &status), 0);
    EXPECT_EQ(status.st_size, 0);
  });
}

TEST(SimulatedCalls, move_about_in_files) {
  in_machine([](const os::System& s) {
    const int fd = s.open("/a", O_RDWR | O_CREAT, 0600);
    char text[] = "0123456789";
    const iovec pieces[] = {{text, 4}, {text + 4, 0}, {text + 4, 6}};
    EXPECT_EQ(s.writev(fd, pieces, 3), 10);
    EXPECT_EQ(s.lseek(fd, -4, SEEK_END), 6);
    EXPECT_EQ(s.lseek(fd, 1, SEEK_CUR), 7);
    char back[10] = {};
    const iovec into{back, sizeof(back)};
    EXPECT_EQ(s.preadv2(fd, &into, 1, -1, 0), 3);  // from where it stands
    EXPECT_EQ(std::string(back, 3), "789");
    EXPECT_EQ(s.preadv2(fd, &into, 1, 2, RWF_NOWAIT), 8);
    EXPECT_EQ(s.preadv2(fd, &into, 1, 10, 0), 0);
    const iovec x{text + 9, 1};
    EXPECT_EQ(s.pwritev2(fd, &x, 1, 0, 0), 1);
    EXPECT_EQ(s.pwritev2(fd, &x, 1, -1, 0), 1);
    EXPECT_EQ(s.readv(fd, &into, 1), 0);
    EXPECT_EQ(s.preadv2(fd, &into, 1, 0, 0), 10);
    EXPECT_EQ(std::string(back, 10), "9123456789");
    EXPECT_EQ(s.fsync(fd), 0);
    EXPECT_EQ(s.fdatasync(fd), 0);
  });
}

TEST(SimulatedCalls, take_only_aligned_transfers_past_the_page_cache) {
  constexpr std::size_t block = 512;
  Faults faults = Faults::none();
  faults.short_transfer = always;
  in_machine(faults, [](const os::System& s) {
    alignas(block) static std::array<char, 4 * block> memory{};
    const int fd = s.open("/a", O_RDWR | O_CREAT | O_DIRECT, 0600);
    EXPECT_NE(s.fcntl(fd, F_GETFL, 0) & O_DIRECT, 0);
    const iovec right{memory.data(), 2 * block};
    const iovec elsewhere{memory.data() + 1, block};
    const iovec too_long{memory.data(), block + 1};
    EXPECT_EQ(answer_of(s.pwritev2(fd, &elsewhere, 1, 0, 0)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.pwritev2(fd, &too_long, 1, 0, 0)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.pwritev2(fd, &right, 1, 1, 0)), failed(EINVAL));
    // Short ones end at a block's end, so that they can be continued.
    EXPECT_EQ(answer_of(s.pwritev2(fd, &right, 1, 0, 0)), gave(block));
    EXPECT_EQ(static_cast<std::size_t>(s.write(fd, memory.data(), memory.size())) % block, 0U);
    const int plain = s.open("/a", O_RDWR | O_APPEND, 0600);
    EXPECT_EQ(s.write(plain, "!", 1), 1);
    struct stat status;
    EXPECT_EQ(s.fstat(fd, &status), 0);
    EXPECT_EQ(answer_of(s.preadv2(fd, &elsewhere, 1, 0, 0)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.preadv2(fd, &too_long, 1, 0, 0)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.preadv2(fd, &right, 1, 1, 0)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.preadv2(fd, &right, 1, 0, 0)), gave(block));
    EXPECT_EQ(answer_of(s.preadv2(fd, &right, 1, status.st_size - 1, 0)), gave(1));
    EXPECT_EQ(answer_of(s.preadv2(fd, &right, 1, status.st_size, 0)), gave(0));
  });
}

TEST(SimulatedCalls, know_what_is_no_file) {
  in_machine([](const os::System& s) {
    const int socket = stream_socket(s);
    char byte = 0;
    const iovec piece{&byte, 1};
    EXPECT_EQ(answer_of(s.lseek(socket, 0, SEEK_SET)), failed(ESPIPE));
    EXPECT_EQ(answer_of(s.lseek(-1, 0, SEEK_SET)), failed(ESPIPE));
    EXPECT_EQ(answer_of(s.preadv2(socket, &piece, 1, 0, 0)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.pwritev2(socket, &piece, 1, 0, 0)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.fsync(socket)), failed(EINVAL));
    const int poller = s.epoll_create1(0);
    EXPECT_EQ(answer_of(s.read(poller, &byte, 1)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.write(poller, &byte, 1)), failed(EINVAL));
    struct stat status;
    EXPECT_EQ(s.fstat(socket, &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
  });
}

TEST(SimulatedCalls, have_a_device_without_content) {
  in_machine([](const os::System& s) {
    const int fd = s.open("/dev/null", O_RDWR, 0);
    char text[4] = {};
    const iovec piece{text, sizeof(text)};
    EXPECT_EQ(s.read(fd, text, sizeof(text)), 0);
    EXPECT_EQ(s.write(fd, text, sizeof(text)), 4);
    EXPECT_EQ(s.preadv2(fd, &piece, 1, 0, 0), 0);
    EXPECT_EQ(s.pwritev2(fd, &piece, 1, 0, 0), 4);
    struct stat status;
    EXPECT_EQ(s.fstat(fd, &status), 0);
    EXPECT_TRUE(S_ISCHR(status.st_mode));
  });
}

// -- pipes and events -----------------------------------------------------------------------------

TEST(SimulatedCalls, move_bytes_through_pipes_in_one_direction) {
  in_machine([](const os::System& s) {
    int ends[2];
    ASSERT_EQ(s.pipe2(ends, 0), 0);
    char text[8] = {};
    EXPECT_EQ(answer_of(s.read(ends[0], text, 1)), failed(EAGAIN));
    EXPECT_EQ(answer_of(s.read(ends[1], text, 1)), failed(EBADF));
    EXPECT_EQ(answer_of(s.write(ends[0], text, 1)), failed(EBADF));
    EXPECT_EQ(s.write(ends[1], "abc", 3), 3);
    EXPECT_EQ(s.write(ends[1], "", 0), 0);
    EXPECT_EQ(s.read(ends[0], text, 0), 0);
    EXPECT_EQ(s.read(ends[0], text, 2), 2);
    struct stat status;
    EXPECT_EQ(s.fstat(ends[0], &status), 0);
    EXPECT_TRUE(S_ISFIFO(status.st_mode));
    EXPECT_EQ(s.close(ends[1]), 0);
    EXPECT_EQ(s.read(ends[0], text, 2), 1);
    EXPECT_EQ(s.read(ends[0], text, 2), 0);
  });
}

TEST(SimulatedCalls, tell_a_writer_that_its_reader_is_gone) {
  in_machine([](const os::System& s) {
    int ends[2];
    ASSERT_EQ(s.pipe2(ends, 0), 0);
    EXPECT_EQ(s.write(ends[1], "abc", 3), 3);
    EXPECT_EQ(s.close(ends[0]), 0);
    EXPECT_EQ(answer_of(s.write(ends[1], "abc", 3)), failed(EPIPE));
  });
}

TEST(SimulatedCalls, find_a_pipe_full) {
  Faults faults;
  faults.buffer_least = faults.buffer_most = 64;
  in_machine(faults, [](const os::System& s) {
    int ends[2];
    ASSERT_EQ(s.pipe2(ends, 0), 0);
    const std::string text(100, 'x');
    EXPECT_EQ(s.write(ends[1], text.data(), text.size()), 64);
    EXPECT_EQ(answer_of(s.write(ends[1], text.data(), text.size())), failed(EAGAIN));
    char byte = 0;
    EXPECT_EQ(s.read(ends[0], &byte, 1), 1);
    EXPECT_EQ(s.write(ends[1], text.data(), text.size()), 1);
  });
}

TEST(SimulatedCalls, count_events) {
  in_machine([](const os::System& s) {
    const int fd = s.eventfd(2, 0);
    std::uint64_t count = 5;
    EXPECT_EQ(s.write(fd, &count, sizeof(count)), 8);
    EXPECT_EQ(s.read(fd, &count, sizeof(count)), 8);
    EXPECT_EQ(count, 7U);
    EXPECT_EQ(answer_of(s.read(fd, &count, sizeof(count))), failed(EAGAIN));
    count = std::numeric_limits<std::uint64_t>::max() - 1;
    EXPECT_EQ(s.write(fd, &count, sizeof(count)), 8);
    count = 1;
    EXPECT_EQ(answer_of(s.write(fd, &count, sizeof(count))), failed(EAGAIN));
  });
}

TEST(SimulatedCalls, find_no_descriptor_left) {
  Faults faults;
  faults.descriptors_max = 2;
  in_machine(faults, [](const os::System& s) {
    int ends[2];
    ASSERT_EQ(s.pipe2(ends, 0), 0);
    const Answer full = failed(EMFILE);
    int more[2];
    EXPECT_EQ(answer_of(s.socket(AF_INET, SOCK_STREAM, 0)), full);
    EXPECT_EQ(answer_of(s.eventfd(0, 0)), full);
    EXPECT_EQ(answer_of(s.epoll_create1(0)), full);
    EXPECT_EQ(answer_of(s.open("/a", O_CREAT, 0)), full);
    EXPECT_EQ(answer_of(s.pipe2(more, 0)), full);
    EXPECT_EQ(s.close(ends[1]), 0);
    EXPECT_EQ(answer_of(s.pipe2(more, 0)), full) << "room for one end is not enough";
    EXPECT_EQ(answer_of(s.socketpair(AF_UNIX, SOCK_STREAM, 0, more)), full);
    EXPECT_EQ(s.close(ends[0]), 0);
    EXPECT_EQ(s.socketpair(AF_UNIX, SOCK_STREAM, 0, more), 0);
    EXPECT_EQ(send_text(s, more[0], "hi"), gave(2));
    EXPECT_EQ(receive(s, more[1]), gave(2));
  });
}

TEST(SimulatedCalls, of_open_do_nothing_without_a_descriptor) {
  Faults faults;
  faults.descriptors_max = 1;
  in_machine(faults, [](const os::System& s) {
    const int file = s.open("/a", O_CREAT | O_RDWR, 0);
    EXPECT_EQ(s.write(file, "abc", 3), 3);
    EXPECT_EQ(answer_of(s.open("/a", O_TRUNC | O_RDWR, 0)), failed(EMFILE));
    EXPECT_EQ(answer_of(s.open("/b", O_CREAT | O_RDWR, 0)), failed(EMFILE));
    EXPECT_EQ(s.lseek(file, 0, SEEK_END), 3);
    EXPECT_EQ(s.close(file), 0);
    EXPECT_EQ(answer_of(s.open("/b", O_RDWR, 0)), failed(ENOENT));
  });
}

}  // namespace
}  // namespace baton::sim::test
