// The limit of file sizes (RLIMIT_FSIZE): a write beyond it is an error of the request, and no
// signal, however the limit has changed.
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ulimit.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "host.hpp"

namespace {

constexpr rlim_t small_size = 4'096;

rlimit limit_now() {
  rlimit limit{};
  CHECK(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  return limit;
}

/// The library may take it for 10 ms that no limit is set, unless one of libc's functions sets it.
void pass_the_time_of_trust() {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
  };
  const auto begin = now();
  host::until([&] { return now() - begin > 10'000'000; });
}

/// Each way by which a program changes its own limit.
constexpr int ways = 6;
void set_limit(int way, const rlimit& limit) {
  const rlimit64 same{limit.rlim_cur, limit.rlim_max};
  if (way == 0) CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  if (way == 1) CHECK(::setrlimit64(RLIMIT_FSIZE, &same) == 0);
  if (way == 2) CHECK(::prlimit(0, RLIMIT_FSIZE, &limit, nullptr) == 0);
  if (way == 3) CHECK(::prlimit64(0, RLIMIT_FSIZE, &same, nullptr) == 0);
  if (way == 4) {
    CHECK(::syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &same, nullptr) == 0);
    pass_the_time_of_trust();
  }
  if (way == 5) {
    // 4.2BSD's, which no header declares any more.
    constexpr int file_size = 2;
    const auto old = reinterpret_cast<int (*)(int, int)>(::dlsym(RTLD_DEFAULT, "vlimit"));
    const bool is_there = old != nullptr && old(file_size, static_cast<int>(limit.rlim_cur)) == 0;
    if (!is_there) set_limit(0, limit);
  }
}

/// From here on libc's functions that set the limit raise SIGSYS in their place.
void trap_changes_of_the_limit() {
  constexpr auto argument = [](unsigned number) {
    return static_cast<unsigned>(offsetof(seccomp_data, args) + number * sizeof(std::uint64_t));
  };
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(0)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_FSIZE, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  CHECK(host::install(filter) == 0);
}

}  // namespace

