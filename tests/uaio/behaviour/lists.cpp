// lio_listio.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "program.hpp"

namespace behaviour {

void lists_wait_or_tell() {
  handle_info(SIGRTMIN + 1);
  const int file = temporary();
  char texts[8][4];
  std::vector<aiocb> blocks(8);
  std::vector<aiocb*> list;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::memset(texts[i], static_cast<int>('0' + i), 4);
    blocks[i] = request(file, texts[i], 4, static_cast<off_t>(4 * i));
    blocks[i].aio_lio_opcode = i == 3 ? LIO_NOP : LIO_WRITE;
    list.push_back(&blocks[i]);
  }
  list.push_back(nullptr);
  const int count = static_cast<int>(list.size());
  CHECK(lio_listio(LIO_WAIT, list.data(), count, nullptr) == 0);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i != 3) CHECK(aio_return(&blocks[i]) == 4);
  }
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGRTMIN + 1;
  event.sigev_value.sival_int = 99;
  CHECK(lio_listio(LIO_NOWAIT, list.data(), count, &event) == 0);
  while (signals_seen == 0) ::usleep(100);
  CHECK(signal_value == 99);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i != 3) CHECK(finish(blocks[i]) == 4);
  }
  signals_seen = 0;
  list.assign(1, nullptr);
  CHECK(lio_listio(LIO_NOWAIT, list.data(), 1, &event) == 0);
  while (signals_seen == 0) ::usleep(100);
}

// Many large writes before the first result is taken: whichever threads copy them, each write has
// its result, and the file has all bytes at the sync.
void deep_writes_to_several_files() {
  constexpr std::size_t size = 128U << 10;
  constexpr std::size_t files = 4;
  constexpr std::size_t writes = 64;
  int file[files];
  for (int& each : file) each = temporary();
  std::vector<char> data(writes * size);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 11 / 7);
  std::vector<aiocb> blocks;
  for (std::size_t i = 0; i < writes; ++i) {
    blocks.push_back(
        request(file[i % files], &data[i * size], size, static_cast<off_t>(i / files * size)));
  }
  for (aiocb& each : blocks) CHECK(aio_write(&each) == 0);
  aiocb syncs[files];
  for (std::size_t i = 0; i < files; ++i) {
    syncs[i] = request(file[i], nullptr, 0);
    CHECK(aio_fsync(O_SYNC, &syncs[i]) == 0);
  }
  for (aiocb& each : syncs) CHECK(finish(each) == 0);
  for (aiocb& each : blocks) {
    CHECK(aio_error(&each) == 0);
    CHECK(aio_return(&each) == static_cast<ssize_t>(size));
  }
  std::vector<char> copy(size);
  for (std::size_t i = 0; i < writes; ++i) {
    const auto offset = static_cast<off_t>(i / files * size);
    CHECK(::pread(file[i % files], copy.data(), size, offset) == static_cast<ssize_t>(size));
    CHECK(std::memcmp(copy.data(), &data[i * size], size) == 0);
  }
}

// Longer than a caller's own limit, but the caller waits for the list anyway.
void lists_of_long_transfers() {
  constexpr std::size_t size = 4U << 20;
  const int file = temporary();
  std::vector<char> data(2 * size);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 13 / 9);
  std::vector<char> copy(data.size());
  for (const int opcode : {LIO_WRITE, LIO_READ}) {
    aiocb blocks[2];
    aiocb* list[2];
    for (std::size_t i = 0; i < 2; ++i) {
      char* const memory = opcode == LIO_WRITE ? data.data() : copy.data();
      blocks[i] = request(file, memory + i * size, size, static_cast<off_t>(i * size));
      blocks[i].aio_lio_opcode = opcode;
      list[i] = &blocks[i];
    }
    CHECK(lio_listio(LIO_WAIT, list, 2, nullptr) == 0);
    for (aiocb& each : blocks) CHECK(aio_return(&each) == static_cast<ssize_t>(size));
  }
  CHECK(copy == data);
}

