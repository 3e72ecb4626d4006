// The program's own system calls, those that signal(7) lists as interruptible: none of them ends
// early while requests are in flight. No handler is installed in these cases.
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "host.hpp"

using host::Load;
using host::Pipe;

namespace {

constexpr timespec moment{0, 2'000'000};
constexpr timeval moment_of_sockets{0, 4'000};

timespec soon() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  now.tv_nsec += moment.tv_nsec;
  if (now.tv_nsec >= 1'000'000'000) {
    ++now.tv_sec;
    now.tv_nsec -= 1'000'000'000;
  }
  return now;
}

/// The call waits for a moment and answers as expected; -1 and EINTR are wrong.
template <class Call>
void is_never_cut(Call&& call) {
  Load load;
  for (int i = 0; i < host::rounds(); ++i) {
    load.top_up();
    CHECK(call());
  }
  load.finish_all();
}

struct Pair {
  explicit Pair(int type = SOCK_STREAM) { CHECK(::socketpair(AF_UNIX, type, 0, ends) == 0); }
  int ends[2];
};

/// All of a large transfer, in one call, while another thread takes it at leisure.
template <class Write>
void is_whole(int out, Write&& write) {
  constexpr std::size_t size = 4U << 20;
  std::vector<char> bytes(size, 'w');
  Load load;
  for (int i = 0; i < 5; ++i) {
    std::thread reader{[out] {
      std::vector<char> chunk(32U << 10);
      for (std::size_t sum = 0; sum < size;) {
        const ssize_t got = ::read(out, chunk.data(), chunk.size());
        CHECK(got > 0);
        sum += static_cast<std::size_t>(got);
      }
    }};
    load.top_up();
    const ssize_t written = write(bytes.data(), size);
    CHECK(written == static_cast<ssize_t>(size));
    reader.join();
  }
  load.finish_all();
}

/// A thread that writes a byte to the descriptor on request.
template <class Wait>
void is_not_cut_until_a_byte(int in, int out, Wait&& wait) {
  Load load;
  for (int i = 0; i < host::rounds(); ++i) {
    load.top_up();
    std::thread writer{[in] {
      ::nanosleep(&moment, nullptr);
      CHECK(::write(in, "b", 1) == 1);
    }};
    CHECK(wait(out));
    writer.join();
  }
  load.finish_all();
}

/// The call waits until the other action is done, a moment later.
template <class Other, class Call>
bool after_a_moment(Other&& other, Call&& call) {
  std::thread thread{[&] {
    ::nanosleep(&moment, nullptr);
    other();
  }};
  const bool answer = call();
  thread.join();
  return answer;
}

}  // namespace

