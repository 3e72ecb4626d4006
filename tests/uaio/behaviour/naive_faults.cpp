// Faults that a library with threads or an event loop behind it makes easily.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include "program.hpp"

namespace behaviour {

void requests_outlive_their_thread() {
  Pipe pipe;
  char byte = 0;
  aiocb read = request(pipe.out(), &byte, 1);
  std::thread starter{[&] { CHECK(aio_read(&read) == 0); }};
  starter.join();
  CHECK(::write(pipe.in(), "t", 1) == 1);
  CHECK(finish(read) == 1);
  const int file = temporary(O_DIRECT, 1U << 20);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 1U << 20) == 0);
  for (int i = 0; i < 50; ++i) {
    aiocb block = request(file, memory, 1U << 20);
    std::thread other{[&] { CHECK(aio_read(&block) == 0); }};
    other.join();
    CHECK(finish(block) == 1 << 20);
  }
}

void stream_reads_complete_in_order() {
  Pipe pipe;
  constexpr int count = 50;
  char bytes[count] = {};
  std::vector<aiocb> reads;
  for (char& byte : bytes) reads.push_back(request(pipe.out(), &byte, 1));
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  for (int i = 0; i < count; ++i) {
    const char byte = static_cast<char>('0' + i);
    CHECK(::write(pipe.in(), &byte, 1) == 1);
  }
  for (int i = 0; i < count; ++i) {
    CHECK(finish(reads[static_cast<std::size_t>(i)]) == 1);
    CHECK(bytes[i] == '0' + i);
  }
}

