// A program that loads an AIO library, starts requests and unloads it: unloading LIBRARY PREFIX,
// where PREFIX is "uaio_" or "aio_". The requests complete, and their callback runs. A thread of
// the library may be running it, so the library stays mapped.
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

sem_t called;

void on_call(sigval value) {
  if (value.sival_int == 7) sem_post(&called);
}

void check(bool fine, const char* what) {
  if (fine) return;
  const char* const error = ::dlerror();
  std::printf("failed: %s (%s)\n", what, error != nullptr ? error : std::strerror(errno));
  std::exit(1);
}

aiocb read_of(int fildes, char& byte) {
  aiocb block{};
  block.aio_fildes = fildes;
  block.aio_buf = &byte;
  block.aio_nbytes = 1;
  return block;
}

/// This program's setrlimit is libc's, also beside a library that has one.
void check_size_limit(int (*write)(aiocb*), int (*error)(const aiocb*), ssize_t (*result)(aiocb*)) {
  std::FILE* const file = std::tmpfile();
  check(file != nullptr, "tmpfile");
  char byte = 'l';
  aiocb block = read_of(::fileno(file), byte);
  block.aio_sigevent.sigev_notify = SIGEV_NONE;
  const auto next = [&] {
    check(write(&block) == 0, "write");
    while (error(&block) == EINPROGRESS) ::usleep(100);
    const int ended_by = error(&block);
    static_cast<void>(result(&block));  // until then libuaio has the block in its list
    return ended_by;
  };
  for (int i = 0; i < 5; ++i) check(next() == 0, "below the limit");
  rlimit before{};
  check(::getrlimit(RLIMIT_FSIZE, &before) == 0, "getrlimit");
  const rlimit none{0, before.rlim_max};
  check(::setrlimit(RLIMIT_FSIZE, &none) == 0, "setrlimit");
  check(next() == EFBIG, "beyond the limit");
  check(::setrlimit(RLIMIT_FSIZE, &before) == 0, "setrlimit");
  std::fclose(file);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  void* const library = ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  check(library != nullptr, "dlopen");
  const std::string prefix = arguments[2];
  const auto find = [&](const char* name) {
    void* const found = ::dlsym(library, (prefix + name).c_str());
    check(found != nullptr, name);
    return found;
  };
  const auto read = reinterpret_cast<int (*)(aiocb*)>(find("read"));
  const auto error = reinterpret_cast<int (*)(const aiocb*)>(find("error"));
  const auto result = reinterpret_cast<ssize_t (*)(aiocb*)>(find("return"));
  const auto suspend =
      reinterpret_cast<int (*)(const aiocb* const*, int, const timespec*)>(find("suspend"));
  check_size_limit(reinterpret_cast<int (*)(aiocb*)>(find("write")), error, result);
  sem_init(&called, 0, 0);
  int pipes[2][2];
  check(::pipe(pipes[0]) == 0 && ::pipe(pipes[1]) == 0, "pipe");
  char bytes[2] = {};
  aiocb told = read_of(pipes[0][0], bytes[0]);
  told.aio_sigevent.sigev_notify = SIGEV_THREAD;
  told.aio_sigevent.sigev_notify_function = on_call;
  told.aio_sigevent.sigev_value.sival_int = 7;
  aiocb asked = read_of(pipes[1][0], bytes[1]);
  asked.aio_sigevent.sigev_notify = SIGEV_NONE;
  check(read(&told) == 0 && read(&asked) == 0, "read");
  check(error(&told) == EINPROGRESS && error(&asked) == EINPROGRESS, "pending");

  check(::dlclose(library) == 0, "dlclose");
  check(::write(pipes[0][1], "a", 1) == 1 && ::write(pipes[1][1], "b", 1) == 1, "write");
  while (sem_wait(&called) != 0) check(errno == EINTR, "sem_wait");
  check(bytes[0] == 'a', "what was read");
  // It is there still.
  void* const again = ::dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD);
  check(again != nullptr, "it was unloaded");
  const aiocb* const list[] = {&asked};
  while (error(&asked) == EINPROGRESS) check(suspend(list, 1, nullptr) == 0, "suspend");
  check(result(&asked) == 1 && bytes[1] == 'b', "what was read");
  check(::dlclose(again) == 0, "dlclose");
  std::printf("ok\n");
  return 0;
}
