// Requests of many kinds at once.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "host.hpp"

using host::Pipe;

HOST_CASE(list_of_every_kind_and_error, "answers") {
  constexpr std::size_t count = 500;
  const int file = host::temporary(0, 64U << 10);
  const int direct = host::temporary(O_DIRECT, 64U << 10);
  Pipe pipe;
  auto* const page = static_cast<char*>(host::aligned());
  static char bytes[count];
  std::vector<aiocb> blocks;
  std::vector<aiocb*> list;
  for (std::size_t i = 0; i < count; ++i) {
    const aiocb kinds[] = {host::request(file, &bytes[i], 1),
                           host::request(direct, page, 4'096),
                           host::request(pipe.out(), &bytes[i], 1),
                           host::request(-1, &bytes[i], 1),
                           host::request(direct, page + 1, 100),
                           host::request(file, reinterpret_cast<void*>(16), 100),
                           host::request(file, &bytes[i], 1)};
    blocks.push_back(kinds[i % 7]);
    blocks.back().aio_reqprio = i % 7 == 6 ? -5 : 0;
    blocks.back().aio_lio_opcode = LIO_READ;
  }
  for (std::size_t i = 0; i < count; ++i) list.push_back(i % 11 == 0 ? nullptr : &blocks[i]);
  const std::vector<char> all(count, 'l');
  CHECK(::write(pipe.in(), all.data(), count) == static_cast<ssize_t>(count));
  CHECK(lio_listio(LIO_WAIT, list.data(), static_cast<int>(count), nullptr) == -1 && errno == EIO);
  constexpr std::array<ssize_t, 7> results{1, 4'096, 1, -1, -1, -1, -1};
  constexpr std::array<int, 7> errors{0, 0, 0, EBADF, EINVAL, EFAULT, EINVAL};
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i] == nullptr) continue;
    CHECK(host::finish(blocks[i]) == results[i % 7] && errno == errors[i % 7]);
  }
}
HOST_CASE(cancelled_thread_leaves_the_wait_to_others, "cancellation") {
  constexpr std::size_t size = 1U << 20;
  const int file = host::temporary(O_DIRECT, size);
  void* const data = host::aligned(size);
  for (int i = 0; i < host::rounds(); ++i) {
    Pipe pipe;
    char byte = 0;
    aiocb stream = host::request(pipe.out(), &byte, 1);
    aiocb direct = host::request(file, data, size);
    CHECK(aio_read(&stream) == 0 && aio_read(&direct) == 0);
    pthread_t waits;
    CHECK(pthread_create(
              &waits, nullptr,
              [](void* block) -> void* {
                const aiocb* const list[] = {static_cast<aiocb*>(block)};
                for (;;) aio_suspend(list, 1, nullptr);
              },
              &stream) == 0);
    std::thread other{[&] { CHECK(host::finish(direct) == static_cast<ssize_t>(size)); }};
    CHECK(pthread_cancel(waits) == 0 && pthread_join(waits, nullptr) == 0);
    other.join();
    CHECK(::write(pipe.in(), "c", 1) == 1 && host::finish(stream) == 1);
    ::close(pipe.in());
    ::close(pipe.out());
  }
}
HOST_CASE(appends_and_syncs_by_three_numbers, "order") {
  constexpr std::size_t count = 300;
  const int file = host::temporary(O_APPEND);
  const int numbers[] = {file, ::dup(file), ::fcntl(file, F_DUPFD, 100)};
  const auto size_of = [](std::size_t i) -> std::size_t { return i % 40 == 0 ? 2U << 20 : 16; };
  std::vector<std::vector<unsigned char>> data;
  std::vector<aiocb> blocks;
  std::vector<aiocb> syncs(count / 50, host::request(file, nullptr, 0));
  for (std::size_t i = 0; i < count; ++i) {
    data.emplace_back(size_of(i), static_cast<unsigned char>(i % 251));
    blocks.push_back(host::request(numbers[i % 3], data.back().data(), data.back().size()));
  }
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(aio_write(&blocks[i]) == 0);
    if (i % 50 == 7) CHECK(aio_fsync(O_DSYNC, &syncs[i / 50]) == 0);
  }
  off_t place = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = size_of(i);
    CHECK(host::finish(blocks[i]) == static_cast<ssize_t>(size));
  }
  for (aiocb& each : syncs) CHECK(host::finish(each) == 0);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<unsigned char> got(size_of(i));
    CHECK(::pread(file, got.data(), got.size(), place) == static_cast<ssize_t>(got.size()));
    CHECK(got == data[i]);
    place += static_cast<off_t>(got.size());
  }
}
HOST_CASE(semaphore_of_an_eventfd, "kinds of files") {
  const int file = ::eventfd(0, EFD_SEMAPHORE);
  std::uint64_t values[8] = {};
  aiocb reads[8];
  for (int i = 0; i < 8; ++i) {
    reads[i] = host::request(file, &values[i], sizeof(values[i]));
    CHECK(aio_read(&reads[i]) == 0);
  }
  std::uint64_t eight = 8;
  CHECK(::write(file, &eight, sizeof(eight)) == sizeof(eight));
  for (int i = 0; i < 8; ++i) CHECK(host::finish(reads[i]) == 8 && values[i] == 1);
}
HOST_CASE(spawned_program_closes_all_numbers, "fork and exec") {
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int i = 3; i < 6'000; ++i) posix_spawn_file_actions_addclose(&actions, i);
  char shell[] = "sh";
  char option[] = "-c";
  char script[] = "exit 5";
  char* const words[] = {shell, option, script, nullptr};
  pid_t child = 0;
  CHECK(posix_spawn(&child, "/bin/sh", &actions, nullptr, words, environ) == 0);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
  CHECK(::write(pipe.in(), "s", 1) == 1 && host::finish(read) == 1 && byte == 's');
}
namespace {

/// The signal of a complete request, or of its list, is there when the call returns. The request
/// completes before, or (`waits`) also meanwhile.
void expect_the_signal_after(void (*call)(aiocb&), bool waits) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGRTMIN + 3);
  CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  Pipe pipe;
  char byte = 0;
  std::atomic<int> asks{0};  // it does so when the other thread writes
  const int rounds = 20 * host::rounds();
  std::thread writer{[&] {
    for (int i = 0; i < rounds; ++i) {
      while (asks <= i) ::sched_yield();
      CHECK(::write(pipe.in(), "s", 1) == 1);
    }
  }};
  for (int i = 0; i < rounds; ++i) {
    aiocb read = host::request(pipe.out(), &byte, 1);
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN + 3;
    if (i % 2 == 0) {
      read.aio_sigevent = event;
      CHECK(aio_read(&read) == 0);
    } else {
      read.aio_lio_opcode = LIO_READ;
      aiocb* const list[] = {&read};
      CHECK(lio_listio(LIO_NOWAIT, list, 1, &event) == 0);
    }
    ++asks;
    const bool later = waits && i % 4 >= 2;
    while (!later && aio_error(&read) == EINPROGRESS) {
    }
    call(read);
    const timespec none{0, 0};
    CHECK(::sigtimedwait(&signals, nullptr, &none) == SIGRTMIN + 3);
    CHECK(aio_return(&read) == 1);
  }
  writer.join();
}

}  // namespace

HOST_CASE(signal_is_there_when_a_wait_finds_the_end, "signals") {
  expect_the_signal_after(
      [](aiocb& read) {
        const aiocb* const list[] = {nullptr, &read, &read};
        CHECK(aio_suspend(list, 3, nullptr) == 0);
      },
      true);
}
HOST_CASE(signal_is_there_when_a_cancel_finds_the_end, "signals") {
  expect_the_signal_after(
      [](aiocb& read) { CHECK(aio_cancel(read.aio_fildes, &read) == AIO_ALLDONE); }, false);
}