HOST_CASE(write_to_a_pipe_is_whole, "own system calls") {
  Pipe pipe;
  is_whole(pipe.out(),
           [&](char* bytes, std::size_t size) { return ::write(pipe.in(), bytes, size); });
}
HOST_CASE(writev_to_a_pipe_is_whole, "own system calls") {
  Pipe pipe;
  is_whole(pipe.out(), [&](char* bytes, std::size_t size) {
    const iovec halves[] = {{bytes, size / 2}, {bytes + size / 2, size - size / 2}};
    return ::writev(pipe.in(), halves, 2);
  });
}
HOST_CASE(send_to_a_socket_is_whole, "own system calls") {
  Pair pair;
  is_whole(pair.ends[1],
           [&](char* bytes, std::size_t size) { return ::send(pair.ends[0], bytes, size, 0); });
}
HOST_CASE(recv_with_waitall_is_whole, "own system calls") {
  Pair pair;
  const char sent[63] = {};
  char bytes[64];
  is_not_cut_until_a_byte(pair.ends[0], pair.ends[1], [&](int out) {
    std::thread rest{[&] {
      ::nanosleep(&moment, nullptr);
      CHECK(::send(pair.ends[0], sent, 63, 0) == 63);
    }};
    const ssize_t got = ::recv(out, bytes, 64, MSG_WAITALL);
    rest.join();
    return got == 64;
  });
}
HOST_CASE(read_of_a_pipe, "own system calls") {
  Pipe pipe;
  char byte = 0;
  is_not_cut_until_a_byte(pipe.in(), pipe.out(),
                          [&](int out) { return ::read(out, &byte, 1) == 1; });
}
HOST_CASE(recv_with_a_time_out, "own system calls") {
  Pair pair;
  CHECK(::setsockopt(pair.ends[0], SOL_SOCKET, SO_RCVTIMEO, &moment_of_sockets,
                     sizeof(moment_of_sockets)) == 0);
  char byte = 0;
  is_never_cut([&] { return ::recv(pair.ends[0], &byte, 1, 0) == -1 && errno == EAGAIN; });
}
HOST_CASE(send_with_a_time_out, "own system calls") {
  Pair pair;
  std::vector<char> filling(1U << 20);
  while (::send(pair.ends[0], filling.data(), filling.size(), MSG_DONTWAIT) > 0) {
  }
  CHECK(::setsockopt(pair.ends[0], SOL_SOCKET, SO_SNDTIMEO, &moment_of_sockets,
                     sizeof(moment_of_sockets)) == 0);
  is_never_cut([&] { return ::send(pair.ends[0], "s", 1, 0) == -1 && errno == EAGAIN; });
}
HOST_CASE(accept_with_a_time_out, "own system calls") {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  CHECK(::listen(listener, 1) == 0);
  CHECK(::setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &moment_of_sockets,
                     sizeof(moment_of_sockets)) == 0);
  is_never_cut([&] { return ::accept(listener, nullptr, nullptr) == -1 && errno == EAGAIN; });
}
HOST_CASE(nanosleep_is_not_cut, "own system calls") {
  is_never_cut([] { return ::nanosleep(&moment, nullptr) == 0; });
}
HOST_CASE(clock_nanosleep_is_not_cut, "own system calls") {
  is_never_cut([] { return ::clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, nullptr) == 0; });
}
HOST_CASE(usleep_is_not_cut, "own system calls") {
  is_never_cut([] { return ::usleep(2'000) == 0; });
}
HOST_CASE(poll_is_not_cut, "own system calls") {
  Pipe pipe;
  is_never_cut([&] {
    pollfd entry{pipe.out(), POLLIN, 0};
    return ::poll(&entry, 1, 2) == 0;
  });
}
HOST_CASE(ppoll_is_not_cut, "own system calls") {
  Pipe pipe;
  sigset_t none;
  sigemptyset(&none);
  is_never_cut([&] {
    pollfd entry{pipe.out(), POLLIN, 0};
    return ::ppoll(&entry, 1, &moment, &none) == 0;
  });
}
HOST_CASE(select_is_not_cut, "own system calls") {
  is_never_cut([] {
    timeval time{0, 2'000};
    return ::select(0, nullptr, nullptr, nullptr, &time) == 0;
  });
}
HOST_CASE(pselect_is_not_cut, "own system calls") {
  sigset_t none;
  sigemptyset(&none);
  is_never_cut([&] { return ::pselect(0, nullptr, nullptr, nullptr, &moment, &none) == 0; });
}
HOST_CASE(epoll_wait_is_not_cut, "own system calls") {
  const int epoll = ::epoll_create1(0);
  is_never_cut([&] {
    epoll_event event{};
    return ::epoll_wait(epoll, &event, 1, 2) == 0;
  });
}
HOST_CASE(epoll_pwait_is_not_cut, "own system calls") {
  const int epoll = ::epoll_create1(0);
  sigset_t none;
  sigemptyset(&none);
  is_never_cut([&] {
    epoll_event event{};
    return ::epoll_pwait(epoll, &event, 1, 2, &none) == 0;
  });
}
HOST_CASE(sigtimedwait_is_not_cut, "own system calls") {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  is_never_cut([&] { return ::sigtimedwait(&set, nullptr, &moment) == -1 && errno == EAGAIN; });
}
// The call waits for the completion's own signal, and only that ends the wait.
HOST_CASE(sigwaitinfo_of_the_completion, "own system calls") {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  const int file = host::temporary(O_DIRECT, 1U << 20);
  aiocb read = host::request(file, host::aligned(), 4'096);
  read.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  read.aio_sigevent.sigev_signo = SIGRTMIN;
  for (int i = 0; i < host::rounds(); ++i) {
    CHECK(aio_read(&read) == 0);
    siginfo_t info{};
    CHECK(::sigwaitinfo(&set, &info) == SIGRTMIN && info.si_code == SI_ASYNCIO);
    CHECK(aio_error(&read) == 0 && aio_return(&read) == 4'096);
  }
}
HOST_CASE(semtimedop_is_not_cut, "own system calls") {
  const int set = ::semget(IPC_PRIVATE, 1, 0600);
  CHECK(set >= 0);
  is_never_cut([&] {
    sembuf take{0, -1, 0};
    return ::semtimedop(set, &take, 1, &moment) == -1 && errno == EAGAIN;
  });
  ::semctl(set, 0, IPC_RMID);
}
HOST_CASE(msgrcv_is_not_cut, "own system calls") {
  const int queue = ::msgget(IPC_PRIVATE, 0600);
  CHECK(queue >= 0);
  struct {
    long type;
    char text[8];
  } message{1, {}};
  Load load;
  for (int i = 0; i < host::rounds(); ++i) {
    load.top_up();
    std::thread sender{[&] {
      ::nanosleep(&moment, nullptr);
      const decltype(message) sent{1, {}};
      CHECK(::msgsnd(queue, &sent, 8, 0) == 0);
    }};
    CHECK(::msgrcv(queue, &message, 8, 0, 0) == 8);
    sender.join();
  }
  ::msgctl(queue, IPC_RMID, nullptr);
  load.finish_all();
}
HOST_CASE(sem_timedwait_is_not_cut, "own system calls") {
  sem_t semaphore;
  CHECK(::sem_init(&semaphore, 0, 0) == 0);
  is_never_cut([&] {
    const timespec end = soon();
    return ::sem_timedwait(&semaphore, &end) == -1 && errno == ETIMEDOUT;
  });
}
HOST_CASE(mq_timedreceive_is_not_cut, "own system calls") {
  const mqd_t queue = host::message_queue();
  char text[8];
  is_never_cut([&] {
    const timespec end = soon();
    return ::mq_timedreceive(queue, text, 8, nullptr, &end) == -1 && errno == ETIMEDOUT;
  });
}
HOST_CASE(read_of_a_timerfd, "own system calls") {
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, 0);
  is_never_cut([&] {
    const itimerspec once{{0, 0}, moment};
    CHECK(::timerfd_settime(timer, 0, &once, nullptr) == 0);
    std::uint64_t count = 0;
    return ::read(timer, &count, sizeof(count)) == sizeof(count);
  });
}
HOST_CASE(read_of_an_eventfd, "own system calls") {
  const int event = ::eventfd(0, 0);
  Load load;
  for (int i = 0; i < host::rounds(); ++i) {
    load.top_up();
    std::thread writer{[&] {
      ::nanosleep(&moment, nullptr);
      const std::uint64_t one = 1;
      CHECK(::write(event, &one, sizeof(one)) == sizeof(one));
    }};
    std::uint64_t count = 0;
    CHECK(::read(event, &count, sizeof(count)) == sizeof(count));
    writer.join();
  }
  load.finish_all();
}
HOST_CASE(waitpid_is_not_cut, "own system calls") {
  is_never_cut([] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::nanosleep(&moment, nullptr);
      ::_exit(3);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3;
  });
}
HOST_CASE(flock_is_not_cut, "own system calls") {
  const std::string name = host::folder() + "/uaio-flock-" + std::to_string(::getpid());
  const int mine = ::open(name.c_str(), O_RDWR | O_CREAT, 0600);
  const int other = ::open(name.c_str(), O_RDWR);
  ::unlink(name.c_str());
  is_never_cut([&] {
    CHECK(::flock(other, LOCK_EX) == 0);
    std::thread holder{[&] {
      ::nanosleep(&moment, nullptr);
      CHECK(::flock(other, LOCK_UN) == 0);
    }};
    const bool taken = ::flock(mine, LOCK_EX) == 0;
    holder.join();
    return taken && ::flock(mine, LOCK_UN) == 0;
  });
}
HOST_CASE(open_of_a_fifo_is_not_cut, "own system calls") {
  const std::string name = host::folder() + "/uaio-fifo-" + std::to_string(::getpid());
  CHECK(::mkfifo(name.c_str(), 0600) == 0);
  is_never_cut([&] {
    std::thread other{[&] {
      ::nanosleep(&moment, nullptr);
      const int end = ::open(name.c_str(), O_WRONLY);
      CHECK(end >= 0 && ::close(end) == 0);
    }};
    const int end = ::open(name.c_str(), O_RDONLY);
    other.join();
    return end >= 0 && ::close(end) == 0;
  });
  ::unlink(name.c_str());
}
HOST_CASE(semaphore_is_not_cut, "own system calls") {
  sem_t semaphore;
  CHECK(::sem_init(&semaphore, 0, 0) == 0);
  is_never_cut([&] {
    return after_a_moment([&] { CHECK(::sem_post(&semaphore) == 0); },
                          [&] { return ::sem_wait(&semaphore) == 0; });
  });
}
HOST_CASE(mq_timedsend_is_not_cut, "own system calls") {
  const mqd_t queue = host::message_queue();
  CHECK(::mq_send(queue, "full", 4, 0) == 0);
  is_never_cut([&] {
    const timespec end = soon();
    return ::mq_timedsend(queue, "more", 4, 0, &end) == -1 && errno == ETIMEDOUT;
  });
}
HOST_CASE(msgsnd_is_not_cut, "own system calls") {
  const int queue = ::msgget(IPC_PRIVATE, 0600);
  msqid_ds limits{};
  CHECK(queue >= 0 && ::msgctl(queue, IPC_STAT, &limits) == 0);
  limits.msg_qbytes = 8;
  CHECK(::msgctl(queue, IPC_SET, &limits) == 0);
  struct {
    long type;
    char text[8];
  } message{1, {}};
  CHECK(::msgsnd(queue, &message, 8, 0) == 0);
  is_never_cut([&] {
    auto taken = message;
    return after_a_moment([&] { CHECK(::msgrcv(queue, &taken, 8, 0, 0) == 8); },
                          [&] { return ::msgsnd(queue, &message, 8, 0) == 0; });
  });
  ::msgctl(queue, IPC_RMID, nullptr);
}
HOST_CASE(recvmsg_and_recvmmsg_with_a_time_out, "own system calls") {
  Pair pair{SOCK_DGRAM};
  CHECK(::setsockopt(pair.ends[0], SOL_SOCKET, SO_RCVTIMEO, &moment_of_sockets,
                     sizeof(moment_of_sockets)) == 0);
  char byte = 0;
  iovec piece{&byte, 1};
  mmsghdr messages[2] = {};
  for (mmsghdr& each : messages) {
    each.msg_hdr.msg_iov = &piece;
    each.msg_hdr.msg_iovlen = 1;
  }
  is_never_cut([&] {
    return ::recvmsg(pair.ends[0], &messages[0].msg_hdr, 0) == -1 && errno == EAGAIN &&
           ::recvmmsg(pair.ends[0], messages, 2, 0, nullptr) == -1 && errno == EAGAIN;
  });
}
HOST_CASE(sendmsg_is_whole, "own system calls") {
  Pair pair;
  is_whole(pair.ends[1], [&](char* bytes, std::size_t size) {
    iovec halves[] = {{bytes, size / 2}, {bytes + size / 2, size - size / 2}};
    msghdr message{};
    message.msg_iov = halves;
    message.msg_iovlen = 2;
    return ::sendmsg(pair.ends[0], &message, 0);
  });
}
HOST_CASE(connect_is_not_cut, "own system calls") {
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t size = sizeof(sa_family_t);  // the kernel chooses a name
  CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::listen(listener, 0) == 0);
  size = sizeof(address);
  CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const auto join = [&](int socket) {
    return ::connect(socket, reinterpret_cast<sockaddr*>(&address), size) == 0;
  };
  const auto leave = [&] {
    const int peer = ::accept(listener, nullptr, nullptr);
    CHECK(peer >= 0 && ::close(peer) == 0);
  };
  is_never_cut([&] {
    // There is room for one that waits.
    const int first = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const int second = ::socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(join(first));
    const bool joined = after_a_moment(leave, [&] { return join(second); });
    if (joined) leave();
    ::close(first);
    ::close(second);
    return joined;
  });
}
HOST_CASE(readv_of_a_pipe, "own system calls") {
  Pipe pipe;
  char byte = 0;
  const iovec piece{&byte, 1};
  is_not_cut_until_a_byte(pipe.in(), pipe.out(),
                          [&](int out) { return ::readv(out, &piece, 1) == 1; });
}
HOST_CASE(read_of_a_terminal, "own system calls") {
  int master = -1;
  int slave = -1;
  CHECK(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
  termios raw{};
  CHECK(::tcgetattr(slave, &raw) == 0);
  ::cfmakeraw(&raw);
  CHECK(::tcsetattr(slave, TCSANOW, &raw) == 0);
  char byte = 0;
  is_not_cut_until_a_byte(master, slave, [&](int out) { return ::read(out, &byte, 1) == 1; });
}
HOST_CASE(read_of_an_inotify, "own system calls") {
  const std::string name = host::folder() + "/uaio-inotify-" + std::to_string(::getpid());
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT, 0600);
  const int watch = ::inotify_init1(0);
  CHECK(file >= 0 && ::inotify_add_watch(watch, name.c_str(), IN_MODIFY) >= 0);
  is_not_cut_until_a_byte(file, watch, [](int out) {
    inotify_event event{};
    return ::read(out, &event, sizeof(event)) == sizeof(event) && event.mask == IN_MODIFY;
  });
  ::unlink(name.c_str());
}
HOST_CASE(locks_of_records_are_not_cut, "own system calls") {
  const std::string name = host::folder() + "/uaio-record-" + std::to_string(::getpid());
  const int mine = ::open(name.c_str(), O_RDWR | O_CREAT, 0600);
  const int other = ::open(name.c_str(), O_RDWR);
  ::unlink(name.c_str());
  const auto set = [](int file, int command, short type) {
    struct flock lock{};
    lock.l_type = type;
    return ::fcntl(file, command, &lock) == 0;
  };
  is_never_cut([&] {
    CHECK(set(other, F_OFD_SETLK, F_WRLCK));
    const auto release = [&] { CHECK(set(other, F_OFD_SETLK, F_UNLCK)); };
    const bool taken = after_a_moment(release, [&] { return set(mine, F_OFD_SETLKW, F_WRLCK); });
    return taken && set(mine, F_OFD_SETLK, F_UNLCK);
  });
  // Locks of the process; the call waits for one that another process holds.
  Pipe pipe;
  is_never_cut([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      CHECK(set(other, F_SETLK, F_WRLCK) && ::write(pipe.in(), "l", 1) == 1);
      ::nanosleep(&moment, nullptr);
      ::_exit(0);
    }
    char byte = 0;
    CHECK(::read(pipe.out(), &byte, 1) == 1);
    const bool taken = set(mine, F_SETLKW, F_WRLCK) && set(mine, F_SETLK, F_UNLCK);
    return ::waitpid(child, nullptr, 0) == child && taken;
  });
}
HOST_CASE(waitid_is_not_cut, "own system calls") {
  is_never_cut([] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::nanosleep(&moment, nullptr);
      ::_exit(3);
    }
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED) == 0 && info.si_status == 3;
  });
}
HOST_CASE(sleep_is_not_cut, "own system calls") {
  Load load;
  CHECK(::sleep(1) == 0);
  load.finish_all();
}
// Only handlers end these two calls.
HOST_CASE(pause_and_sigsuspend_are_not_cut, "own system calls") {
  static std::atomic<bool> handled{false};
  struct sigaction action{};
  action.sa_handler = [](int) { handled = true; };
  CHECK(::sigaction(SIGUSR1, &action, nullptr) == 0);
  sigset_t usual;
  sigset_t blocked;
  CHECK(pthread_sigmask(SIG_SETMASK, nullptr, &usual) == 0);
  blocked = usual;
  sigaddset(&blocked, SIGUSR1);
  const pthread_t self = pthread_self();
  is_never_cut([&] {
    handled = false;
    CHECK(pthread_sigmask(SIG_SETMASK, &blocked, nullptr) == 0);
    const auto send = [self] { CHECK(pthread_kill(self, SIGUSR1) == 0); };
    return after_a_moment(send, [&] { return ::sigsuspend(&usual) == -1 && handled; });
  });
  CHECK(pthread_sigmask(SIG_SETMASK, &usual, nullptr) == 0);
  // A signal before the call would be lost, so signals are sent until the call is over.
  is_never_cut([&] {
    handled = false;
    std::atomic<bool> over{false};
    std::thread sender{[&] {
      while (!over) {
        ::nanosleep(&moment, nullptr);
        CHECK(pthread_kill(self, SIGUSR1) == 0);
      }
    }};
    ::pause();
    const bool by_handler = handled;
    over = true;
    sender.join();
    return by_handler;
  });
}
HOST_CASE(epoll_pwait2_is_not_cut, "own system calls") {
  const int epoll = ::epoll_create1(0);
  is_never_cut([&] {
    epoll_event event{};
    return ::syscall(SYS_epoll_pwait2, epoll, &event, 1, &moment, nullptr, 0) == 0;
  });
}
// A program may have native AIO, or a ring, of its own.
HOST_CASE(own_io_getevents_is_not_cut, "own system calls") {
  aio_context_t context = 0;
  if (::syscall(SYS_io_setup, 1, &context) != 0) host::skip("no native AIO here");
  is_never_cut([&] {
    io_event event{};
    return ::syscall(SYS_io_getevents, context, 1L, 1L, &event, &moment) == 0;
  });
  ::syscall(SYS_io_destroy, context);
}
HOST_CASE(own_ring_is_not_cut, "own system calls") {
  io_uring_params parameters{};
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters));
  if (ring < 0) host::skip("no rings here");
  if ((parameters.features & IORING_FEAT_EXT_ARG) == 0) host::skip("rings know no time here");
  is_never_cut([&] {
    const __kernel_timespec time{0, moment.tv_nsec};
    io_uring_getevents_arg argument{};
    argument.ts = reinterpret_cast<std::uintptr_t>(&time);
    return ::syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                     &argument, sizeof(argument)) == -1 &&
           errno == ETIME;
  });
}
HOST_CASE(condition_with_a_time_out, "own system calls") {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  is_never_cut([&] {
    const timespec end = soon();
    pthread_mutex_lock(&mutex);
    const int answer = pthread_cond_timedwait(&condition, &mutex, &end);
    pthread_mutex_unlock(&mutex);
    return answer == ETIMEDOUT;
  });
}
