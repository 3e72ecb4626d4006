// A program that has a setrlimit of its own, so that the library does not learn of a change. A
// write beyond the limit is an error of the request all the same, and no signal.
#include <aio.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

extern "C" [[gnu::visibility("default")]] int setrlimit(__rlimit_resource_t resource,
                                                        const rlimit* limit) noexcept {
  return static_cast<int>(::syscall(SYS_prlimit64, 0, resource, limit, nullptr));
}

int main() {
  std::FILE* const file = std::tmpfile();
  if (file == nullptr) return 1;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none{0, before.rlim_max};
  char byte = 'l';
  aiocb block{};
  block.aio_fildes = ::fileno(file);
  block.aio_buf = &byte;
  block.aio_nbytes = 1;
  block.aio_sigevent.sigev_notify = SIGEV_NONE;
  const auto next = [&] {
    if (::aio_write(&block) != 0) return errno;
    const aiocb* const list[] = {&block};
    while (::aio_error(&block) == EINPROGRESS) ::aio_suspend(list, 1, nullptr);
    return ::aio_error(&block);
  };
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 5; ++i) {
      if (next() != 0) return 2;
    }
    if (::setrlimit(RLIMIT_FSIZE, &none) != 0 || next() != EFBIG) return 3;
    if (::setrlimit(RLIMIT_FSIZE, &before) != 0) return 4;
  }
  return 0;
}
