// Reused descriptor numbers. The library remembers for a while which descriptors are open with
// O_DIRECT, so that a request costs one call. A program may close such a descriptor, and its next
// pipe gets the same number; or it may clear O_DIRECT on the file. No request may behave
// differently for that.
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "host.hpp"

using host::Pipe;

namespace {

/// A descriptor that the library knows as one for direct transfers.
int direct_number() {
  const int file = host::temporary(O_DIRECT, 64U << 10);
  aiocb read = host::request(file, host::aligned(), 4'096);
  for (int i = 0; i < 3; ++i) CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  return file;
}

/// The number is another file's.
void give_number(int number, int to) {
  CHECK(::dup2(to, number) == number);
  ::close(to);
}

/// Of the whole file, only the first page is in the page cache.
void keep_first_page(int file) {
  char byte = 0;
  CHECK(::fdatasync(file) == 0);
  CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
  CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM) == 0);
  CHECK(::pread(file, &byte, 1, 0) == 1);
}

void reads_all(int file) {
  std::vector<char> bytes(64U << 10, 'o');
  aiocb read = host::request(file, bytes.data(), bytes.size());
  CHECK(aio_read(&read) == 0);
  CHECK(host::finish(read) == static_cast<ssize_t>(bytes.size()));
  CHECK(std::all_of(bytes.begin(), bytes.end(), [](char each) { return each == 'x'; }));
}

void writes_all(int number, int from) {
  const std::vector<char> bytes(4U << 20, 'w');
  const auto whole = static_cast<ssize_t>(bytes.size());
  aiocb write = host::request(number, const_cast<char*>(bytes.data()), bytes.size());
  CHECK(aio_write(&write) == 0);
  std::vector<char> got(64U << 10);
  for (std::size_t all = 0; all < bytes.size();) {
    const ssize_t each = ::read(from, got.data(), got.size());
    CHECK(each > 0);
    all += static_cast<std::size_t>(each);
    // The rest of a short write would never come.
    CHECK(aio_error(&write) == EINPROGRESS || aio_return(&write) == whole);
  }
  host::wait_for(write);
  CHECK(aio_return(&write) == whole);
}

}  // namespace

// The caller reads what is cached at once. The rest is not the end of the file.
HOST_CASE(half_cached_file_is_read_to_its_end, "kinds of files") {
  const int file = host::temporary(0, 64U << 10);
  keep_first_page(file);
  reads_all(file);
  reads_all(file);
}

