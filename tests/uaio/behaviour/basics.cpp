// What every use of the interface needs.
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "program.hpp"

namespace behaviour {

void reads_and_writes() {
  const int file = temporary();
  char text[] = "0123456789";
  aiocb write = request(file, text, 10, 5);
  CHECK(aio_write(&write) == 0);
  CHECK(finish(write) == 10);
  char buffer[16] = {};
  aiocb read = request(file, buffer, 16, 5);
  CHECK(aio_read(&read) == 0);
  CHECK(finish(read) == 10);
  CHECK(std::memcmp(buffer, text, 10) == 0);
  aiocb beyond = request(file, buffer, 16, 1'000);
  CHECK(aio_read(&beyond) == 0);
  CHECK(finish(beyond) == 0);
}

void direct_reads_and_writes() {
  const int file = temporary(O_DIRECT, 1U << 20);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 1U << 20) == 0);
  std::memset(memory, 'd', 1U << 20);
  std::vector<aiocb> blocks;
  for (int i = 0; i < 256; ++i) {
    blocks.push_back(request(file, static_cast<char*>(memory) + 4'096 * i, 4'096, 4'096 * i));
  }
  for (aiocb& each : blocks) CHECK(aio_write(&each) == 0);
  for (aiocb& each : blocks) CHECK(finish(each) == 4'096);
  std::memset(memory, 0, 1U << 20);
  for (aiocb& each : blocks) CHECK(aio_read(&each) == 0);
  for (aiocb& each : blocks) CHECK(finish(each) == 4'096);
  CHECK(static_cast<char*>(memory)[(1U << 20) - 1] == 'd');
}

void block_is_free_after_return() {
  const int file = temporary(0, 4'096);
  char buffer[8];
  for (int i = 0; i < 1'000; ++i) {
    auto block = std::make_unique<aiocb>(request(file, buffer, 8));
    CHECK(aio_read(block.get()) == 0);
    CHECK(finish(*block) == 8);
    std::memset(block.get(), 0xa5, sizeof(aiocb));
  }
}

void signal_carries_value_and_code() {
  handle_info(SIGRTMIN + 1);
  const int file = temporary(0, 64);
  Pipe pipe;
  char buffer[8];
  for (const int from : {file, pipe.out()}) {
    signals_seen = 0;
    aiocb block = request(from, buffer, 8);
    block.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    block.aio_sigevent.sigev_signo = SIGRTMIN + 1;
    block.aio_sigevent.sigev_value.sival_int = 4'711;
    CHECK(aio_read(&block) == 0);
    CHECK(::write(pipe.in(), "12345678", 8) == 8);
    while (signals_seen == 0) ::usleep(100);
    CHECK(signal_code == SI_ASYNCIO);
    CHECK(signal_value == 4'711);
    CHECK(finish(block) == 8);
  }
}

namespace {

sem_t called;
std::atomic<int> call_value;
void on_call(sigval value) {
  call_value = value.sival_int;
  sem_post(&called);
}

}  // namespace

void callback_is_called() {
  CHECK(sem_init(&called, 0, 0) == 0);
  const int file = temporary(0, 64);
  Pipe pipe;
  char buffer[8];
  for (const int from : {file, pipe.out()}) {
    aiocb block = request(from, buffer, 8);
    block.aio_sigevent.sigev_notify = SIGEV_THREAD;
    block.aio_sigevent.sigev_notify_function = on_call;
    block.aio_sigevent.sigev_value.sival_int = 42;
    CHECK(aio_read(&block) == 0);
    CHECK(::write(pipe.in(), "12345678", 8) == 8);
    while (sem_wait(&called) != 0) {
    }
    CHECK(call_value == 42);
    CHECK(finish(block) == 8);
  }
}

}  // namespace behaviour
