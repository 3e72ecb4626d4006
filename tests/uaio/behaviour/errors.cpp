// Errors of requests, resources, sizes, waits and streams.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "program.hpp"

namespace behaviour {

namespace {

int error_of(int started, aiocb& block) {
  if (started != 0) return errno;
  return finish(block) == -1 ? errno : 0;
}

}  // namespace

void errors_of_requests() {
  const int file = temporary(0, 64);
  char buffer[64];
  aiocb block = request(-1, buffer, 8);
  CHECK(error_of(aio_read(&block), block) == EBADF);
  CHECK(error_of(aio_write(&block), block) == EBADF);
  CHECK(error_of(aio_fsync(O_SYNC, &block), block) == EBADF);
  const int only = ::open("/dev/null", O_WRONLY);
  block = request(only, buffer, 8);
  CHECK(error_of(aio_read(&block), block) == EBADF);
  const int readable = ::open("/dev/null", O_RDONLY);
  block = request(readable, buffer, 8);
  CHECK(error_of(aio_write(&block), block) == EBADF);
  block = request(file, buffer, 8, -1);
  CHECK(error_of(aio_read(&block), block) == EINVAL);
  CHECK(error_of(aio_write(&block), block) == EINVAL);
  block = request(file, buffer, 8);
  block.aio_reqprio = -1;
  CHECK(error_of(aio_read(&block), block) == EINVAL);
  block.aio_reqprio = 21;
  CHECK(error_of(aio_write(&block), block) == EINVAL);
  block.aio_reqprio = 20;
  CHECK(error_of(aio_read(&block), block) == 0);
  block = request(file, buffer, 8);
  CHECK(aio_fsync(77, &block) == -1);
  CHECK(errno == EINVAL);
  aiocb* const list[] = {&block};
  std::memset(buffer, 'u', sizeof(buffer));
  block.aio_lio_opcode = LIO_READ;
  CHECK(lio_listio(77, list, 1, nullptr) == -1);
  CHECK(errno == EINVAL);
  CHECK(buffer[0] == 'u');  // nothing was started
  CHECK(lio_listio(LIO_WAIT, list, -1, nullptr) == -1);
  CHECK(errno == EINVAL);
  CHECK(aio_cancel(-1, nullptr) == -1);
  CHECK(errno == EBADF);
  CHECK(aio_cancel(file, nullptr) == AIO_ALLDONE);
  const int directory = ::open("/tmp", O_RDONLY);
  block = request(directory, buffer, 8);
  CHECK(error_of(aio_read(&block), block) == EISDIR);
}

namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Room for hardly any more memory, or (false) for as much as there is.
void limit_memory(bool limited) {
  static rlimit before{};
  if (!limited) {
    CHECK(::setrlimit(RLIMIT_AS, &before) == 0);
    return;
  }
  CHECK(::getrlimit(RLIMIT_AS, &before) == 0);
  long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && std::fscanf(file, "%ld", &pages) == 1);
  std::fclose(file);
  const rlimit now{static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE)), before.rlim_max};
  CHECK(::setrlimit(RLIMIT_AS, &now) == 0);
}
#endif

}  // namespace

// Without memory nothing can be started, which is no error of the request. No descriptor of the
// program is needed.
void errors_of_resources() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  {
    Pipe early;
    char byte = 0;
    aiocb read = request(early.out(), &byte, 1);
    aiocb sync = request(temporary(0, 64), nullptr, 0);
    read.aio_lio_opcode = LIO_READ;
    aiocb* const list[] = {&read};
    limit_memory(true);
    const int started = aio_read(&read);
    const int error = errno;
    const bool refused = started == -1 && error == EAGAIN && aio_error(&read) == EAGAIN;
    const bool sync_refused = aio_fsync(O_SYNC, &sync) == -1 && errno == EAGAIN;
    const bool list_refused = lio_listio(LIO_NOWAIT, list, 1, nullptr) == -1 && errno == EAGAIN;
    limit_memory(false);
    CHECK(refused && sync_refused && list_refused);
  }
