// The thesis's own tests (section 5.1): 1 is errors_of_*, 3 signal_carries_value_and_code, 4
// lists_wait_or_tell.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

#include "program.hpp"

namespace behaviour {

void thesis_2_initialisation() {
  aioinit parameters{};
  parameters.aio_threads = 4;
  parameters.aio_num = 2'000;
  aio_init(&parameters);
  reads_and_writes();
  // Implicit, and the clean-up at exit.
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    direct_reads_and_writes();
    std::exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

void thesis_5_cancel_one_of_a_list() {
  Pipe pipe;
  constexpr int count = 8;
  char bytes[count] = {};
  std::vector<aiocb> blocks(count);
  std::vector<aiocb*> list;
  for (std::size_t i = 0; i < count; ++i) {
    blocks[i] = request(pipe.out(), &bytes[i], 1);
    blocks[i].aio_lio_opcode = LIO_READ;
    list.push_back(&blocks[i]);
  }
  CHECK(lio_listio(LIO_NOWAIT, list.data(), count, nullptr) == 0);
  for (const aiocb& each : blocks) CHECK(aio_error(&each) == EINPROGRESS);
  CHECK(aio_cancel(pipe.out(), &blocks[4]) == AIO_CANCELED);
  CHECK(aio_error(&blocks[4]) == ECANCELED);
  CHECK(aio_return(&blocks[4]) == -1);
  CHECK(::write(pipe.in(), "0123567", 7) == 7);
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 4) continue;
    CHECK(finish(blocks[i]) == 1);
    CHECK(bytes[i] == static_cast<char>('0' + i));
  }
}

void thesis_6_sync_after_a_list() {
  const int file = temporary(O_DIRECT);
  void* memory = nullptr;
  constexpr std::size_t piece = 64U << 10;
  CHECK(::posix_memalign(&memory, 4'096, piece) == 0);
  std::vector<aiocb> blocks(32);
  std::vector<aiocb*> list;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = request(file, memory, piece, static_cast<off_t>(i * piece));
    blocks[i].aio_lio_opcode = LIO_WRITE;
    list.push_back(&blocks[i]);
  }
  CHECK(lio_listio(LIO_NOWAIT, list.data(), 16, nullptr) == 0);
  aiocb sync = request(file, nullptr, 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0);
  CHECK(lio_listio(LIO_NOWAIT, list.data() + 16, 16, nullptr) == 0);
  wait_for(sync);
  for (std::size_t i = 0; i < 16; ++i) CHECK(aio_error(&blocks[i]) == 0);
  CHECK(aio_return(&sync) == 0);
  for (aiocb& each : blocks) CHECK(finish(each) == static_cast<ssize_t>(piece));
}

void thesis_7_suspend() {
  Pipe pipe;
  char bytes[3] = {};
  std::vector<aiocb> blocks;
  for (char& byte : bytes) blocks.push_back(request(pipe.out(), &byte, 1));
  for (aiocb& each : blocks) CHECK(aio_read(&each) == 0);
  const aiocb* const list[] = {&blocks[0], nullptr, &blocks[2]};
  const timespec time{0, 2'000'000};
  CHECK(aio_suspend(list, 3, &time) == -1);
  CHECK(errno == EAGAIN);
  std::thread writer{[&] { CHECK(::write(pipe.in(), "a", 1) == 1); }};
  CHECK(aio_suspend(list, 3, nullptr) == 0);
  writer.join();
  CHECK(aio_error(&blocks[0]) == 0);
  CHECK(aio_error(&blocks[2]) == EINPROGRESS);
  CHECK(::write(pipe.in(), "bc", 2) == 2);
  for (aiocb& each : blocks) CHECK(finish(each) == 1);
}

}  // namespace behaviour
