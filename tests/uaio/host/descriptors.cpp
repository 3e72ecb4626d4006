// Locks and descriptors: the library never releases the program's locks and never blocks what the
// program does to its descriptors. A request keeps the file that it was started with.
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>

#include "host.hpp"

using host::Pipe;

namespace {

bool record_lock_is_there(int file) {
  return host::in_child([file] {
           struct flock lock{};
           lock.l_type = F_WRLCK;
           CHECK(::fcntl(file, F_GETLK, &lock) == 0);
           ::_exit(lock.l_type == F_UNLCK ? 1 : 0);
         }) == 0;
}

void take_record_lock(int file) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_len = 1;
  CHECK(::fcntl(file, F_SETLK, &lock) == 0);
}

void drop_from_cache(int file) {
  CHECK(::fdatasync(file) == 0);
  CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
}

std::vector<int> open_descriptors() {
  std::vector<int> all;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    all.push_back(std::atoi(each.path().filename().c_str()));
  }
  // The descriptor of the listing itself is closed by now.
  all.erase(
      std::remove_if(all.begin(), all.end(), [](int each) { return ::fcntl(each, F_GETFD) < 0; }),
      all.end());
  std::sort(all.begin(), all.end());
  return all;
}

/// One request of each kind that is not simply served from the page cache.
void use_all_kinds() {
  const int direct = host::temporary(O_DIRECT, 64U << 10);
  aiocb read = host::request(direct, host::aligned(), 4'096);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  aiocb sync = host::request(direct, nullptr, 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
  Pipe pipe;
  char byte = 0;
  aiocb stream = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&stream) == 0 && ::write(pipe.in(), "s", 1) == 1 && host::finish(stream) == 1);
  CHECK(byte == 's');
  ::close(direct);
  ::close(pipe.in());
  ::close(pipe.out());
}

}  // namespace

