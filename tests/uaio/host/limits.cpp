// The limit of file sizes (RLIMIT_FSIZE): a write beyond it is an error of the request, and no
// signal, however the limit has changed.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ulimit.h>

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
constexpr int ways = 5;
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
}

}  // namespace

HOST_CASE(size_limit_changes_between_writes, "limits") {
  char text[64] = {};
  const int file = host::temporary(0, 8'192);
  const rlimit before = limit_now();
  for (int i = 0; i < host::rounds(); ++i) {
    aiocb write = host::request(file, text, sizeof(text), small_size);
    for (int k = 0; k < 5; ++k) CHECK(aio_write(&write) == 0 && host::finish(write) == 64);
    const rlimit small{small_size + (i % 2 == 0 ? 0U : 4U), before.rlim_max};
    if (i % 3 == 0) {
      std::thread{[&] { set_limit(i % ways, small); }}.join();
    } else {
      set_limit(i % ways, small);
    }
    CHECK(aio_write(&write) == 0);
    CHECK(host::finish(write) == (i % 2 == 0 ? -1 : 4));
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
