// The program's own system calls, those that signal(7) lists as interruptible: while requests are
// on the way none of them ends early. No handler is installed in these cases.
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

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

/// The call waits for a moment and answers what it should; -1 and EINTR is what it should not.
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

/// A thread that writes a byte to the descriptor whenever it is asked to.
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
// The completion's own signal is waited for, and is all that ends the wait.
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
  const std::string name = "/uaio-host-" + std::to_string(::getpid());
  mq_attr attributes{};
  attributes.mq_maxmsg = 1;
  attributes.mq_msgsize = 8;
  const mqd_t queue = ::mq_open(name.c_str(), O_RDWR | O_CREAT, 0600, &attributes);
  if (queue < 0) host::skip("no message queues here");
  ::mq_unlink(name.c_str());
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