void stream_writes_are_whole() {
  int pair[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  Pipe pipe;
  constexpr std::size_t size = 4U << 20;
  std::vector<char> data(size, 'w');
  const std::array<std::array<int, 2>, 2> ways{{{pair[0], pair[1]}, {pipe.in(), pipe.out()}}};
  for (const auto& [in, out] : ways) {
    aiocb write = request(in, data.data(), size);
    CHECK(aio_write(&write) == 0);
    std::vector<char> chunk(1U << 16);
    std::size_t sum = 0;
    while (sum < size) {
      const ssize_t got = ::read(out, chunk.data(), chunk.size());
      CHECK(got > 0);
      sum += static_cast<std::size_t>(got);
    }
    CHECK(finish(write) == static_cast<ssize_t>(size));
  }
}

void nonblocking_streams_answer_again() {
  Pipe pipe;
  CHECK(::fcntl(pipe.out(), F_SETFL, O_NONBLOCK) == 0);
  char byte = 0;
  aiocb read = request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(finish(read) == -1);
  CHECK(errno == EAGAIN);
  CHECK(::write(pipe.in(), "n", 1) == 1);
  CHECK(aio_read(&read) == 0);
  CHECK(finish(read) == 1);
}

void appends_keep_their_order() {
  for (const int flags : {0, O_DSYNC}) {
    const int file = temporary(O_APPEND | flags);
    const int count = flags == 0 ? 200 : 40;  // a disk may need a second for each that is synced
    std::vector<std::array<char, 4>> texts(static_cast<std::size_t>(count));
    std::vector<aiocb> writes;
    for (int i = 0; i < count; ++i) {
      auto& text = texts[static_cast<std::size_t>(i)];
      for (std::size_t digit = 0, rest = static_cast<std::size_t>(i); digit < 4; ++digit) {
        text[3 - digit] = static_cast<char>('0' + rest % 10);
        rest /= 10;
      }
      writes.push_back(request(file, text.data(), 4));
    }
    for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
    for (aiocb& each : writes) CHECK(finish(each) == 4);
    off_t at = 0;
    for (const auto& text : texts) {
      char buffer[4];
      CHECK(::pread(file, buffer, 4, at) == 4);
      at += 4;
      CHECK(std::memcmp(buffer, text.data(), 4) == 0);
    }
  }
}

namespace {

std::atomic<int> handler_file;
std::atomic<bool> over;
std::atomic<int> submits;
void on_submit(int) {
  const int saved = errno;
  char byte = 0;
  aiocb block = request(handler_file, &byte, 1);
  if (aio_read(&block) == 0) {
    const aiocb* const list[] = {&block};
    while (aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, nullptr);
    aio_return(&block);
  }
  ++submits;
  errno = saved;
}

}  // namespace

// Handlers interrupt nothing but AIO: a thread that is interrupted in malloc, or while it starts a
// thread, holds locks that the awaited thread may need, and a handler that waits would wait for
// ever.
void handlers_and_threads_do_not_hang() {
  constexpr int threads_count = 4;
  handler_file = temporary(0, 64);
  handle(SIGALRM, on_submit, SA_RESTART);
  const int file = temporary(O_DIRECT, 64 * 4'096);
  std::latch ready{threads_count + 1};
  std::latch finished{threads_count + 1};
  std::latch leave{1};
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_count; ++t) {
    threads.emplace_back([&, file] {
      void* memory = nullptr;
      CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
      Pipe pipe;
      const auto read_both = [&](int i) {
        aiocb read = request(file, memory, 4'096, 4'096 * (i % 64));
        CHECK(aio_read(&read) == 0);
        char byte = 0;
        aiocb stream = request(pipe.out(), &byte, 1);
        CHECK(aio_read(&stream) == 0);
        CHECK(::write(pipe.in(), "s", 1) == 1);
        CHECK(finish(read) == 4'096);
        CHECK(finish(stream) == 1);
      };
      read_both(0);
      ready.arrive_and_wait();
      // They may be faster than the thread that sets the timer.
      for (int i = 0; i < 300 || submits == 0; ++i) read_both(i);
      finished.arrive_and_wait();
      leave.wait();
      std::free(memory);
    });
  }
  ready.arrive_and_wait();
  itimerval often{{0, 500}, {0, 500}};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  finished.arrive_and_wait();
  often = {};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  leave.count_down();
  for (std::thread& each : threads) each.join();
}

void suspended_threads_wake_each_other() {
  const int file = temporary(O_DIRECT, 64 * 4'096);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([file, t] {
      void* memory = nullptr;
      CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
      for (int i = 0; i < 400; ++i) {
        aiocb read = request(file, memory, 4'096, 4'096 * ((i + t) % 64));
        const aiocb* const list[] = {&read};
        CHECK(aio_read(&read) == 0);
        CHECK(aio_suspend(list, 1, nullptr) == 0 || errno == EINTR);
        CHECK(finish(read) == 4'096);
      }
      std::free(memory);
    });
  }
  for (std::thread& each : threads) each.join();
}

void exit_and_exec_with_requests_pending() {
  for (int way = 0; way < 3; ++way) {
    const pid_t child = ::fork();
    CHECK(child >= 0);
    if (child == 0) {
      Pipe pipe;
      static char byte;
      static aiocb read = request(pipe.out(), &byte, 1);
      CHECK(aio_read(&read) == 0);
      if (way == 0) ::_exit(0);
      if (way == 1) ::execl("/bin/true", "true", nullptr);
      std::exit(0);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

void record_locks_are_kept() {
  const int file = temporary(O_DIRECT, 4'096);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  CHECK(::fcntl(file, F_SETLK, &lock) == 0);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
  aiocb read = request(file, memory, 4'096);
  for (int i = 0; i < 10; ++i) {
    CHECK(aio_read(&read) == 0);
    CHECK(finish(read) == 4'096);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    CHECK(::fcntl(file, F_GETLK, &lock) == 0);
    ::_exit(lock.l_type == F_WRLCK ? 0 : 1);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

void sleeping_process_is_served() {
  handle(SIGUSR1, on_nothing);
  sigset_t usr;
  sigset_t before;
  sigemptyset(&usr);
  sigaddset(&usr, SIGUSR1);
  CHECK(::sigprocmask(SIG_BLOCK, &usr, &before) == 0);
  const int file = temporary(O_DIRECT, 4'096);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
  aiocb read = request(file, memory, 4'096);
  read.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  read.aio_sigevent.sigev_signo = SIGUSR1;
  CHECK(aio_read(&read) == 0);
  CHECK(::sigsuspend(&before) == -1);
  CHECK(aio_error(&read) == 0);
  CHECK(aio_return(&read) == 4'096);
  // And one that waits for a child, which needs the bytes of the request.
  Pipe pipe;
  Pipe data;
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::_exit(::read(data.out(), &byte, 1) == 1 ? 0 : 1);
  }
  char text[] = "c";
  aiocb write = request(data.in(), text, 1);
  CHECK(aio_write(&write) == 0);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(finish(write) == 1);
}

// The order matters only when the engine has one request at a time; the first request takes that
// place.
void urgent_requests_go_first() {
  Pipe blocking;
  Pipe pipe;
  char byte = 0;
  char texts[] = {'c', 'a', 'b', 'd'};
  const int priorities[] = {10, 0, 5, 10};
  aiocb first = request(blocking.out(), &byte, 1);
  CHECK(aio_read(&first) == 0);
  std::vector<aiocb> writes;
  for (int i = 0; i < 4; ++i) {
    writes.push_back(request(pipe.in(), &texts[i], 1));
    writes.back().aio_reqprio = priorities[i];
  }
  for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
  CHECK(::write(blocking.in(), "x", 1) == 1);
  for (aiocb& each : writes) CHECK(finish(each) == 1);
  char got[4];
  CHECK(::read(pipe.out(), got, 4) == 4);
  CHECK(std::memcmp(got, "abcd", 4) == 0);
}

}  // namespace behaviour
