// The bound of what an AIO library can reach under a program: the system's names, and nothing
// behind them. UAIO_BOUND=nothing: requests are complete at once and nothing is moved, so that the
// program's work is left. UAIO_BOUND=call: the calling thread makes the one system call that moves
// the bytes, a list's neighbours together. No notifications, no errors; for bench/uaio.py.
#include <aio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <vector>

#define BOUND_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

bool makes_calls() {
  static const bool answer = [] {
    const char* const word = getenv("UAIO_BOUND");
    return word != nullptr && strcmp(word, "call") == 0;
  }();
  return answer;
}

void complete(aiocb& block, ssize_t moved) {
  block.__error_code = moved < 0 ? errno : 0;
  block.__return_value = moved;
}

/// Reads without waiting for a disk; if that is impossible, with a second call that may wait.
ssize_t read_cached(const aiocb& block, void* data) {
  const iovec piece{data, block.aio_nbytes};
  const ssize_t moved = preadv2(block.aio_fildes, &piece, 1, block.aio_offset, RWF_NOWAIT);
  if (moved == static_cast<ssize_t>(block.aio_nbytes)) return moved;
  return pread(block.aio_fildes, data, block.aio_nbytes, block.aio_offset);
}

int move(aiocb& block, bool reads) {
  auto moved = static_cast<ssize_t>(block.aio_nbytes);
  if (makes_calls()) {
    auto* const data = const_cast<void*>(block.aio_buf);
    moved = reads ? read_cached(block, data)
                  : pwrite(block.aio_fildes, data, block.aio_nbytes, block.aio_offset);
  }
  complete(block, moved);
  return 0;
}

/// Moves the front of the list, whose requests are adjacent in the file, by one call. Returns how
/// many they are.
int move_neighbours(aiocb* const list[], int count) {
  constexpr int most = 1'024;
  const aiocb& first = *list[0];
  static thread_local std::vector<iovec> pieces;
  pieces.clear();
  off_t next = first.aio_offset;
  for (int i = 0; i < count && i < most; ++i) {
    if (list[i]->aio_offset != next || list[i]->aio_lio_opcode != first.aio_lio_opcode) break;
    pieces.push_back({const_cast<void*>(list[i]->aio_buf), list[i]->aio_nbytes});
    next += static_cast<off_t>(list[i]->aio_nbytes);
  }
  const int length = static_cast<int>(pieces.size());
  if (makes_calls()) {
    const bool reads = first.aio_lio_opcode == LIO_READ;
    const ssize_t moved = reads
                              ? preadv(first.aio_fildes, pieces.data(), length, first.aio_offset)
                              : pwritev(first.aio_fildes, pieces.data(), length, first.aio_offset);
    if (moved != next - first.aio_offset) {
      const int error = moved < 0 ? errno : EIO;
      for (int i = 0; i < length; ++i) list[i]->__error_code = error;
      return length;
    }
  }
  for (int i = 0; i < length; ++i) complete(*list[i], static_cast<ssize_t>(list[i]->aio_nbytes));
  return length;
}

}  // namespace

BOUND_EXPORT int bound_read(aiocb* block) { return move(*block, true); }
BOUND_EXPORT int bound_write(aiocb* block) { return move(*block, false); }
BOUND_EXPORT int bound_error(const aiocb* block) { return block->__error_code; }
BOUND_EXPORT ssize_t bound_return(aiocb* block) { return block->__return_value; }
BOUND_EXPORT int bound_suspend(const aiocb* const[], int, const timespec*) { return 0; }
BOUND_EXPORT int bound_cancel(int, aiocb*) { return AIO_ALLDONE; }
BOUND_EXPORT int bound_fsync(int, aiocb* block) {
  complete(*block, 0);
  return 0;
}
BOUND_EXPORT int bound_listio(int, aiocb* const list[], int count, sigevent*) {
  for (int i = 0; i < count;) i += move_neighbours(list + i, count - i);
  return 0;
}
// Each function has two names: programs with 64-bit offsets use the second.
#define BOUND_NAME(type, arguments, function, twin, name) \
  BOUND_EXPORT type twin arguments __asm__(name) __attribute__((alias(#function)));
#define BOUND_NAMES(type, arguments, function, name)            \
  BOUND_NAME(type, arguments, function, function##_small, name) \
  BOUND_NAME(type, arguments, function, function##_large, name "64")
BOUND_NAMES(int, (aiocb*), bound_read, "aio_read")
BOUND_NAMES(int, (aiocb*), bound_write, "aio_write")
BOUND_NAMES(int, (const aiocb*), bound_error, "aio_error")
BOUND_NAMES(ssize_t, (aiocb*), bound_return, "aio_return")
BOUND_NAMES(int, (const aiocb* const[], int, const timespec*), bound_suspend, "aio_suspend")
BOUND_NAMES(int, (int, aiocb*), bound_cancel, "aio_cancel")
BOUND_NAMES(int, (int, aiocb*), bound_fsync, "aio_fsync")
BOUND_NAMES(int, (int, aiocb* const[], int, sigevent*), bound_listio, "lio_listio")
