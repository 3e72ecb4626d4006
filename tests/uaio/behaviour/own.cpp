// What only libuaio promises.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "program.hpp"

namespace behaviour {

void own_results_are_fetched_once() {
  aiocb block{};
  CHECK(aio_error(&block) == -1);
  CHECK(errno == EINVAL);
  CHECK(aio_return(&block) == -1);
  CHECK(errno == EINVAL);
  Pipe pipe;
  char byte = 0;
  block = request(pipe.out(), &byte, 1);
  CHECK(aio_read(&block) == 0);
  CHECK(aio_return(&block) == -1);
  CHECK(errno == EINPROGRESS);
  CHECK(::write(pipe.in(), "o", 1) == 1);
  CHECK(finish(block) == 1);
  CHECK(aio_return(&block) == -1);
  CHECK(errno == EINVAL);
  CHECK(aio_error(&block) == -1);
  CHECK(errno == EINVAL);
}

void own_lists_have_a_limit() {
  std::vector<aiocb*> list(UAIO_LISTIO_MAX + 1);
  CHECK(lio_listio(LIO_WAIT, list.data(), UAIO_LISTIO_MAX + 1, nullptr) == -1);
  CHECK(errno == EINVAL);
}

void own_completions_come_in_order() {
  aiocb* which = nullptr;
  CHECK(uaio_waitcomplete(&which, nullptr) == -1);
  CHECK(errno == EINVAL);
  Pipe pipe;
  char bytes[3] = {};
  std::vector<aiocb> blocks;
  for (char& byte : bytes) blocks.push_back(request(pipe.out(), &byte, 1));
  for (aiocb& each : blocks) CHECK(aio_read(&each) == 0);
  const timespec time{0, 1'000'000};
  CHECK(uaio_waitcomplete(&which, &time) == -1);
  CHECK(errno == EAGAIN);
  CHECK(::write(pipe.in(), "ab", 2) == 2);
  CHECK(uaio_waitcomplete(&which, nullptr) == 1);
  CHECK(which == &blocks[0]);
  CHECK(uaio_waitcomplete(&which, nullptr) == 1);
  CHECK(which == &blocks[1]);
  CHECK(aio_cancel(pipe.out(), nullptr) == AIO_CANCELED);
  CHECK(uaio_waitcomplete(&which, nullptr) == -1);
  CHECK(errno == ECANCELED);
  CHECK(which == &blocks[2]);
  const int file = temporary(0, 64);
  aiocb read = request(file, bytes, 3);
  CHECK(aio_read(&read) == 0);
  CHECK(uaio_waitcomplete(&which, nullptr) == 3);
  CHECK(which == &read);
}

namespace {

struct Owned {
  aiocb block;
  std::atomic<bool> running{true};
};

/// 10^7 in the long rounds (UAIO_HOST_LONG), otherwise enough to hit the race many times.
long rounds_of_threads() { return std::getenv("UAIO_HOST_LONG") != nullptr ? 10'000'000 : 100'000; }

}  // namespace

// Eight threads take completions and start the same requests again: none is taken while it runs,
// and there is always a request in flight.
void own_completions_are_handed_out_once() {
  for (const int flags : {O_DIRECT, 0}) {
    const int file = temporary(flags, 256U << 10);
    std::vector<Owned> all(32);
    for (std::size_t i = 0; i < all.size(); ++i) {
      void* memory = nullptr;
      CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
      all[i].block = request(file, memory, 4'096, static_cast<off_t>(i) * 4'096);
      CHECK(aio_read(&all[i].block) == 0);
    }
    // The call does not wait for a slow device.
    std::atomic<long> left{flags == 0 ? rounds_of_threads() : rounds_of_threads() / 50};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        while (--left > 0) {
          aiocb* which = nullptr;
          CHECK(uaio_waitcomplete(&which, nullptr) == 4'096);
          auto* const owned = reinterpret_cast<Owned*>(which);
          CHECK(owned->running.exchange(false));
          owned->running = true;
          CHECK(aio_read(which) == 0);
        }
      });
    }
    for (std::thread& each : threads) each.join();
    for (Owned& each : all) CHECK(finish(each.block) == 4'096);
  }
}

// A poll with a timeout of zero does not report an empty queue while requests are in flight.
void own_polls_are_not_refused() {
  Pipe pipe;
  char byte = 0;
  std::atomic<bool> go{false};
  const long count = rounds_of_threads() / 10;
  std::thread writer{[&] {
    for (long i = 0; i < count; ++i) {
      while (!go.exchange(false)) {
      }
      CHECK(::write(pipe.in(), "p", 1) == 1);
    }
  }};
  for (long i = 0; i < count; ++i) {
    aiocb read = request(pipe.out(), &byte, 1);
    CHECK(aio_read(&read) == 0);
    go = true;
    aiocb* which = nullptr;
    const timespec none{0, 0};
    ssize_t got = -1;
    while ((got = uaio_waitcomplete(&which, &none)) == -1) CHECK(errno == EAGAIN);
    CHECK(got == 1 && which == &read);
  }
  writer.join();
}

void own_vectors() {
  for (const int flags : {0, O_DSYNC}) {
    const int file = temporary(flags);
    char one[] = "one";
    char three[] = "three";
    iovec list[] = {{one, 3}, {three, 5}};
    aiocb write = request(file, list, 2);
    CHECK(uaio_writev(&write) == 0);
    CHECK(finish(write) == 8);
    char got[8];
    iovec back[] = {{got, 2}, {got + 2, 6}};
    aiocb read = request(file, back, 2);
    CHECK(uaio_readv(&read) == 0);
    CHECK(finish(read) == 8);
    CHECK(std::memcmp(got, "onethree", 8) == 0);
    read.aio_nbytes = 1'000'000;
    CHECK(uaio_readv(&read) == -1);
    CHECK(errno == EINVAL);
  }
  char text[512];
  const std::size_t size = uaio_statistics(text, sizeof(text));
  CHECK(size == std::strlen(text));
  CHECK(std::strstr(text, "at_once ") != nullptr);
}

// A caller that awaits a list does not carry out requests that it must leave to others.
void own_lists_leave_to_the_engine() {
  const int file = temporary();
  char text[] = "text";
  aiocb write = request(file, text, 4);
  write.aio_lio_opcode = LIO_WRITE;
  aiocb* const list[] = {&write};
  CHECK(lio_listio(LIO_WAIT, list, 1, nullptr) == 0);
  CHECK(aio_return(&write) == 4);
  char counted[512];
  uaio_statistics(counted, sizeof(counted));
  CHECK(std::strstr(counted, "at_once 0\nat_engine 1\n") != nullptr);
}

}  // namespace behaviour
