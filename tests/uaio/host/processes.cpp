// The ends of processes and threads, forks that no library detects, limits that change, and locks
// that must outlive a program.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "host.hpp"

using host::Pipe;

namespace {

void use_keeper_and_device() {
  const int direct = host::temporary(O_DIRECT, 64U << 10);
  aiocb read = host::request(direct, host::aligned(), 4'096);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  Pipe pipe;
  char byte = 0;
  aiocb stream = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&stream) == 0 && ::write(pipe.in(), "s", 1) == 1 && host::finish(stream) == 1);
  ::close(direct);
  ::close(pipe.in());
  ::close(pipe.out());
}

/// The keeper's last work is a cancel.
void use_and_cancel() {
  Pipe pipe;
  char byte = 0;
  aiocb stream = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&stream) == 0 && aio_cancel(pipe.out(), &stream) != -1);
  CHECK(::write(pipe.in(), "c", 1) == 1);  // the system's library reads on
  host::wait_for(stream);
  aio_return(&stream);
  ::close(pipe.in());
  ::close(pipe.out());
}

void use_with_notifications() {
  static std::atomic<int> called{0};
  called = 0;
  const int direct = host::temporary(O_DIRECT, 64U << 10);
  aiocb read = host::request(direct, host::aligned(), 4'096);
  read.aio_sigevent.sigev_notify = SIGEV_THREAD;
  read.aio_sigevent.sigev_notify_function = [](sigval) { ++called; };
  CHECK(aio_read(&read) == 0);
  host::until([] { return called == 1; });
  CHECK(host::finish(read) == 4'096);
  ::close(direct);
}

}  // namespace

// The library's threads do not keep a process alive.
HOST_CASE(process_ends_with_its_last_thread, "ends of threads") {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    use_keeper_and_device();
    use_with_notifications();
    pthread_exit(nullptr);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
// A user namespace is for processes of one thread: the library's are gone when they have been idle.
HOST_CASE(idle_process_has_one_thread, "ends of threads") {
  for (int i = 0; i < 2; ++i) {
    use_keeper_and_device();
    use_with_notifications();
    use_and_cancel();
    const timespec moment{0, 50'000'000};
    bool alone = false;
    while (!alone) {
      ::nanosleep(&moment, nullptr);
      CHECK(host::in_child([] {}) == 0);
      alone = host::is_alone();
    }
  }
}
// By the system call itself: no handler of pthread_atfork runs.
HOST_CASE(fork_behind_the_librarys_back, "fork and exec") {
  const int direct = host::temporary(O_DIRECT, 1U << 20);
  Pipe pipe;
  char byte = 0;
  void* const memory = host::aligned();
  aiocb stream = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&stream) == 0);
  for (int i = 0; i < 100; ++i) {
    aiocb reads[8];
    for (aiocb& each : reads) {
      each = host::request(direct, memory, 4'096, (&each - reads) * 4'096L);
      CHECK(aio_read(&each) == 0);
    }
    const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    CHECK(child >= 0);
    if (child == 0) {
      // No call in this process may affect the parent's requests.
      ::alarm(1);
      for (aiocb& each : reads) aio_error(&each);
      aiocb own = host::request(pipe.out(), &byte, 1);
      aio_cancel(pipe.out(), &stream);
      aio_read(&own);
      ::_exit(0);
    }
    for (aiocb& each : reads) CHECK(host::finish(each) == 4'096);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(aio_error(&stream) == EINPROGRESS);
  }
  CHECK(::write(pipe.in(), "b", 1) == 1 && host::finish(stream) == 1 && byte == 'b');
  use_keeper_and_device();
}
HOST_CASE(record_lock_outlives_exec, "locks") {
  const int file = host::temporary(O_DIRECT, 64U << 10);
  Pipe locked;
  Pipe over;
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    struct flock lock{};
    lock.l_type = F_WRLCK;
    CHECK(::fcntl(file, F_SETLK, &lock) == 0);
    static char byte;
    static Pipe pipe;
    static aiocb stream;
    stream = host::request(pipe.out(), &byte, 1);
    CHECK(aio_read(&stream) == 0);
    use_keeper_and_device();
    CHECK(::dup2(locked.in(), 8) == 8 && ::dup2(over.out(), 9) == 9);
    ::execl("/bin/sh", "sh", "-c", "echo >&8; read line <&9", nullptr);
    ::_exit(9);
  }
  char byte = 0;
  CHECK(::read(locked.out(), &byte, 1) == 1);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  CHECK(::fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == child);
  CHECK(::write(over.in(), "\n", 1) == 1);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
}
HOST_CASE(few_descriptors_and_many_requests, "limits") {
  if (::getuid() != 0) host::skip("needs the right to change the user");
  CHECK(host::in_child([] {
          // A user without rights: the kernel counts files that are on their way in messages.
          CHECK(::setgid(65'534) == 0 && ::setuid(65'534) == 0);
          Pipe pipe;
          const rlimit few{16, 16};
          CHECK(::setrlimit(RLIMIT_NOFILE, &few) == 0);
          std::vector<char> bytes(400);
          std::vector<aiocb> reads;
          for (char& each : bytes) reads.push_back(host::request(pipe.out(), &each, 1));
          for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
          for (std::size_t i = 0; i < reads.size(); ++i) {
            CHECK(::write(pipe.in(), "r", 1) == 1);
          }
          for (aiocb& each : reads) CHECK(host::finish(each) == 1);
        }) == 0);
}
HOST_CASE(descriptors_are_moved_under_requests, "descriptors") {
  std::atomic<bool> over{false};
  std::thread mover{[&] {
    const int null = ::open("/dev/null", O_RDWR);
    while (!over) {
      for (int number = 4'000; number < 4'096; ++number) ::dup2(null, number);
      ::syscall(SYS_close_range, 4'000U, 4'096U, 0U);
    }
    ::close(null);
  }};
  const int file = host::temporary(O_DIRECT, 64U << 10);
  void* const memory = host::aligned();
  for (int i = 0; i < 4 * host::rounds(); ++i) {
    Pipe pipe;
    char byte = 0;
    aiocb stream = host::request(pipe.out(), &byte, 1);
    aiocb direct = host::request(file, memory, 4'096);
    CHECK(aio_read(&stream) == 0 && aio_read(&direct) == 0);
    CHECK(::write(pipe.in(), "m", 1) == 1);
    CHECK(host::finish(stream) == 1 && host::finish(direct) == 4'096);
    ::close(pipe.in());
    ::close(pipe.out());
  }
  over = true;
  mover.join();
}
HOST_CASE(exec_in_a_callback, "fork and exec") {
  CHECK(host::in_child([] {
          static aiocb read;
          read = host::request(host::temporary(O_DIRECT, 4'096), host::aligned(), 4'096);
          read.aio_sigevent.sigev_notify = SIGEV_THREAD;
          read.aio_sigevent.sigev_notify_function = [](sigval) {
            ::execl("/bin/sh", "sh", "-c", "exit 8", nullptr);
          };
          host::Load load;
          CHECK(aio_read(&read) == 0);
          for (;;) ::pause();
        }) == 8);
}
HOST_CASE(handlers_fork_and_exec, "fork and exec") {
  static std::atomic<int> handled{0};
  static std::atomic<int> failed{0};
  struct sigaction action{};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) {
    const int saved = errno;
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/true", "true", nullptr);
      ::_exit(9);
    }
    int status = -1;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) ++failed;
    ++handled;
    errno = saved;
  };
  CHECK(::sigaction(SIGALRM, &action, nullptr) == 0);
  const int file = host::temporary(O_DIRECT, 64U << 10);
  void* const memory = host::aligned();
  for (int i = 0; i < host::rounds() / 4; ++i) {
    const itimerval soon{{0, 0}, {0, 20 + i * 7 % 300}};
    CHECK(::setitimer(ITIMER_REAL, &soon, nullptr) == 0);
    // The handler may run before setitimer returns.
    while (handled == i) {
      aiocb read = host::request(file, memory, 4'096);
      CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
    }
    CHECK(failed == 0);
  }
}
