// A single-threaded program that has an operator new of its own, as many have, which is no other
// library's: it is not ready before the program's first static object, and has no lock. Requests of
// every kind, with the threads of the library that they need, never call it. Nor do they call
// aligned_alloc, which a program with a malloc and free of its own need not have: glibc's block
// would reach that free.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

namespace {

bool is_ready = false;
volatile bool counts = true;
std::size_t calls = 0;

struct Ready {
  Ready() { is_ready = true; }
} const ready;

int error_of(const aiocb& block) {
  const aiocb* const list[] = {&block};
  while (::aio_error(&block) == EINPROGRESS) ::aio_suspend(list, 1, nullptr);
  return ::aio_error(&block);
}

}  // namespace

void* operator new(std::size_t size) {
  if (!is_ready) std::_Exit(2);
  if (counts) ++calls;
  if (void* const memory = std::malloc(size); memory != nullptr) return memory;
  throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
extern "C" void* aligned_alloc(std::size_t /*alignment*/, std::size_t /*size*/) noexcept {
  std::_Exit(8);
}

int main() {
  std::FILE* const file = std::tmpfile();
  int ends[2];
  if (file == nullptr || ::pipe(ends) != 0) return 1;
  char byte = 'n';
  aiocb block{};
  block.aio_buf = &byte;
  block.aio_nbytes = 1;
  block.aio_sigevent.sigev_notify = SIGEV_NONE;
  block.aio_fildes = ends[0];
  if (::aio_read(&block) != 0 || ::write(ends[1], &byte, 1) != 1) return 1;
  if (error_of(block) != 0) return 3;
  block.aio_fildes = ::fileno(file);
  if (::aio_write(&block) != 0 || error_of(block) != 0) return 4;
  if (::aio_fsync(O_SYNC, &block) != 0 || error_of(block) != 0) return 5;
  if (calls != 0) return 6;
  counts = false;
  return std::string(100, byte).size() == 100 ? 0 : 7;
}