#endif
  CHECK(::sysconf(_SC_AIO_MAX) == -1 && ::sysconf(_SC_AIO_LISTIO_MAX) == -1);
  const int file = temporary(O_DIRECT, 4'096);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
  Pipe first;
  Pipe pipe;
  char byte = 0;
  // So that the library has its own threads and descriptors.
  aiocb pending = request(first.out(), &byte, 1);
  CHECK(aio_read(&pending) == 0);
  rlimit before{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};
  CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  aiocb read = request(pipe.out(), &byte, 1);
  aiocb write = request(file, memory, 4'096);
  aiocb sync = request(file, nullptr, 0);
  CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "r", 1) == 1 && finish(read) == 1);
  CHECK(aio_write(&write) == 0 && finish(write) == 4'096);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && finish(sync) == 0);
  read.aio_lio_opcode = LIO_READ;
  write.aio_lio_opcode = LIO_WRITE;
  aiocb* const list[] = {&read, &write};
  CHECK(::write(pipe.in(), "l", 1) == 1);
  CHECK(lio_listio(LIO_WAIT, list, 2, nullptr) == 0);
  CHECK(aio_return(&read) == 1 && aio_return(&write) == 4'096);
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(aio_write(&write) == 0 && finish(write) == 4'096);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && finish(sync) == 0);
  CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "r", 1) == 1 && finish(read) == 1);
  CHECK(::write(first.in(), "p", 1) == 1 && finish(pending) == 1);
}

// A thread lowers and raises the limit while requests are on their way.
void limit_of_descriptors_changes() {
  rlimit before{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  Pipe pipe;
  char byte = 0;
  aiocb read = request(pipe.out(), &byte, 1);
  // So that the library has its own threads and descriptors.
  CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "r", 1) == 1 && finish(read) == 1);
  std::atomic<bool> done{false};
  std::thread changes([&] {
    const rlimit none{3, before.rlim_max};
    while (!done) {
      ::setrlimit(RLIMIT_NOFILE, &none);
      ::setrlimit(RLIMIT_NOFILE, &before);
    }
  });
  int served = 0;
  while (served < 2'000 && aio_read(&read) == 0 && ::write(pipe.in(), "r", 1) == 1 &&
         finish(read) == 1) {
    ++served;
  }
  done = true;
  changes.join();
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(served == 2'000);
}

void errors_of_size() {
  const int file = temporary(0, 64);
  char buffer[8] = {};
  aiocb read = request(file, buffer, 8, INT64_MAX - 4);
  CHECK(error_of(aio_read(&read), read) == EOVERFLOW || errno == EINVAL);
  const rlimit small{4'096, 4'096};
  CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  aiocb write = request(file, buffer, 8, 4'096);
  CHECK(error_of(aio_write(&write), write) == EFBIG);
  write = request(file, buffer, 8, 4'092);
  CHECK(aio_write(&write) == 0);
  CHECK(finish(write) == 4);
  aiocb beyond = request(file, buffer, 8, 5'000);
  beyond.aio_lio_opcode = LIO_WRITE;
  aiocb* const list[] = {&read, &beyond};
  read.aio_lio_opcode = LIO_READ;
  CHECK(lio_listio(LIO_WAIT, list, 2, nullptr) == -1);
  CHECK(errno == EIO);
  CHECK(aio_error(&read) == EOVERFLOW || aio_error(&read) == EINVAL);
  CHECK(aio_error(&beyond) == EFBIG);
}

void errors_of_waiting() {
  handle(SIGALRM, on_nothing);
  Pipe pipe;
  char byte = 0;
  aiocb read = request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(aio_error(&read) == EINPROGRESS);
  const aiocb* const list[] = {nullptr, &read};
  timespec time{0, 1'000'000};
  CHECK(aio_suspend(list, 2, &time) == -1);
  CHECK(errno == EAGAIN);
  time = {0, 0};
  CHECK(aio_suspend(list, 2, &time) == -1);
  CHECK(errno == EAGAIN);
  itimerval often{{0, 20'000}, {0, 20'000}};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  CHECK(aio_suspend(list, 2, nullptr) == -1);
  CHECK(errno == EINTR);
  often = {};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  CHECK(::write(pipe.in(), "x", 1) == 1);
  CHECK(finish(read) == 1);
  CHECK(aio_suspend(list, 2, nullptr) == 0);
}

void broken_streams_are_errors() {
  Pipe pipe;
  ::close(pipe.out());
  char byte = 'b';
  aiocb write = request(pipe.in(), &byte, 1);
  CHECK(error_of(aio_write(&write), write) == EPIPE);
  Pipe ended;
  ::close(ended.in());
  aiocb read = request(ended.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(finish(read) == 0);
  aiocb sync = request(pipe.in(), nullptr, 0);
  CHECK(error_of(aio_fsync(O_SYNC, &sync), sync) == EINVAL);
}

}  // namespace behaviour