HOST_CASE(record_lock_after_direct_reads, "locks") {
  const int file = host::temporary(O_DIRECT, 64U << 10);
  take_record_lock(file);
  aiocb read = host::request(file, host::aligned(), 4'096);
  for (int i = 0; i < 130; ++i) CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  CHECK(record_lock_is_there(file));
}
HOST_CASE(record_lock_after_syncs, "locks") {
  const int file = host::temporary(0, 4'096);
  take_record_lock(file);
  aiocb sync = host::request(file, nullptr, 0);
  for (int i = 0; i < 130; ++i) CHECK(aio_fsync(O_DSYNC, &sync) == 0 && host::finish(sync) == 0);
  CHECK(record_lock_is_there(file));
}
HOST_CASE(record_lock_after_reads_past_the_cache, "locks") {
  const int file = host::temporary(0, 1U << 20);
  take_record_lock(file);
  std::vector<char> bytes(4'096);
  for (int i = 0; i < 20; ++i) {
    drop_from_cache(file);
    aiocb read = host::request(file, bytes.data(), bytes.size(), i * 8'192L);
    CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  }
  CHECK(record_lock_is_there(file));
}
HOST_CASE(record_lock_after_all_files_were_used, "locks") {
  const int locked = host::temporary(O_DIRECT, 64U << 10);
  take_record_lock(locked);
  for (int i = 0; i < 20; ++i) {
    const int twin = ::open(("/proc/self/fd/" + std::to_string(locked)).c_str(), O_RDWR | O_DIRECT);
    CHECK(twin >= 0);
    aiocb sync = host::request(twin, nullptr, 0);
    CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
    // Closing it would release the lock, which only the program may do, so it is kept.
  }
  CHECK(record_lock_is_there(locked));
}
HOST_CASE(lock_of_the_open_file_is_kept, "locks") {
  const int file = host::temporary(O_DIRECT, 64U << 10);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  CHECK(::fcntl(file, F_OFD_SETLK, &lock) == 0);
  use_all_kinds();
  aiocb sync = host::request(file, nullptr, 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
  CHECK(record_lock_is_there(file));
}
HOST_CASE(flock_ends_with_the_file, "locks") {
  const std::string name = host::folder() + "/uaio-lock-" + std::to_string(::getpid());
  const int first = ::open(name.c_str(), O_RDWR | O_CREAT, 0600);
  const int second = ::open(name.c_str(), O_RDWR);
  ::unlink(name.c_str());
  CHECK(::flock(first, LOCK_EX) == 0);
  aiocb sync = host::request(first, nullptr, 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
  ::close(first);
  // The library may be about to release it, which needs no help.
  host::until([&] { return ::flock(second, LOCK_EX | LOCK_NB) == 0; });
}
HOST_CASE(robust_mutex_across_requests, "locks") {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  static pthread_mutex_t mutex;
  CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
  pthread_t owner;
  CHECK(pthread_create(
            &owner, nullptr,
            [](void*) -> void* {
              CHECK(pthread_mutex_lock(&mutex) == 0);
              use_all_kinds();
              return nullptr;
            },
            nullptr) == 0);
  CHECK(pthread_join(owner, nullptr) == 0);
  CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD);
}

HOST_CASE(no_descriptor_where_programs_look, "descriptors") {
  const auto low = [] {
    std::vector<int> all = open_descriptors();
    all.erase(std::remove_if(all.begin(), all.end(), [](int each) { return each >= 256; }),
              all.end());
    return all;
  };
  const std::vector<int> before = low();
  use_all_kinds();
  CHECK(low() == before);
}
HOST_CASE(the_next_number_is_the_lowest, "descriptors") {
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  const int expected = ::dup(0);
  ::close(expected);
  CHECK(aio_read(&read) == 0);
  CHECK(::dup(0) == expected);
  CHECK(::write(pipe.in(), "n", 1) == 1 && host::finish(read) == 1);
}
HOST_CASE(dup2_over_every_descriptor, "descriptors") {
  use_all_kinds();
  const int null = ::open("/dev/null", O_RDWR);
  for (int number = 3; number < 5'000; ++number) {
    if (number != null) ::dup2(null, number);
  }
  for (int number = 3; number < 5'000; ++number) {
    if (number != null) ::close(number);
  }
  use_all_kinds();
}
HOST_CASE(dup2_that_stays, "descriptors") {
  use_all_kinds();
  const int null = ::open("/dev/null", O_RDWR);
  for (const int each : open_descriptors()) {
    if (each > 2 && each != null) CHECK(::dup2(null, each) == each);
  }
  use_all_kinds();
}
HOST_CASE(close_range_of_all, "descriptors") {
  use_all_kinds();
  CHECK(::syscall(SYS_close_range, 3U, ~0U, 0U) == 0);
  use_all_kinds();
  CHECK(::syscall(SYS_close_range, 3U, ~0U, 0U) == 0);
  use_all_kinds();
}
HOST_CASE(close_range_under_a_pending_request, "descriptors") {
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  const int in = ::dup2(pipe.in(), 2);
  CHECK(::syscall(SYS_close_range, 3U, ~0U, 0U) == 0);
  use_all_kinds();
  CHECK(::write(in, "c", 1) == 1);
  CHECK(host::finish(read) == 1 && byte == 'c');
}
HOST_CASE(descriptors_zero_to_two_are_closed, "descriptors") {
  const int out = ::dup(1);
  for (int number = 0; number < 3; ++number) ::close(number);
  use_all_kinds();
  CHECK(::dup2(out, 1) == 1);
}
HOST_CASE(peer_sees_the_end_after_close, "descriptors") {
  Pipe pipe;
  char byte = 0;
  aiocb write = host::request(pipe.in(), &byte, 1);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 1);
  CHECK(::read(pipe.out(), &byte, 1) == 1);
  ::close(pipe.in());
  CHECK(::read(pipe.out(), &byte, 1) == 0);
}
HOST_CASE(written_file_can_be_executed, "descriptors") {
  const std::string name = host::folder() + "/uaio-exec-" + std::to_string(::getpid());
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT, 0700);
  char script[] = "#!/bin/sh\nexit 7\n";
  aiocb write = host::request(file, script, sizeof(script) - 1);
  CHECK(aio_write(&write) == 0 && host::finish(write) == sizeof(script) - 1);
  aiocb sync = host::request(file, nullptr, 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
  ::close(file);
  host::until([&] {
    return host::in_child([&] {
             ::execl(name.c_str(), name.c_str(), nullptr);
             ::_exit(errno == ETXTBSY ? 1 : 2);
           }) == 7;
  });
  ::unlink(name.c_str());
}
HOST_CASE(closed_number_reaches_no_other_file, "descriptors") {
  Pipe pipe;
  std::vector<char> filling(1U << 20, 'f');
  CHECK(::fcntl(pipe.in(), F_SETFL, O_NONBLOCK) == 0);
  while (::write(pipe.in(), filling.data(), filling.size()) > 0) {
  }
  CHECK(::fcntl(pipe.in(), F_SETFL, 0) == 0);
  char texts[8][2] = {};
  std::vector<aiocb> writes;
  for (auto& text : texts) writes.push_back(host::request(pipe.in(), text, 2));
  for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
  const int file = host::temporary();
  CHECK(::dup2(file, pipe.in()) == pipe.in());
  CHECK(::fcntl(pipe.out(), F_SETFL, O_NONBLOCK) == 0);
  for (aiocb& each : writes) {
    host::until([&] {
      while (::read(pipe.out(), filling.data(), filling.size()) > 0) {
      }
      return aio_error(&each) != EINPROGRESS;
    });
  }
  struct stat status{};
  CHECK(::fstat(file, &status) == 0);
  CHECK(status.st_size == 0);
}
HOST_CASE(descriptors_are_used_up, "limits") {
  aiocb early = host::request(host::temporary(O_DIRECT, 4'096), host::aligned(), 4'096);
  CHECK(aio_read(&early) == 0 && host::finish(early) == 4'096);
  Pipe pipe;
  const int file = host::temporary(O_DIRECT, 64U << 10);
  rlimit limit{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = 64;
  CHECK(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  while (::dup(0) >= 0) {
  }
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "u", 1) == 1 && host::finish(read) == 1);
  aiocb sync = host::request(file, nullptr, 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
  CHECK(::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 64);
}

HOST_CASE(appends_by_duplicates_keep_their_order, "order") {
  const int file = host::temporary(O_APPEND);
  const int twin = ::dup(file);
  char texts[200][16];
  std::vector<aiocb> writes;
  for (int i = 0; i < 200; ++i) {
    std::snprintf(texts[i], sizeof(texts[i]), "%03d", i);
    writes.push_back(host::request(i % 2 == 0 ? file : twin, texts[i], 3));
  }
  for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
  for (aiocb& each : writes) CHECK(host::finish(each) == 3);
  char all[600];
  CHECK(::pread(file, all, sizeof(all), 0) == sizeof(all));
  for (int i = 0; i < 200; ++i) CHECK(std::memcmp(all + 3 * i, texts[i], 3) == 0);
}
HOST_CASE(large_appends_keep_their_order, "order") {
  constexpr std::size_t size = 64U << 10;
  constexpr std::size_t count = 16;
  std::vector<std::vector<char>> texts;
  for (std::size_t i = 0; i < count; ++i) texts.emplace_back(size, static_cast<char>('a' + i));
  for (int round = 0; round < host::rounds() / 4; ++round) {
    const int file = host::temporary(O_APPEND | O_DSYNC);
    std::vector<aiocb> writes;
    for (auto& text : texts) writes.push_back(host::request(file, text.data(), size));
    for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
    for (aiocb& each : writes) CHECK(host::finish(each) == static_cast<ssize_t>(size));
    for (std::size_t i = 0; i < count; ++i) {
      char byte = 0;
      CHECK(::pread(file, &byte, 1, static_cast<off_t>(i * size)) == 1 && byte == texts[i][0]);
    }
    ::close(file);
  }
}
HOST_CASE(reads_of_one_pipe_keep_their_order, "order") {
  Pipe pipe;
  constexpr int count = 500;
  std::vector<char> bytes(count);
  std::vector<aiocb> reads;
  for (char& each : bytes) reads.push_back(host::request(pipe.out(), &each, 1));
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  for (int i = 0; i < count; ++i) {
    const char byte = static_cast<char>(i % 100);
    CHECK(::write(pipe.in(), &byte, 1) == 1);
  }
  for (int i = 0; i < count; ++i) {
    CHECK(host::finish(reads[static_cast<std::size_t>(i)]) == 1);
    CHECK(bytes[static_cast<std::size_t>(i)] == i % 100);
  }
}
// The second request begins when the first one is over, which waits for room or for data.
HOST_CASE(stream_that_stops_blocking_keeps_its_order, "order") {
  host::end_in_time();
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  std::vector<char> first(1U << 20, 'f');
  std::vector<char> second(1'000, 's');
  aiocb writes[] = {host::request(ends[0], first.data(), first.size()),
                    host::request(ends[0], second.data(), second.size())};
  char bytes[2] = {};
  aiocb reads[] = {host::request(ends[0], &bytes[0], 1), host::request(ends[0], &bytes[1], 1)};
  int waiting = 0;
  CHECK(aio_write(&writes[0]) == 0);
  host::until([&] { return ::ioctl(ends[1], FIONREAD, &waiting) == 0 && waiting > 0; });
  CHECK(::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  std::vector<char> got(first.size() + second.size());
  std::size_t size = 0;
  // Some room, which the second one must leave to the first.
  const auto take = [&](std::size_t most) {
    const ssize_t more = ::recv(ends[1], got.data() + size, std::min(most, got.size() - size), 0);
    CHECK(more > 0);
    size += static_cast<std::size_t>(more);
  };
  while (size < 65'536) take(4'096);
  CHECK(aio_write(&writes[1]) == 0);
  while (size < got.size()) take(65'536);
  CHECK(host::finish(writes[0]) == 1 << 20 && host::finish(writes[1]) == 1'000);
  CHECK(std::equal(first.begin(), first.end(), got.begin()));
  CHECK(::fcntl(ends[0], F_SETFL, 0) == 0);
  CHECK(aio_read(&reads[0]) == 0);
  CHECK(::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  CHECK(aio_read(&reads[1]) == 0);
  CHECK(::send(ends[1], "ab", 2, 0) == 2);
  CHECK(host::finish(reads[0]) == 1 && host::finish(reads[1]) == 1);
  CHECK(bytes[0] == 'a' && bytes[1] == 'b');
}
HOST_CASE(positions_beyond_four_gigabytes, "kinds of files") {
  const int file = host::temporary();
  const off_t far = (off_t{1} << 33) + 5;
  char text[] = "far";
  aiocb write = host::request(file, text, 3, far);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 3);
  char back[4] = {};
  aiocb read = host::request(file, back, 3, far);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 3 && std::strcmp(back, "far") == 0);
}
HOST_CASE(terminals, "kinds of files") {
  int master = -1;
  int slave = -1;
  CHECK(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
  char line[8] = {};
  aiocb read = host::request(slave, line, sizeof(line));
  CHECK(aio_read(&read) == 0);
  CHECK(::write(master, "tty\n", 4) == 4);
  CHECK(host::finish(read) == 4 && std::strcmp(line, "tty\n") == 0);
}
HOST_CASE(eventfds, "kinds of files") {
  const int one = ::eventfd(0, 0);
  const int other = ::eventfd(0, 0);
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  aiocb reads[] = {host::request(one, &first, 8), host::request(other, &second, 8)};
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  const std::uint64_t values[] = {5, 7};
  CHECK(::write(other, &values[1], 8) == 8 && host::finish(reads[1]) == 8 && second == 7);
  CHECK(::write(one, &values[0], 8) == 8 && host::finish(reads[0]) == 8 && first == 5);
}
HOST_CASE(datagrams_keep_their_bounds, "kinds of files") {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
  char bytes[2][16] = {};
  aiocb reads[] = {host::request(ends[1], bytes[0], 16), host::request(ends[1], bytes[1], 16)};
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  CHECK(::send(ends[0], "one", 3, 0) == 3 && ::send(ends[0], "three", 5, 0) == 5);
  CHECK(host::finish(reads[0]) == 3 && host::finish(reads[1]) == 5);
}
HOST_CASE(datagrams_keep_their_order, "order") {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
  constexpr std::size_t count = 8;
  for (int round = 0; round < 50; ++round) {
    char sent[count] = {};
    char bytes[count] = {};
    std::vector<aiocb> reads;
    std::vector<aiocb> writes;
    for (std::size_t i = 0; i < count; ++i) {
      sent[i] = static_cast<char>('a' + i);
      reads.push_back(host::request(ends[1], &bytes[i], 1));
      writes.push_back(host::request(ends[0], &sent[i], 1));
    }
    for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
    for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
    for (aiocb& each : reads) CHECK(host::finish(each) == 1);
    for (aiocb& each : writes) CHECK(host::finish(each) == 1);
    CHECK(std::memcmp(bytes, sent, count) == 0);
  }
  // A request that waits for its turn is cancelled, and the others go on.
  char bytes[3] = {};
  aiocb reads[] = {host::request(ends[1], &bytes[0], 1), host::request(ends[1], &bytes[1], 1),
                   host::request(ends[1], &bytes[2], 1)};
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  CHECK(aio_cancel(ends[1], &reads[1]) == AIO_CANCELED);
  CHECK(host::finish(reads[1]) == -1 && errno == ECANCELED);
  CHECK(::send(ends[0], "x", 1, 0) == 1 && ::send(ends[0], "y", 1, 0) == 1);
  CHECK(host::finish(reads[0]) == 1 && host::finish(reads[2]) == 1);
  CHECK(bytes[0] == 'x' && bytes[2] == 'y');
  // The last one is cancelled, and another one takes its place.
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  CHECK(aio_cancel(ends[1], &reads[2]) == AIO_CANCELED);
  CHECK(host::finish(reads[2]) == -1 && errno == ECANCELED);
  CHECK(aio_read(&reads[2]) == 0);
  for (int i = 0; i < 3; ++i) CHECK(::send(ends[0], "z", 1, 0) == 1);
  for (aiocb& each : reads) CHECK(host::finish(each) == 1);
  // A cancel of all of them while one is being carried out.
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  CHECK(aio_cancel(ends[1], nullptr) == AIO_CANCELED);
  for (aiocb& each : reads) CHECK(host::finish(each) == -1 && errno == ECANCELED);
}
// The engine has one request at a time, and the others queue. The last of these is cancelled.
HOST_CASE(full_queue_loses_no_request, "order") {
  const char* const given = std::getenv("UAIO");
  const std::string options = given != nullptr ? given : "";
  if (options.find("depth=") == std::string::npos) {  // they are read when the program begins
    CHECK(::setenv("UAIO", (options.empty() ? "depth=1" : options + ",depth=1").c_str(), 1) == 0);
    ::execl("/proc/self/exe", "uaio_host", "full_queue_loses_no_request", nullptr);
    CHECK(false);
  }
  Pipe pipes[4];
  char byte = 0;
  std::vector<aiocb> reads;
  for (Pipe& each : pipes) reads.push_back(host::request(each.out(), &byte, 1));
  for (std::size_t i = 0; i < 3; ++i) CHECK(aio_read(&reads[i]) == 0);
  // The system has begun it.
  if (aio_cancel(pipes[2].out(), &reads[2]) != AIO_CANCELED) {
    CHECK(::write(pipes[2].in(), "x", 1) == 1);
  }
  host::wait_for(reads[2]);
  CHECK(aio_read(&reads[3]) == 0);
  for (const std::size_t i : {0U, 1U, 3U}) {
    CHECK(::write(pipes[i].in(), "x", 1) == 1);
    CHECK(host::finish(reads[i]) == 1);
  }
}
HOST_CASE(broken_pipe_is_no_signal, "signals") {
  Pipe pipe;
  ::close(pipe.out());
  char byte = 0;
  aiocb write = host::request(pipe.in(), &byte, 1);
  CHECK(aio_write(&write) == 0);
  CHECK(host::finish(write) == -1 && errno == EPIPE);
}
HOST_CASE(broken_pipe_leaves_the_programs_own_signal, "signals") {
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  CHECK(::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before) == 0);
  CHECK(::raise(SIGPIPE) == 0);
  for (const int flags : {0, O_NONBLOCK}) {
    int ends[2];
    CHECK(::pipe2(ends, flags) == 0);
    ::close(ends[0]);
    char byte = 0;
    aiocb write = host::request(ends[1], &byte, 1);
    CHECK(aio_write(&write) == 0);
    CHECK(host::finish(write) == -1 && errno == EPIPE);
    CHECK(::sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1);
  }
  int taken = 0;
  CHECK(::sigwait(&pipe_signal, &taken) == 0 && taken == SIGPIPE);
  CHECK(::pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
}