HOST_CASE(reused_number_reads_all_of_a_file, "descriptors") {
  const int number = direct_number();
  const int other = host::temporary(0, 64U << 10);
  keep_first_page(other);
  give_number(number, other);
  reads_all(number);
}
HOST_CASE(read_is_whole_without_direct, "descriptors") {
  const int number = direct_number();
  CHECK(::fcntl(number, F_SETFL, 0) == 0);
  keep_first_page(number);
  reads_all(number);
}
HOST_CASE(reused_number_writes_all_to_a_pipe, "descriptors") {
  const int number = direct_number();
  Pipe pipe;
  give_number(number, pipe.in());
  writes_all(number, pipe.out());
}
HOST_CASE(reused_number_writes_all_to_a_socket, "descriptors") {
  const int number = direct_number();
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  give_number(number, ends[1]);
  writes_all(number, ends[0]);
}
// A socket has no places; an offset is ignored.
HOST_CASE(reused_number_reads_a_socket_at_a_place, "descriptors") {
  for (const int flags : {0, int{SOCK_NONBLOCK}}) {
    const int number = direct_number();
    int ends[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | flags, 0, ends) == 0);
    give_number(number, ends[1]);
    CHECK(::write(ends[0], "s", 1) == 1);
    char byte = 0;
    aiocb read = host::request(number, &byte, 1, 4'096);
    CHECK(aio_read(&read) == 0 && host::finish(read) == 1 && byte == 's');
  }
}
// The flags of a pipe of packets have O_DIRECT, too.
HOST_CASE(reused_number_writes_all_in_packets, "descriptors") {
  const int number = direct_number();
  int ends[2];
  CHECK(::pipe2(ends, O_DIRECT) == 0);
  give_number(number, ends[1]);
  writes_all(number, ends[0]);
}
HOST_CASE(reused_number_of_broken_packets_is_no_signal, "signals") {
  const int number = direct_number();
  int ends[2];
  CHECK(::pipe2(ends, O_DIRECT) == 0);
  give_number(number, ends[1]);
  ::close(ends[0]);
  char byte = 'b';
  aiocb write = host::request(number, &byte, 1);
  CHECK(aio_write(&write) == 0);
  CHECK(host::finish(write) == -1 && errno == EPIPE);
}
HOST_CASE(reused_number_of_a_broken_pipe_is_no_signal, "signals") {
  const int number = direct_number();
  Pipe pipe;
  give_number(number, pipe.in());
  ::close(pipe.out());
  char byte = 'b';
  aiocb write = host::request(number, &byte, 1);
  CHECK(aio_write(&write) == 0);
  CHECK(host::finish(write) == -1 && errno == EPIPE);
}
HOST_CASE(reused_number_keeps_the_order_of_a_pipe, "order") {
  for (int i = 0; i < host::rounds(); ++i) {
    const int number = direct_number();
    Pipe pipe;
    const int other = ::dup(pipe.out());
    give_number(number, pipe.out());
    char bytes[2] = {};
    aiocb first = host::request(other, &bytes[0], 1);
    aiocb second = host::request(number, &bytes[1], 1);
    CHECK(aio_read(&first) == 0);
    CHECK(::write(pipe.in(), "12", 2) == 2);
    CHECK(aio_read(&second) == 0);
    CHECK(host::finish(first) == 1 && host::finish(second) == 1);
    CHECK(bytes[0] == '1' && bytes[1] == '2');
    for (const int each : {number, other, pipe.in()}) ::close(each);
  }
}
HOST_CASE(reused_number_keeps_the_order_of_a_list, "order") {
  const int number = direct_number();
  const int file = direct_number();
  char page[4'096];
  const std::string name = "/proc/self/fd/" + std::to_string(file);
  const int cached = ::open(name.c_str(), O_RDONLY);
  CHECK(cached >= 0 && ::pread(cached, page, sizeof page, 0) == sizeof page);
  Pipe pipe;
  give_number(number, pipe.in());
  char bytes[2] = {'1', '2'};
  // The last is refused for another reason: its page is in the page cache.
  aiocb blocks[] = {host::request(number, &bytes[0], 1), host::request(number, &bytes[1], 1),
                    host::request(file, host::aligned(), sizeof page)};
  aiocb* list[3];
  for (int i = 0; i < 3; ++i) {
    blocks[i].aio_lio_opcode = LIO_WRITE;
    list[i] = &blocks[i];
  }
  CHECK(lio_listio(LIO_WAIT, list, 3, nullptr) == 0);
  CHECK(::read(pipe.out(), page, 2) == 2 && page[0] == '1' && page[1] == '2');
}
HOST_CASE(reused_number_cannot_be_read, "answers") {
  const int number = direct_number();
  const int file = host::temporary(0, 64);
  give_number(number, ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_WRONLY));
  char byte = 0;
  for (const std::size_t size : {0U, 1U}) {
    aiocb read = host::request(number, &byte, size);
    CHECK(aio_read(&read) == 0 && host::finish(read) == -1 && errno == EBADF);
  }
}
HOST_CASE(reused_number_of_a_busy_stream_answers_again, "descriptors") {
  host::end_in_time();
  const int number = direct_number();
  Pipe pipe;
  CHECK(::fcntl(pipe.out(), F_SETFL, O_NONBLOCK) == 0);
  give_number(number, pipe.out());
  char byte = 0;
  aiocb read = host::request(number, &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(host::finish(read) == -1 && errno == EAGAIN);
}

// A pending request of the number's earlier file, which blocks, is none of the new file's.
HOST_CASE(reused_number_of_a_pending_read_answers_again, "descriptors") {
  host::end_in_time();
  Pipe earlier;
  Pipe later;
  CHECK(::fcntl(later.out(), F_SETFL, O_NONBLOCK) == 0);
  CHECK(::fcntl(later.in(), F_SETFL, O_NONBLOCK) == 0);
  const int number = ::dup(earlier.out());
  char bytes[2] = {};
  aiocb pending = host::request(number, &bytes[0], 1);
  CHECK(aio_read(&pending) == 0);
  CHECK(::dup2(later.out(), number) == number);
  aiocb read = host::request(number, &bytes[1], 1);
  CHECK(aio_read(&read) == 0);
  CHECK(host::finish(read) == -1 && errno == EAGAIN);
  CHECK(::dup2(later.in(), number) == number);
  std::vector<char> data(1U << 20, 'l');
  aiocb write = host::request(number, data.data(), data.size());
  CHECK(aio_write(&write) == 0);
  const ssize_t written = host::finish(write);
  CHECK(written > 0 && written < static_cast<ssize_t>(data.size()));
  CHECK(aio_write(&write) == 0);
  CHECK(host::finish(write) == -1 && errno == EAGAIN);
  CHECK(::write(earlier.in(), "e", 1) == 1);
  CHECK(host::finish(pending) == 1 && bytes[0] == 'e');
}

// More requests than one call submits. Each request of the closed number gets the error, and no
// other does.
HOST_CASE(list_with_a_closed_number_among_many, "answers") {
  constexpr int count = 150;
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGRTMIN);
  CHECK(pthread_sigmask(SIG_BLOCK, &told, nullptr) == 0);
  const int good = direct_number();
  const int closed = direct_number();
  ::close(closed);
  void* const data = host::aligned();
  std::vector<aiocb> blocks;
  std::vector<aiocb*> list;
  for (int i = 0; i < count; ++i) {
    blocks.push_back(host::request(i % 3 == 0 ? closed : good, data, 4'096));
    blocks.back().aio_lio_opcode = LIO_READ;
    blocks.back().aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    blocks.back().aio_sigevent.sigev_signo = SIGRTMIN;
    blocks.back().aio_sigevent.sigev_value.sival_int = i;
  }
  for (aiocb& each : blocks) list.push_back(&each);
  CHECK(lio_listio(LIO_NOWAIT, list.data(), count, nullptr) == 0);
  int seen[count] = {};
  const timespec patience = host::patience();
  for (int i = 0; i < count; ++i) {
    siginfo_t info{};
    CHECK(::sigtimedwait(&told, &info, &patience) == SIGRTMIN);
    const auto which = static_cast<std::size_t>(info.si_value.sival_int);
    CHECK(++seen[which] == 1);
    CHECK(aio_error(&blocks[which]) == (which % 3 == 0 ? EBADF : 0));
    CHECK(aio_return(&blocks[which]) == (which % 3 == 0 ? -1 : 4'096));
  }
  CHECK(lio_listio(LIO_WAIT, list.data(), count, nullptr) == -1 && errno == EIO);
}

// A short read goes back to the thread that started it while other threads collect.
HOST_CASE(direct_reads_at_the_end_of_the_file, "ends of threads") {
  static std::atomic<int> told{0};
  std::vector<std::thread> threads;
  const int each_does = host::rounds() * 10;
  constexpr int readers = 4;
  for (int i = 0; i < readers; ++i) {
    threads.emplace_back([each_does] {
      const int file = host::temporary(O_DIRECT, 12'288);
      aiocb read = host::request(file, host::aligned(16'384), 16'384);
      read.aio_sigevent.sigev_notify = SIGEV_THREAD;
      read.aio_sigevent.sigev_notify_function = [](sigval) { ++told; };
      read.aio_sigevent.sigev_notify_attributes = nullptr;
      for (int round = 0; round < each_does; ++round) {
        read.aio_sigevent.sigev_notify = round % 20 == 0 ? SIGEV_THREAD : SIGEV_NONE;
        read.aio_offset = round % 2 * 4'096;
        CHECK(aio_read(&read) == 0);
        CHECK(host::finish(read) == 12'288 - read.aio_offset);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  host::until([&] { return told == readers * each_does / 20; });
}

// A number of direct writes becomes another file's, which gets what it is asked to take.
HOST_CASE(reused_number_of_direct_writes, "descriptors") {
  constexpr std::size_t size = 4'096;
  const int number = direct_number();
  void* const data = host::aligned();
  const auto write = [&] {
    aiocb block = host::request(number, data, size);
    CHECK(aio_write(&block) == 0);
    return host::finish(block);
  };
  const auto become = [&](int file) {
    for (int i = 0; i < 3; ++i) CHECK(write() == size);
    CHECK(file >= 0 && ::dup2(file, number) == number);
    ::close(file);
  };
  const auto size_now = [number] {
    struct stat status{};
    CHECK(::fstat(number, &status) == 0);
    return status.st_size;
  };
  become(host::temporary(0, 100));
  CHECK(write() == size && size_now() == size);
  become(host::temporary(O_DIRECT, size));
  become(host::temporary(O_APPEND, 100));
  CHECK(write() == size && size_now() == size + 100);
  become(host::temporary(O_DIRECT, size));
  become(host::temporary(O_APPEND | O_DIRECT, size));
  CHECK(write() == size && size_now() == 2 * size);
  become(::open("/dev/null", O_RDWR));
  CHECK(write() == size);
  become(host::temporary(O_DIRECT, size));
  become(::memfd_create("reused", 0));
  CHECK(write() == size && size_now() == size);
  become(host::temporary(O_DIRECT, size));
  become(::open("/proc/self/exe", O_RDONLY));
  CHECK(write() == -1 && errno == EBADF);
}

// A file is open twice. The flags of one open file do not act on requests of the other.
HOST_CASE(flags_of_another_open_file_do_not_act, "descriptors") {
  constexpr std::size_t size = 4U << 20;
  constexpr off_t far = 16U << 20;
  std::vector<char> bytes(size, 'f');
  for (const bool early : {true, false}) {
    for (int i = 0; i < host::rounds() / 10; ++i) {
      const int one = host::temporary(O_DSYNC);
      const int other = ::open(("/proc/self/fd/" + std::to_string(one)).c_str(), O_RDWR | O_DSYNC);
      CHECK(other >= 0);
      aiocb first = host::request(one, bytes.data(), size);
      aiocb second = host::request(other, bytes.data(), size, far);
      CHECK(aio_write(&first) == 0);
      if (early) CHECK(::fcntl(one, F_SETFL, O_APPEND) == 0);
      CHECK(aio_write(&second) == 0);
      if (!early) CHECK(::fcntl(one, F_SETFL, O_APPEND) == 0);
      CHECK(host::finish(first) == size && host::finish(second) == size);
      char byte = 0;
      CHECK(::pread(other, &byte, 1, far) == 1 && byte == 'f');
      ::close(one);
      ::close(other);
    }
  }
}

// A list of appends, one of which can be made only in part, is appended once.
HOST_CASE(list_of_appends_that_is_cut_is_made_once, "answers") {
  constexpr std::size_t size = 4'096;
  const int file = host::temporary();
  std::vector<char> bytes(size, 'l');
  aiocb alone = host::request(file, bytes.data(), size);
  for (int i = 0; i < 3; ++i) CHECK(aio_write(&alone) == 0 && host::finish(alone) == size);
  CHECK(::ftruncate(file, 0) == 0 && ::fcntl(file, F_SETFL, O_APPEND) == 0);
  void* const memory =
      ::mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  auto* const end = static_cast<char*>(memory) + size;
  CHECK(::munmap(end, size) == 0);
  aiocb blocks[] = {host::request(file, bytes.data(), size),
                    host::request(file, end - size / 2, size, size),
                    host::request(file, bytes.data(), size, off_t{2 * size})};
  aiocb* list[3];
  for (int i = 0; i < 3; ++i) {
    blocks[i].aio_lio_opcode = LIO_WRITE;
    list[i] = &blocks[i];
  }
  CHECK(lio_listio(LIO_WAIT, list, 3, nullptr) == 0);
  CHECK(aio_return(list[0]) == size && aio_return(list[1]) == size / 2);
  CHECK(aio_return(list[2]) == size);
  struct stat status{};
  CHECK(::fstat(file, &status) == 0 && status.st_size == size * 5 / 2);
}