// Requests that lie behind one another may be moved by one call; each has a result of its own, also
// where the file ends in the midst of one.
void lists_of_neighbours() {
  constexpr std::size_t count = 150;
  constexpr std::size_t size = 1'000;
  const int file = temporary();
  std::vector<char> data(count * size);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 / 5);
  std::vector<char> copy(data.size());
  for (const int opcode : {LIO_WRITE, LIO_READ, LIO_READ}) {
    std::vector<aiocb> blocks;
    std::vector<aiocb*> list;
    for (std::size_t i = 0; i < count; ++i) {
      auto* const place = (opcode == LIO_WRITE ? data : copy).data() + i * size;
      blocks.push_back(request(file, place, size, static_cast<off_t>(i * size)));
      blocks.back().aio_lio_opcode = opcode;
    }
    for (aiocb& each : blocks) list.push_back(&each);
    list[40] = nullptr;
    blocks[41].aio_lio_opcode = LIO_NOP;
    CHECK(lio_listio(LIO_WAIT, list.data(), static_cast<int>(count), nullptr) == 0);
    struct stat status{};
    CHECK(::fstat(file, &status) == 0);
    for (std::size_t i = 0; i < count; ++i) {
      if (i == 40 || i == 41) continue;
      const auto end = static_cast<std::size_t>(status.st_size);
      const std::size_t wanted = end > i * size ? std::min(size, end - i * size) : 0;
      CHECK(aio_error(&blocks[i]) == 0);
      CHECK(aio_return(&blocks[i]) == static_cast<ssize_t>(wanted));
    }
    if (opcode == LIO_READ) {
      const std::size_t end = static_cast<std::size_t>(status.st_size);
      std::fill(data.begin() + 40 * size, data.begin() + 42 * size, '\0');
      CHECK(std::memcmp(data.data(), copy.data(), end) == 0);
      // The next time, the file ends in the midst of a request.
      CHECK(::ftruncate(file, 130 * size + 10) == 0);
    }
  }
}

#ifndef UAIO_NAMES
// Programs from before 2004 have a lio_listio that sends nothing for the single requests. (The one
// that glibc 2.36 keeps for them does.)
void oldest_list_tells_only_its_end() {
#if defined(__x86_64__)
  using Listio = int (*)(int, aiocb* const[], int, sigevent*);
  const auto oldest = reinterpret_cast<Listio>(::dlvsym(RTLD_DEFAULT, "lio_listio", "GLIBC_2.2.5"));
  const auto newer = reinterpret_cast<Listio>(::dlvsym(RTLD_DEFAULT, "lio_listio", "GLIBC_2.4"));
  CHECK(oldest != nullptr && newer != nullptr);
  const int of_one = SIGRTMIN + 1;
  const int of_list = SIGRTMIN + 2;
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, of_one);
  sigaddset(&both, of_list);
  CHECK(::pthread_sigmask(SIG_BLOCK, &both, nullptr) == 0);
  const int file = temporary();
  for (const Listio call : {newer, oldest}) {
    char texts[8] = "abcdefg";
    std::vector<aiocb> blocks(8);
    std::vector<aiocb*> list;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = request(file, &texts[i], 1, static_cast<off_t>(i));
      blocks[i].aio_lio_opcode = LIO_WRITE;
      blocks[i].aio_sigevent.sigev_notify = SIGEV_SIGNAL;
      blocks[i].aio_sigevent.sigev_signo = of_one;
      list.push_back(&blocks[i]);
    }
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = of_list;
    CHECK(call(LIO_NOWAIT, list.data(), static_cast<int>(list.size()), &event) == 0);
    for (aiocb& each : blocks) CHECK(finish(each) == 1);
    // Those of the requests, if any, are sent before that of the list.
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, of_list);
    CHECK(::sigwaitinfo(&wanted, nullptr) == of_list);
    sigemptyset(&wanted);
    sigaddset(&wanted, of_one);
    const timespec none{0, 0};
    int sent = 0;
    while (::sigtimedwait(&wanted, nullptr, &none) == of_one) ++sent;
    CHECK(sent == (call == newer ? 8 : 0));
  }
#else
  // Other architectures never had it.
#endif
}
#endif

void lists_report_failures() {
  const int file = temporary(0, 64);
  char buffer[8];
  aiocb good = request(file, buffer, 8);
  aiocb closed = request(-1, buffer, 8);
  aiocb strange = request(file, buffer, 8);
  strange.aio_lio_opcode = 77;
  aiocb* const list[] = {&good, &closed, &strange};
  CHECK(lio_listio(LIO_WAIT, list, 3, nullptr) == -1);
  CHECK(errno == EIO);
  CHECK(aio_error(&good) == 0);
  CHECK(aio_return(&good) == 8);
  CHECK(aio_error(&closed) == EBADF);
  CHECK(aio_error(&strange) == EINVAL);
}

}  // namespace behaviour