HOST_CASE(size_limit_changes_between_writes, "limits") {
  char text[64] = {};
  const int file = host::temporary(0, 8'192);
  const rlimit before = limit_now();
  for (int i = 0; i < host::rounds(); ++i) {
    aiocb write = host::request(file, text, sizeof(text), small_size);
    for (int k = 0; k < 5; ++k) CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
    const bool none_fits = i / ways % 2 == 0;
    const rlimit small{small_size + (none_fits ? 0U : 4U), before.rlim_max};
    if (i / ways % 3 == 0) {
      std::thread{[&] { set_limit(i % ways, small); }}.join();
    } else {
      set_limit(i % ways, small);
    }
    CHECK(aio_write(&write) == 0);
    CHECK(host::finish(write) == (none_fits ? -1 : 4));
    CHECK(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  }
}
HOST_CASE(size_limit_is_set_in_blocks, "limits") {
  char text[64] = {};
  const int file = host::temporary(0, 8'192);
  aiocb write = host::request(file, text, sizeof(text), small_size);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
  const long blocks = small_size / 512;
  CHECK(::ulimit(UL_SETFSIZE, blocks) == blocks && ::ulimit(UL_GETFSIZE) == blocks);
  CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EFBIG);
}
HOST_CASE(size_limit_is_set_by_another_process, "limits") {
  char text[64] = {};
  const int file = host::temporary(0, 8'192);
  const rlimit before = limit_now();
  for (int i = 0; i < host::rounds() / 10; ++i) {
    aiocb write = host::request(file, text, sizeof(text), small_size);
    CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit small{small_size, before.rlim_max};
      ::_exit(::prlimit(::getppid(), RLIMIT_FSIZE, &small, nullptr) == 0 ? 0 : 1);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child && status == 0);
    pass_the_time_of_trust();
    CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EFBIG);
    CHECK(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  }
}
// The library remembers for some requests that the file was open without O_APPEND.
HOST_CASE(size_limit_holds_after_a_change_to_appends, "limits") {
  char text[64] = {};
  const int file = host::temporary(0, small_size);
  aiocb write = host::request(file, text, sizeof(text));
  for (int k = 0; k < 5; ++k) CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
  const rlimit small{small_size, limit_now().rlim_max};
  CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK(::fcntl(file, F_SETFL, O_APPEND) == 0);
  CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EFBIG);
}
// Appended bytes go to the end, whatever offset the request has.
HOST_CASE(size_limit_holds_for_appends, "limits") {
  const int file = host::temporary(O_APPEND, 4'096);
  rlimit limit{};
  CHECK(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{4'096, limit.rlim_max};
  CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  char byte = 'a';
  aiocb write = host::request(file, &byte, 1);
  if (aio_write(&write) == 0) {
    CHECK(host::finish(write) == -1 && errno == EFBIG);
  } else {
    CHECK(errno == EFBIG);
  }
  CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 1);
}
HOST_CASE(size_limit_is_an_error_and_no_signal, "limits") {
  rlimit limit{};
  CHECK(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  for (const int flags : {0, O_DIRECT, O_DSYNC}) {
    const int file = host::temporary(flags, 8'192);
    void* const memory = host::aligned();
    // Native AIO would leave a write of a cached page to the keeper.
    CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    aiocb write = host::request(file, memory, 4'096);
    CHECK(aio_write(&write) == 0 && host::finish(write) == 4'096);
    const rlimit small{4'096, limit.rlim_max};
    CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    write.aio_offset = 8'192;
    if (aio_write(&write) == 0) {
      CHECK(host::finish(write) == -1 && errno == EFBIG);
    } else {
      CHECK(errno == EFBIG);
    }
    aiocb below = host::request(file, memory, 4'096);
    below.aio_lio_opcode = write.aio_lio_opcode = LIO_WRITE;
    aiocb* const list[] = {&below, &write};
    CHECK(lio_listio(LIO_WAIT, list, 2, nullptr) == -1 && errno == EIO);
    CHECK(host::finish(below) == 4'096 && aio_error(&write) == EFBIG);
    CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
}
// The handler runs when the limit is set, and the call that has set it is not over.
HOST_CASE(size_limit_holds_within_the_call_that_sets_it, "limits") {
  static char text[64] = {};
  static const int file = host::temporary(0, 8'192);
  static const rlim_t largest = limit_now().rlim_max;
  static volatile int error = -1;
  struct sigaction action{};
  action.sa_handler = [](int) {
    const rlimit64 small{small_size, largest};
    CHECK(::syscall(SYS_prlimit64, ::getpid(), RLIMIT_FSIZE, &small, nullptr) == 0);
    static aiocb beyond = host::request(file, text, sizeof(text), small_size);
    CHECK(aio_write(&beyond) == 0 && host::finish(beyond) == -1);
    error = aio_error(&beyond);
  };
  CHECK(::sigaction(SIGSYS, &action, nullptr) == 0);
  aiocb write = host::request(file, text, sizeof(text), small_size);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
  trap_changes_of_the_limit();
  CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
  const rlimit small{small_size, largest};
  static_cast<void>(::setrlimit(RLIMIT_FSIZE, &small));  // its answer is that of the filter
  CHECK(error == EFBIG);
}
// The child has a limit of its own, and the memory of its parent.
HOST_CASE(size_limit_holds_beside_that_of_a_child_of_vfork, "limits") {
  char text[64] = {};
  const int file = host::temporary(0, 8'192);
  static aiocb write = host::request(file, text, sizeof(text), small_size);
  for (int k = 0; k < 5; ++k) CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
  static const rlimit before = limit_now();
  const rlimit small{small_size, before.rlim_max};
  CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  for (int i = 0; i < host::rounds(); ++i) {
    const pid_t child = ::vfork();
    if (child == 0) {
      if (::setrlimit(RLIMIT_FSIZE, &before) == 0 && aio_write(&write) == 0) host::wait_for(write);
      ::_exit(0);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child && status == 0);
    CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EFBIG);
  }
}
// Each of them may be the one that reaches the limit.
HOST_CASE(size_limit_holds_for_appends_at_once, "limits") {
  constexpr int threads = 4;
  constexpr std::size_t bytes = 256;
  const int file = host::temporary(O_APPEND);
  const rlimit small{small_size, limit_now().rlim_max};
  CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  pthread_barrier_t begin;
  CHECK(pthread_barrier_init(&begin, nullptr, threads) == 0);
  const int rounds = 10 * host::rounds();
  const auto append = [&] {
    char text[bytes] = {};
    for (int i = 0; i < rounds; ++i) {
      if (pthread_barrier_wait(&begin) == PTHREAD_BARRIER_SERIAL_THREAD) {
        CHECK(::ftruncate(file, small_size - 2 * bytes) == 0);
      }
      pthread_barrier_wait(&begin);
      aiocb write = host::request(file, text, bytes);
      ssize_t moved = 0;
      do {
        CHECK(aio_write(&write) == 0);
        moved = host::finish(write);
      } while (moved == bytes);
      CHECK(moved == -1 && errno == EFBIG);
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(append);
  append();
  for (std::thread& each : others) each.join();
  struct stat status{};
  CHECK(::fstat(file, &status) == 0 && status.st_size == small_size);
}
#ifndef HOST_SANITIZED  // there the program calls libc's functions, and no change is told
// A thread that has looked for a limit, and found none, may be about to write.
HOST_CASE(size_limit_is_set_beside_writes, "limits") {
  const rlimit before = limit_now();
  const rlimit small{small_size, before.rlim_max};
  std::atomic<bool> over{false};
  const auto writer = [&](int flags, std::size_t bytes, bool in_lists) {
    const int file = host::temporary(flags, small_size);
    aiocb one = host::request(file, host::aligned(), bytes, small_size);
    aiocb two = host::request(file, host::aligned(), bytes, 3 * small_size);
    one.aio_lio_opcode = two.aio_lio_opcode = LIO_WRITE;
    aiocb* const list[] = {&one, &two};
    while (!over) {
      if (in_lists) {
        static_cast<void>(lio_listio(LIO_WAIT, list, 2, nullptr));
      } else {
        CHECK(aio_write(&one) == 0 && aio_write(&two) == 0);
      }
      for (aiocb* const each : list) {
        const ssize_t moved = host::finish(*each);
        CHECK(moved == static_cast<ssize_t>(bytes) || (moved == -1 && errno == EFBIG));
      }
    }
  };
  std::vector<std::thread> writers;
  for (const bool in_lists : {false, true}) {
    writers.emplace_back(writer, 0, 64, in_lists);
    writers.emplace_back(writer, O_DIRECT, 4'096, in_lists);
  }
  for (int i = 0; i < 10 * host::rounds(); ++i) {
    set_limit(i % 4, small);
    ::sched_yield();
    set_limit(i % 4, before);
  }
  over = true;
  for (std::thread& each : writers) each.join();
}
#endif
// The parent's other thread writes, and does not exist in the child.
HOST_CASE(size_limit_is_set_in_a_child_beside_writes, "limits") {
  ::alarm(
      static_cast<unsigned>(host::patience().tv_sec));  // else it waits a second for each change
  std::atomic<bool> over{false};
  std::thread writer{[&] {
    char text[64] = {};
    aiocb write = host::request(host::temporary(0), text, sizeof(text));
    while (!over) CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
  }};
  for (int i = 0; i < host::rounds(); ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit small{small_size, limit_now().rlim_max};
      bool set = true;
      for (int k = 0; k < 5; ++k) set = set && ::setrlimit(RLIMIT_FSIZE, &small) == 0;
      ::_exit(set ? 0 : 1);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child && status == 0);
  }
  over = true;
  writer.join();
}
