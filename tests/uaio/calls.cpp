// Makes requests of one kind, for tests/uaio/calls.py, which counts the system calls.
//
// calls KIND COUNT
#include <aio.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t block_size = 4'096;
constexpr std::size_t blocks_in_file = 1'024;

void check(bool right, const char* what) {
  if (right) return;
  std::perror(what);
  ::_exit(1);
}

int make_file(int flags) {
  const char* const folder = std::getenv("UAIO_TEST_FOLDER");
  std::string name = std::string{folder != nullptr ? folder : "/tmp"} + "/uaio-calls-XXXXXX";
  const int first = ::mkstemp(name.data());
  check(first >= 0, "mkstemp");
  const std::vector<char> bytes(block_size * blocks_in_file, 'c');
  check(::write(first, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "write");
  check(::fdatasync(first) == 0, "fdatasync");
  // The first direct write of a cached page waits until it is out of the cache.
  if ((flags & O_DIRECT) != 0) ::posix_fadvise(first, 0, 0, POSIX_FADV_DONTNEED);
  const int file = ::open(name.c_str(), O_RDWR | flags);
  check(file >= 0, "open");
  ::unlink(name.c_str());
  ::close(first);
  return file;
}

/// Exit status 77: this file system writes nothing without waiting (btrfs), so that each direct
/// write is the keeper's.
int make_file_for_direct_writes() {
  const int file = make_file(O_DIRECT);
  void* memory = nullptr;
  check(::posix_memalign(&memory, block_size, block_size) == 0, "memory");
  std::memset(memory, 'c', block_size);
  const iovec whole{memory, block_size};
  if (::pwritev2(file, &whole, 1, 0, RWF_NOWAIT) != static_cast<ssize_t>(block_size)) ::_exit(77);
  return file;
}

/// The first direct write of each page has to drop it from the page cache.
void bring_into_cache(int file) {
  check(::fcntl(file, F_SETFL, 0) == 0, "fcntl");
  ::posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);  // page by page
  std::vector<char> bytes(block_size);
  for (std::size_t i = 0; i < blocks_in_file; ++i) {
    const auto place = static_cast<off_t>(i * block_size);
    check(::pread(file, bytes.data(), block_size, place) == block_size, "read");
  }
  check(::fcntl(file, F_SETFL, O_DIRECT) == 0, "fcntl");
}

struct Requests {
  std::vector<aiocb> blocks;
  Requests(int file, std::size_t count, bool zeroed) : blocks(count) {
    for (std::size_t i = 0; i < count; ++i) {
      void* memory = nullptr;
      check(::posix_memalign(&memory, block_size, block_size) == 0, "memory");
      blocks[i].aio_fildes = file;
      blocks[i].aio_buf = memory;
      blocks[i].aio_nbytes = block_size;
      if (!zeroed) blocks[i].aio_sigevent.sigev_notify = SIGEV_NONE;
    }
  }
};

/// This many in flight, as in a program that keeps a queue.
void stream_of_requests(int file, std::size_t depth, std::size_t count, int (*start)(aiocb*)) {
  Requests requests{file, depth, false};
  std::vector<const aiocb*> pending(depth, nullptr);
  std::size_t started = 0;
  std::size_t ended = 0;
  while (ended < count) {
    for (std::size_t i = 0; i < depth && started < count; ++i) {
      if (pending[i] != nullptr) continue;
      requests.blocks[i].aio_offset =
          static_cast<off_t>(started++ * 7 % blocks_in_file * block_size);
      check(start(&requests.blocks[i]) == 0, "start");
      pending[i] = &requests.blocks[i];
    }
    check(aio_suspend(pending.data(), static_cast<int>(depth), nullptr) == 0, "aio_suspend");
    for (std::size_t i = 0; i < depth; ++i) {
      if (pending[i] == nullptr || aio_error(pending[i]) == EINPROGRESS) continue;
      check(aio_return(&requests.blocks[i]) == block_size, "aio_return");
      pending[i] = nullptr;
      ++ended;
    }
  }
}

void lists(int file, std::size_t count, bool zeroed, int code) {
  constexpr std::size_t length = 50;
  Requests requests{file, length, zeroed};
  std::vector<aiocb*> list;
  for (aiocb& each : requests.blocks) {
    each.aio_lio_opcode = code;
    list.push_back(&each);
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < length; ++k) {
      const std::size_t place = (i * length + k) * 13 % blocks_in_file;
      requests.blocks[k].aio_offset = static_cast<off_t>(place * block_size);
    }
    check(lio_listio(LIO_WAIT, list.data(), length, nullptr) == 0, "lio_listio");
    for (aiocb& each : requests.blocks) check(aio_return(&each) == block_size, "aio_return");
  }
}

/// A read of an empty pipe is pending for `count` milliseconds.
void idle(std::size_t count) {
  int ends[2];
  check(::pipe(ends) == 0, "pipe");
  char byte = 0;
  aiocb read{};
  read.aio_fildes = ends[0];
  read.aio_buf = &byte;
  read.aio_nbytes = 1;
  read.aio_sigevent.sigev_notify = SIGEV_NONE;
  check(aio_read(&read) == 0, "aio_read");
  const timespec time{static_cast<time_t>(count / 1'000),
                      static_cast<long>(count % 1'000 * 1'000'000)};
  ::nanosleep(&time, nullptr);
  check(aio_error(&read) == EINPROGRESS, "aio_error");
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view kind = arguments[1];
  const auto count = static_cast<std::size_t>(std::atoi(arguments[2]));
  if (kind == "cached_read") stream_of_requests(make_file(0), 1, count, aio_read);
  if (kind == "buffered_write") stream_of_requests(make_file(0), 1, count, aio_write);
  if (kind == "direct_write")
    stream_of_requests(make_file_for_direct_writes(), 1, count, aio_write);
  if (kind == "direct_write_cached") {
    const int file = make_file_for_direct_writes();
    bring_into_cache(file);
    stream_of_requests(file, 1, count, aio_write);
  }
  if (kind == "direct_read_1") stream_of_requests(make_file(O_DIRECT), 1, count, aio_read);
  if (kind == "direct_read_32") stream_of_requests(make_file(O_DIRECT), 32, count, aio_read);
  if (kind == "list") lists(make_file(O_DIRECT), count, false, LIO_READ);
  if (kind == "list_zeroed") lists(make_file(O_DIRECT), count, true, LIO_READ);
  if (kind == "list_of_writes") lists(make_file_for_direct_writes(), count, false, LIO_WRITE);
  if (kind == "idle_pipe") idle(count);
  ::_exit(0);
}
