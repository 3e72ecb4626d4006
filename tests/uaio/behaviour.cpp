// The duties of a POSIX AIO library, as a program that uses the system's names. Run alone it tests
// the system's library, with libuaio-preload.so it tests ours. Compiled with UAIO_NAMES it tests
// libuaio. Each case runs in a process of its own, which may crash or hang. compare.py runs the
// program both ways and prints both columns.
//
//   behaviour            all cases: "name ok|failed|hangs|crashes reason"
//   behaviour NAME...    only these
//   behaviour --list     the names, and whether the system's library is known to fail
//   behaviour --covers   the names, and the requirements and assertions of POSIX they test
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latch>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#ifdef UAIO_NAMES
#include "uaio.h"
#define TRIED(name) u##name
#define aio_init uaio_init
#else
#include <aio.h>
#define TRIED(name) name
#endif

namespace {

// Which functions have been called, in this process and its children: a case that says that it
// tests one has to call it.
constexpr std::array functions{"aio_read",   "aio_write",   "aio_fsync",  "aio_error",
                               "aio_return", "aio_suspend", "aio_cancel", "lio_listio"};
std::atomic<unsigned>* calls_made = nullptr;  // a bit for each; shared by processes

void note_call(const char* name) {
  for (std::size_t i = 0; i < functions.size(); ++i) {
    if (std::strcmp(functions[i], name) == 0) calls_made->fetch_or(1U << i);
  }
}

void begin_to_note_calls() {
  void* const page = ::mmap(nullptr, sizeof(*calls_made), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) std::abort();
  calls_made = ::new (page) std::atomic<unsigned>{0};
}

#define NOTED(name)                           \
  template <class... Arguments>               \
  auto noted_##name(Arguments... arguments) { \
    note_call(#name);                         \
    return TRIED(name)(arguments...);         \
  }
NOTED(aio_read)
NOTED(aio_write)
NOTED(aio_fsync)
NOTED(aio_error)
NOTED(aio_return)
NOTED(aio_suspend)
NOTED(aio_cancel)
NOTED(lio_listio)
#define aio_read noted_aio_read
#define aio_write noted_aio_write
#define aio_fsync noted_aio_fsync
#define aio_error noted_aio_error
#define aio_return noted_aio_return
#define aio_suspend noted_aio_suspend
#define aio_cancel noted_aio_cancel
#define lio_listio noted_lio_listio

[[noreturn]] void fail(int line, const char* what) {
  std::printf("line %d: %s (errno %d)\n", line, what, errno);
  std::fflush(stdout);
  ::_exit(1);
}
#define CHECK(condition)                          \
  do {                                            \
    if (!(condition)) fail(__LINE__, #condition); \
  } while (false)

std::string folder() {
  const char* const given = std::getenv("UAIO_TEST_FOLDER");
  return given != nullptr ? given : "/tmp";
}

/// A file without a name.
int temporary(int flags = 0, std::size_t size = 0) {
  std::string name = folder() + "/uaio-XXXXXX";
  const int first = ::mkstemp(name.data());
  CHECK(first >= 0);
  const int file = ::open(name.c_str(), O_RDWR | flags);
  CHECK(file >= 0);
  ::unlink(name.c_str());
  ::close(first);
  CHECK(::ftruncate(file, static_cast<off_t>(size)) == 0);
  return file;
}

struct Pipe {
  Pipe() { CHECK(::pipe(ends) == 0); }
  int ends[2];
  [[nodiscard]] int out() const { return ends[0]; }
  [[nodiscard]] int in() const { return ends[1]; }
};

aiocb request(int fildes, void* data, std::size_t size, off_t offset = 0) {
  aiocb block{};
  block.aio_fildes = fildes;
  block.aio_buf = data;
  block.aio_nbytes = size;
  block.aio_offset = offset;
  block.aio_sigevent.sigev_notify = SIGEV_NONE;
  return block;
}

void wait_for(const aiocb& block) {
  const aiocb* const list[] = {&block};
  while (aio_error(&block) == EINPROGRESS) {
    CHECK(aio_suspend(list, 1, nullptr) == 0 || errno == EINTR);
  }
}

ssize_t finish(aiocb& block) {
  wait_for(block);
  const int error = aio_error(&block);
  const ssize_t result = aio_return(&block);
  errno = error;
  return result;
}

[[maybe_unused]] int threads_now() {
  std::ifstream status{"/proc/self/status"};
  std::string word;
  while (status >> word) {
    if (word != "Threads:") continue;
    int count = 0;
    status >> count;
    return count;
  }
  return 0;
}

void on_nothing(int) {}

void handle(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  CHECK(::sigaction(signal, &action, nullptr) == 0);
}

// -- basics ---------------------------------------------------------------------------------------

void reads_and_writes() {
  const int file = temporary();
  char text[] = "0123456789";
  aiocb write = request(file, text, 10, 5);
  CHECK(aio_write(&write) == 0);
  CHECK(finish(write) == 10);
  char buffer[16] = {};
  aiocb read = request(file, buffer, 16, 5);
  CHECK(aio_read(&read) == 0);
  CHECK(finish(read) == 10);
  CHECK(std::memcmp(buffer, text, 10) == 0);
  aiocb beyond = request(file, buffer, 16, 1'000);
  CHECK(aio_read(&beyond) == 0);
  CHECK(finish(beyond) == 0);
}

void direct_reads_and_writes() {
  const int file = temporary(O_DIRECT, 1U << 20);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 1U << 20) == 0);
  std::memset(memory, 'd', 1U << 20);
  std::vector<aiocb> blocks;
  for (int i = 0; i < 256; ++i) {
    blocks.push_back(request(file, static_cast<char*>(memory) + 4'096 * i, 4'096, 4'096 * i));
  }
  for (aiocb& each : blocks) CHECK(aio_write(&each) == 0);
  for (aiocb& each : blocks) CHECK(finish(each) == 4'096);
  std::memset(memory, 0, 1U << 20);
  for (aiocb& each : blocks) CHECK(aio_read(&each) == 0);
  for (aiocb& each : blocks) CHECK(finish(each) == 4'096);
  CHECK(static_cast<char*>(memory)[(1U << 20) - 1] == 'd');
}

void block_is_free_after_return() {
  const int file = temporary(0, 4'096);
  char buffer[8];
  for (int i = 0; i < 1'000; ++i) {
    auto block = std::make_unique<aiocb>(request(file, buffer, 8));
    CHECK(aio_read(block.get()) == 0);
    CHECK(finish(*block) == 8);
    std::memset(block.get(), 0xa5, sizeof(aiocb));
  }
}

std::atomic<int> signal_code;
std::atomic<int> signal_value;
std::atomic<int> signals_seen;
void on_info(int, siginfo_t* info, void*) {
  signal_code = info->si_code;
  signal_value = info->si_value.sival_int;
  ++signals_seen;
}

void handle_info(int signal) {
  struct sigaction action{};
  action.sa_sigaction = on_info;
  action.sa_flags = SA_SIGINFO;
  CHECK(::sigaction(signal, &action, nullptr) == 0);
}

void signal_carries_value_and_code() {
  handle_info(SIGRTMIN + 1);
  const int file = temporary(0, 64);
  Pipe pipe;
  char buffer[8];
  for (const int from : {file, pipe.out()}) {
    signals_seen = 0;
    aiocb block = request(from, buffer, 8);
    block.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    block.aio_sigevent.sigev_signo = SIGRTMIN + 1;
    block.aio_sigevent.sigev_value.sival_int = 4'711;
    CHECK(aio_read(&block) == 0);
    CHECK(::write(pipe.in(), "12345678", 8) == 8);
    while (signals_seen == 0) ::usleep(100);
    CHECK(signal_code == SI_ASYNCIO);
    CHECK(signal_value == 4'711);
    CHECK(finish(block) == 8);
  }
}

sem_t called;
std::atomic<int> call_value;
void on_call(sigval value) {
  call_value = value.sival_int;
  sem_post(&called);
}

void callback_is_called() {
  CHECK(sem_init(&called, 0, 0) == 0);
  const int file = temporary(0, 64);
  Pipe pipe;
  char buffer[8];
  for (const int from : {file, pipe.out()}) {
    aiocb block = request(from, buffer, 8);
    block.aio_sigevent.sigev_notify = SIGEV_THREAD;
    block.aio_sigevent.sigev_notify_function = on_call;
    block.aio_sigevent.sigev_value.sival_int = 42;
    CHECK(aio_read(&block) == 0);
    CHECK(::write(pipe.in(), "12345678", 8) == 8);
    while (sem_wait(&called) != 0) {
    }
    CHECK(call_value == 42);
    CHECK(finish(block) == 8);
  }
}

// -- faults of the system's library ---------------------------------------------------------------

// A big frame for the writes of a dead pointer.
[[gnu::noinline]] bool frame_changes(int in, const aiocb& block) {
  volatile std::uint64_t frame[4'096];
  for (auto& word : frame) word = 0x5555'5555'5555'5555;
  CHECK(::write(in, "x", 1) == 1);
  wait_for(block);
  for (auto& word : frame) {
    if (word != 0x5555'5555'5555'5555) return true;
  }
  return false;
}

[[gnu::noinline]] void wait_interrupted(aiocb& block) {
  aiocb* const list[] = {&block};
  CHECK(lio_listio(LIO_WAIT, list, 1, nullptr) == -1);
  CHECK(errno == EINTR);
}

void interrupted_list_leaves_no_pointers() {
  handle(SIGALRM, on_nothing);
  Pipe pipe;
  char buffer = 0;
  aiocb block = request(pipe.out(), &buffer, 1);
  block.aio_lio_opcode = LIO_READ;
  itimerval often{{0, 20'000}, {0, 20'000}};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  wait_interrupted(block);
  often = {};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  CHECK(!frame_changes(pipe.in(), block));
  CHECK(aio_return(&block) == 1);
}

void huge_list_fits_the_stack() {
#ifdef UAIO_NAMES
  constexpr int count = UAIO_LISTIO_MAX;
#else
  constexpr int count = 4'000'000;
#endif
  std::vector<aiocb*> list(count);
  const int file = temporary(0, 64);
  char buffer[8];
  aiocb block = request(file, buffer, 8);
  block.aio_lio_opcode = LIO_READ;
  list.back() = &block;
  std::thread small{[&] { CHECK(lio_listio(LIO_WAIT, list.data(), count, nullptr) == 0); }};
  small.join();
  CHECK(aio_return(&block) == 8);
}

aiocb* asked = nullptr;
std::atomic<int> handler_runs;
void on_ask(int) {
  const int saved = errno;
  aio_error(asked);
  ++handler_runs;
  errno = saved;
}

void error_is_safe_in_handlers() {
  Pipe pipe;
  char byte = 0;
  aiocb pending = request(pipe.out(), &byte, 1);
  CHECK(aio_read(&pending) == 0);
  asked = &pending;
  handle(SIGALRM, on_ask, SA_RESTART);
  itimerval often{{0, 50}, {0, 50}};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  const int file = temporary(O_DIRECT, 4'096);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
  for (int i = 0; i < 3'000; ++i) {
    aiocb block = request(file, memory, 4'096);
    CHECK(aio_read(&block) == 0);
    while (aio_error(&block) == EINPROGRESS) {
    }
    CHECK(aio_return(&block) == 4'096);
  }
  while (handler_runs < 50) {
    CHECK(aio_error(&pending) == EINPROGRESS);
  }
  often = {};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
}

void cancel_of_the_first_leaves_the_others() {
  Pipe pipe;
  char bytes[3] = {};
  aiocb reads[3];
  for (int i = 0; i < 3; ++i) {
    reads[i] = request(pipe.out(), &bytes[i], 1);
    CHECK(aio_read(&reads[i]) == 0);
  }
  CHECK(aio_cancel(pipe.out(), &reads[0]) == AIO_CANCELED);
  CHECK(aio_error(&reads[0]) == ECANCELED);
  CHECK(aio_return(&reads[0]) == -1);
  CHECK(::write(pipe.in(), "bc", 2) == 2);
  CHECK(finish(reads[1]) == 1);
  CHECK(finish(reads[2]) == 1);
  CHECK(bytes[1] == 'b' && bytes[2] == 'c');
  // The last one, and one that starts after that.
  for (int i = 0; i < 2; ++i) {
    reads[i] = request(pipe.out(), &bytes[i], 1);
    CHECK(aio_read(&reads[i]) == 0);
  }
  CHECK(aio_cancel(pipe.out(), &reads[1]) == AIO_CANCELED);
  CHECK(aio_return(&reads[1]) == -1);
  reads[2] = request(pipe.out(), &bytes[2], 1);
  CHECK(aio_read(&reads[2]) == 0);
  CHECK(aio_cancel(pipe.out(), &reads[2]) == AIO_CANCELED);
  CHECK(aio_return(&reads[2]) == -1);
  CHECK(::write(pipe.in(), "d", 1) == 1);
  CHECK(finish(reads[0]) == 1);
}

// Cancelled requests notify like others; a request that is not cancelled continues unchanged.
void cancel_tells_what_became_of_it() {
  handle_info(SIGRTMIN + 1);
  Pipe pipe;
  char byte = 0;
  aiocb read = request(pipe.out(), &byte, 1);
  read.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  read.aio_sigevent.sigev_signo = SIGRTMIN + 1;
  read.aio_sigevent.sigev_value.sival_int = 5;
  CHECK(aio_read(&read) == 0);
  CHECK(aio_cancel(pipe.out(), nullptr) == AIO_CANCELED);
  while (signals_seen == 0) ::usleep(100);
  CHECK(signal_value == 5);
  CHECK(aio_error(&read) == ECANCELED && aio_return(&read) == -1);
  CHECK(aio_cancel(pipe.out(), &read) == AIO_ALLDONE);

  constexpr std::size_t piece = 1U << 20;
  const int file = temporary(O_DIRECT);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, piece) == 0);
  std::memset(memory, 'c', piece);
  std::vector<aiocb> writes;
  for (std::size_t i = 0; i < 16; ++i) {
    writes.push_back(request(file, memory, piece, static_cast<off_t>(i * piece)));
  }
  for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
  const int answer = aio_cancel(file, nullptr);
  std::size_t cancelled = 0;
  for (aiocb& each : writes) {
    wait_for(each);
    const int error = aio_error(&each);
    CHECK(error == 0 || error == ECANCELED);
    CHECK(aio_return(&each) == (error == 0 ? static_cast<ssize_t>(piece) : -1));
    cancelled += error != 0 ? 1 : 0;
  }
  CHECK(answer == AIO_CANCELED || answer == AIO_NOTCANCELED || answer == AIO_ALLDONE);
  if (answer == AIO_ALLDONE) CHECK(cancelled == 0);
  if (answer == AIO_CANCELED) CHECK(cancelled > 0);
}

void child_of_fork_has_aio() {
  // So that the parent has all its threads.
  char first[8];
  aiocb before = request(temporary(0, 64), first, 8);
  CHECK(aio_read(&before) == 0);
  CHECK(finish(before) == 8);
  Pipe pipe;
  char byte = 0;
  aiocb pending = request(pipe.out(), &byte, 1);
  CHECK(aio_read(&pending) == 0);
  const int file = temporary(O_DIRECT, 4'096);
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    void* memory = nullptr;
    CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
    aiocb read = request(file, memory, 4'096);
    CHECK(aio_read(&read) == 0);
    CHECK(finish(read) == 4'096);
    Pipe own;
    char here = 0;
    aiocb stream = request(own.out(), &here, 1);
    CHECK(aio_read(&stream) == 0);
    CHECK(::write(own.in(), "h", 1) == 1);
    CHECK(finish(stream) == 1);
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(aio_error(&pending) == EINPROGRESS);
  CHECK(::write(pipe.in(), "p", 1) == 1);
  CHECK(finish(pending) == 1);
  CHECK(byte == 'p');
}

void queued_write_keeps_its_file() {
  Pipe pipe;
  // Two pages: a pipe whose only page is begun is not ready for writing.
  const int room = ::fcntl(pipe.in(), F_SETPIPE_SZ, 8'192);
  CHECK(room > 0);
  std::vector<char> filling(static_cast<std::size_t>(room), 'f');
  CHECK(::write(pipe.in(), filling.data(), filling.size()) == room);
  char first[] = "1";
  char second[] = "22";
  aiocb blocked = request(pipe.in(), first, 1);
  aiocb queued = request(pipe.in(), second, 2);
  CHECK(aio_write(&blocked) == 0);
  CHECK(aio_write(&queued) == 0);
  const int file = temporary();
  // close() and open() that gives the same number.
  CHECK(::dup2(file, pipe.in()) == pipe.in());
  CHECK(::read(pipe.out(), filling.data(), filling.size()) == room);
  wait_for(blocked);
  wait_for(queued);
  struct stat status{};
  CHECK(::fstat(file, &status) == 0);
  CHECK(status.st_size == 0);
}

void sync_waits(int file, int twin, int write_priority) {
  constexpr std::size_t piece = 256U << 10;
  constexpr int count = 24;
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, piece) == 0);
  std::memset(memory, 's', piece);
  std::vector<aiocb> writes;
  for (int i = 0; i < count; ++i) {
    writes.push_back(request(file, memory, piece, static_cast<off_t>(piece) * i));
    writes.back().aio_reqprio = write_priority;
  }
  for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
  aiocb sync = request(twin, nullptr, 0);
  CHECK(aio_fsync(O_DSYNC, &sync) == 0);
  wait_for(sync);
  for (aiocb& each : writes) CHECK(aio_error(&each) == 0);
  CHECK(aio_return(&sync) == 0);
  for (aiocb& each : writes) CHECK(aio_return(&each) == static_cast<ssize_t>(piece));
}

void sync_waits_for_lower_priorities() {
  const int file = temporary(O_DIRECT);
  sync_waits(file, file, 20);
}

void sync_waits_for_duplicates() {
  const int file = temporary(O_DIRECT);
  sync_waits(file, ::dup(file), 0);
}

// A sync uses only the descriptor and the notification.
void sync_is_a_request_like_others() {
  handle_info(SIGRTMIN + 1);
  const int file = temporary(O_DIRECT);
  void* memory = nullptr;
  constexpr std::size_t piece = 1U << 20;
  CHECK(::posix_memalign(&memory, 4'096, piece) == 0);
  for (const int operation : {O_SYNC, O_DSYNC}) {
    signals_seen = 0;
    std::vector<aiocb> writes;
    for (std::size_t i = 0; i < 8; ++i) {
      writes.push_back(request(file, memory, piece, static_cast<off_t>(i * piece)));
    }
    for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
    aiocb sync = request(file, nullptr, SIZE_MAX, -77);
    sync.aio_reqprio = -5;
    sync.aio_lio_opcode = 99;
    sync.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    sync.aio_sigevent.sigev_signo = SIGRTMIN + 1;
    sync.aio_sigevent.sigev_value.sival_int = 11;
    CHECK(aio_fsync(operation, &sync) == 0);
    const int now = aio_error(&sync);
    CHECK(now == EINPROGRESS || now == 0);
    while (signals_seen == 0) ::usleep(100);
    CHECK(signal_value == 11);
    for (aiocb& each : writes) CHECK(aio_error(&each) == 0);
    CHECK(finish(sync) == 0);
    for (aiocb& each : writes) CHECK(finish(each) == static_cast<ssize_t>(piece));
  }
}

void full_signal_queue_is_no_error() {
  handle_info(SIGRTMIN + 1);
  const int file = temporary();
  rlimit before{};
  CHECK(::getrlimit(RLIMIT_SIGPENDING, &before) == 0);
  const rlimit none{0, before.rlim_max};
  CHECK(::setrlimit(RLIMIT_SIGPENDING, &none) == 0);
  char text[] = "text";
  aiocb write = request(file, text, 4);
  write.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  write.aio_sigevent.sigev_signo = SIGRTMIN + 1;
  CHECK(aio_write(&write) == 0);
  wait_for(write);
  CHECK(aio_error(&write) == 0);
  CHECK(aio_return(&write) == 4);
  CHECK(signals_seen == 0);
  CHECK(::setrlimit(RLIMIT_SIGPENDING, &before) == 0);
  while (signals_seen == 0) ::usleep(1'000);
}

constexpr int idle_count = 1'000;

void idle_streams_starve_nobody() {
  const rlimit many{3 * idle_count, 3 * idle_count};
  rlimit now{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &now) == 0);
  if (now.rlim_cur < many.rlim_cur) CHECK(::setrlimit(RLIMIT_NOFILE, &many) == 0);
  std::vector<std::array<int, 2>> pairs(idle_count);
  std::vector<aiocb> reads;
  std::vector<char> bytes(idle_count);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const bool socket = i % 2 == 0;
    CHECK((socket ? ::socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i].data())
                  : ::pipe(pairs[i].data())) == 0);
    reads.push_back(request(pairs[i][0], &bytes[i], 1));
  }
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  const int file = temporary(O_DIRECT, 4'096);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
  aiocb read = request(file, memory, 4'096);
  CHECK(aio_read(&read) == 0);
  CHECK(finish(read) == 4'096);
  CHECK(::write(pairs.back()[1], "l", 1) == 1);
  CHECK(finish(reads.back()) == 1);
  CHECK(bytes.back() == 'l');
#ifndef __SANITIZE_THREAD__
  CHECK(threads_now() <= 3);  // with mode=helper the watcher, too; ThreadSanitizer has its own
#endif
}

void write_passes_a_pending_read() {
  int pair[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  char byte = 0;
  char text[] = "w";
  aiocb read = request(pair[0], &byte, 1);
  aiocb write = request(pair[0], text, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(aio_write(&write) == 0);
  CHECK(finish(write) == 1);
  CHECK(aio_error(&read) == EINPROGRESS);
  CHECK(::write(pair[1], "r", 1) == 1);
  CHECK(finish(read) == 1);
}

void cancel_a_read(int from) {
  char byte = 0;
  aiocb read = request(from, &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(aio_cancel(from, &read) == AIO_CANCELED);
  CHECK(aio_error(&read) == ECANCELED);
  CHECK(aio_return(&read) == -1);
  aiocb again = request(from, &byte, 1);
  CHECK(aio_read(&again) == 0);
  CHECK(aio_cancel(from, nullptr) == AIO_CANCELED);
  CHECK(aio_cancel(from, nullptr) == AIO_ALLDONE);
  CHECK(aio_error(&again) == ECANCELED);
}

void socket_reads_can_be_cancelled() {
  int pair[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  cancel_a_read(pair[0]);
}
void pipe_reads_can_be_cancelled() { cancel_a_read(Pipe{}.out()); }
void terminal_reads_can_be_cancelled() {
  int master = -1;
  int slave = -1;
  CHECK(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
  cancel_a_read(slave);
}

sem_t gate;
std::atomic<int> callbacks_run;
void on_gate(sigval) {
  ++callbacks_run;
  while (sem_wait(&gate) != 0) {
  }
  sem_post(&called);
}

// Each has a thread of its own, so that they may wait for one another.
void callbacks_wait_for_one_another() {
  constexpr int count = 200;
  CHECK(sem_init(&gate, 0, 0) == 0);
  CHECK(sem_init(&called, 0, 0) == 0);
  const int file = temporary(0, 64);
  char buffer[8];
  std::vector<aiocb> blocks(count);
  for (aiocb& each : blocks) {
    each = request(file, buffer, 8);
    each.aio_sigevent.sigev_notify = SIGEV_THREAD;
    each.aio_sigevent.sigev_notify_function = on_gate;
    CHECK(aio_read(&each) == 0);
  }
  for (aiocb& each : blocks) CHECK(finish(each) == 8);
  while (callbacks_run < count) ::usleep(1'000);
  for (int i = 0; i < count; ++i) sem_post(&gate);
  for (int i = 0; i < count; ++i) {
    while (sem_wait(&called) != 0) {
    }
  }
}

// -- faults of a naive library --------------------------------------------------------------------

void requests_outlive_their_thread() {
  Pipe pipe;
  char byte = 0;
  aiocb read = request(pipe.out(), &byte, 1);
  std::thread starter{[&] { CHECK(aio_read(&read) == 0); }};
  starter.join();
  CHECK(::write(pipe.in(), "t", 1) == 1);
  CHECK(finish(read) == 1);
  const int file = temporary(O_DIRECT, 1U << 20);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 1U << 20) == 0);
  for (int i = 0; i < 50; ++i) {
    aiocb block = request(file, memory, 1U << 20);
    std::thread other{[&] { CHECK(aio_read(&block) == 0); }};
    other.join();
    CHECK(finish(block) == 1 << 20);
  }
}

void stream_reads_complete_in_order() {
  Pipe pipe;
  constexpr int count = 50;
  char bytes[count] = {};
  std::vector<aiocb> reads;
  for (char& byte : bytes) reads.push_back(request(pipe.out(), &byte, 1));
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  for (int i = 0; i < count; ++i) {
    const char byte = static_cast<char>('0' + i);
    CHECK(::write(pipe.in(), &byte, 1) == 1);
  }
  for (int i = 0; i < count; ++i) {
    CHECK(finish(reads[static_cast<std::size_t>(i)]) == 1);
    CHECK(bytes[i] == '0' + i);
  }
}

void stream_writes_are_whole() {
  int pair[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  Pipe pipe;
  constexpr std::size_t size = 4U << 20;
  std::vector<char> data(size, 'w');
  const std::array<std::array<int, 2>, 2> ways{{{pair[0], pair[1]}, {pipe.in(), pipe.out()}}};
  for (const auto& [in, out] : ways) {
    aiocb write = request(in, data.data(), size);
    CHECK(aio_write(&write) == 0);
    std::vector<char> chunk(1U << 16);
    std::size_t sum = 0;
    while (sum < size) {
      const ssize_t got = ::read(out, chunk.data(), chunk.size());
      CHECK(got > 0);
      sum += static_cast<std::size_t>(got);
    }
    CHECK(finish(write) == static_cast<ssize_t>(size));
  }
}

void nonblocking_streams_answer_again() {
  Pipe pipe;
  CHECK(::fcntl(pipe.out(), F_SETFL, O_NONBLOCK) == 0);
  char byte = 0;
  aiocb read = request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(finish(read) == -1);
  CHECK(errno == EAGAIN);
  CHECK(::write(pipe.in(), "n", 1) == 1);
  CHECK(aio_read(&read) == 0);
  CHECK(finish(read) == 1);
}

void appends_keep_their_order() {
  for (const int flags : {0, O_DSYNC}) {
    const int file = temporary(O_APPEND | flags);
    const int count = flags == 0 ? 200 : 40;  // a disk may need a second for each that is synced
    std::vector<std::array<char, 4>> texts(static_cast<std::size_t>(count));
    std::vector<aiocb> writes;
    for (int i = 0; i < count; ++i) {
      auto& text = texts[static_cast<std::size_t>(i)];
      for (std::size_t digit = 0, rest = static_cast<std::size_t>(i); digit < 4; ++digit) {
        text[3 - digit] = static_cast<char>('0' + rest % 10);
        rest /= 10;
      }
      writes.push_back(request(file, text.data(), 4));
    }
    for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
    for (aiocb& each : writes) CHECK(finish(each) == 4);
    off_t at = 0;
    for (const auto& text : texts) {
      char buffer[4];
      CHECK(::pread(file, buffer, 4, at) == 4);
      at += 4;
      CHECK(std::memcmp(buffer, text.data(), 4) == 0);
    }
  }
}

std::atomic<int> handler_file;
std::atomic<bool> over;
void on_submit(int) {
  const int saved = errno;
  char byte = 0;
  aiocb block = request(handler_file, &byte, 1);
  if (aio_read(&block) == 0) {
    const aiocb* const list[] = {&block};
    while (aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, nullptr);
    aio_return(&block);
  }
  ++handler_runs;
  errno = saved;
}

// Handlers interrupt nothing but AIO: a thread that is interrupted in malloc, or while it starts a
// thread, holds locks that the awaited thread may need, and a handler that waits would wait for
// ever.
void handlers_and_threads_do_not_hang() {
  constexpr int threads_count = 4;
  handler_file = temporary(0, 64);
  handle(SIGALRM, on_submit, SA_RESTART);
  const int file = temporary(O_DIRECT, 64 * 4'096);
  std::latch ready{threads_count + 1};
  std::latch finished{threads_count + 1};
  std::latch leave{1};
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_count; ++t) {
    threads.emplace_back([&, file] {
      void* memory = nullptr;
      CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
      Pipe pipe;
      const auto read_both = [&](int i) {
        aiocb read = request(file, memory, 4'096, 4'096 * (i % 64));
        CHECK(aio_read(&read) == 0);
        char byte = 0;
        aiocb stream = request(pipe.out(), &byte, 1);
        CHECK(aio_read(&stream) == 0);
        CHECK(::write(pipe.in(), "s", 1) == 1);
        CHECK(finish(read) == 4'096);
        CHECK(finish(stream) == 1);
      };
      read_both(0);
      ready.arrive_and_wait();
      // They may be faster than the thread that sets the timer.
      for (int i = 0; i < 300 || handler_runs == 0; ++i) read_both(i);
      finished.arrive_and_wait();
      leave.wait();
      std::free(memory);
    });
  }
  ready.arrive_and_wait();
  itimerval often{{0, 500}, {0, 500}};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  finished.arrive_and_wait();
  often = {};
  CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  leave.count_down();
  for (std::thread& each : threads) each.join();
}

void suspended_threads_wake_each_other() {
  const int file = temporary(O_DIRECT, 64 * 4'096);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([file, t] {
      void* memory = nullptr;
      CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
      for (int i = 0; i < 400; ++i) {
        aiocb read = request(file, memory, 4'096, 4'096 * ((i + t) % 64));
        const aiocb* const list[] = {&read};
        CHECK(aio_read(&read) == 0);
        CHECK(aio_suspend(list, 1, nullptr) == 0 || errno == EINTR);
        CHECK(finish(read) == 4'096);
      }
      std::free(memory);
    });
  }
  for (std::thread& each : threads) each.join();
}

void exit_and_exec_with_requests_pending() {
  for (int way = 0; way < 3; ++way) {
    const pid_t child = ::fork();
    CHECK(child >= 0);
    if (child == 0) {
      Pipe pipe;
      static char byte;
      static aiocb read = request(pipe.out(), &byte, 1);
      CHECK(aio_read(&read) == 0);
      if (way == 0) ::_exit(0);
      if (way == 1) ::execl("/bin/true", "true", nullptr);
      std::exit(0);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

void record_locks_are_kept() {
  const int file = temporary(O_DIRECT, 4'096);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  CHECK(::fcntl(file, F_SETLK, &lock) == 0);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
  aiocb read = request(file, memory, 4'096);
  for (int i = 0; i < 10; ++i) {
    CHECK(aio_read(&read) == 0);
    CHECK(finish(read) == 4'096);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    CHECK(::fcntl(file, F_GETLK, &lock) == 0);
    ::_exit(lock.l_type == F_WRLCK ? 0 : 1);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

void sleeping_process_is_served() {
  handle(SIGUSR1, on_nothing);
  sigset_t usr;
  sigset_t before;
  sigemptyset(&usr);
  sigaddset(&usr, SIGUSR1);
  CHECK(::sigprocmask(SIG_BLOCK, &usr, &before) == 0);
  const int file = temporary(O_DIRECT, 4'096);
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
  aiocb read = request(file, memory, 4'096);
  read.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  read.aio_sigevent.sigev_signo = SIGUSR1;
  CHECK(aio_read(&read) == 0);
  CHECK(::sigsuspend(&before) == -1);
  CHECK(aio_error(&read) == 0);
  CHECK(aio_return(&read) == 4'096);
  // And one that waits for a child, which needs the bytes of the request.
  Pipe pipe;
  Pipe data;
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::_exit(::read(data.out(), &byte, 1) == 1 ? 0 : 1);
  }
  char text[] = "c";
  aiocb write = request(data.in(), text, 1);
  CHECK(aio_write(&write) == 0);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(finish(write) == 1);
}

// The order matters only when the engine has one request at a time; the first request takes that
// place.
void urgent_requests_go_first() {
  Pipe blocking;
  Pipe pipe;
  char byte = 0;
  char texts[] = {'c', 'a', 'b', 'd'};
  const int priorities[] = {10, 0, 5, 10};
  aiocb first = request(blocking.out(), &byte, 1);
  CHECK(aio_read(&first) == 0);
  std::vector<aiocb> writes;
  for (int i = 0; i < 4; ++i) {
    writes.push_back(request(pipe.in(), &texts[i], 1));
    writes.back().aio_reqprio = priorities[i];
  }
  for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
  CHECK(::write(blocking.in(), "x", 1) == 1);
  for (aiocb& each : writes) CHECK(finish(each) == 1);
  char got[4];
  CHECK(::read(pipe.out(), got, 4) == 4);
  CHECK(std::memcmp(got, "abcd", 4) == 0);
}

// -- lists ----------------------------------------------------------------------------------------

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

// -- errors ---------------------------------------------------------------------------------------

int error_of(int started, aiocb& block) {
  if (started != 0) return errno;
  return finish(block) == -1 ? errno : 0;
}

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

// -- the thesis's own tests (section 5.1): 1 is errors_of_*, 3 signal_carries_value_and_code,
//    4 lists_wait_or_tell ------------------------------------------------------------------------

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

// -- libuaio alone --------------------------------------------------------------------------------

#ifdef UAIO_NAMES
void own_results_are_fetched_once() {
  aiocb block{};
  CHECK(aio_error(&block) == -1);
  CHECK(errno == EINVAL);
  CHECK(aio_return(&block) == -1);
  CHECK(errno == EINVAL);
  Pipe pipe;
  char byte = 0;
  block = request(pipe.out(), &byte, 1);
  CHECK(aio_read(&block) == 0);
  CHECK(aio_return(&block) == -1);
  CHECK(errno == EINPROGRESS);
  CHECK(::write(pipe.in(), "o", 1) == 1);
  CHECK(finish(block) == 1);
  CHECK(aio_return(&block) == -1);
  CHECK(errno == EINVAL);
  CHECK(aio_error(&block) == -1);
  CHECK(errno == EINVAL);
}

void own_lists_have_a_limit() {
  std::vector<aiocb*> list(UAIO_LISTIO_MAX + 1);
  CHECK(lio_listio(LIO_WAIT, list.data(), UAIO_LISTIO_MAX + 1, nullptr) == -1);
  CHECK(errno == EINVAL);
}

void own_completions_come_in_order() {
  aiocb* which = nullptr;
  CHECK(uaio_waitcomplete(&which, nullptr) == -1);
  CHECK(errno == EINVAL);
  Pipe pipe;
  char bytes[3] = {};
  std::vector<aiocb> blocks;
  for (char& byte : bytes) blocks.push_back(request(pipe.out(), &byte, 1));
  for (aiocb& each : blocks) CHECK(aio_read(&each) == 0);
  const timespec time{0, 1'000'000};
  CHECK(uaio_waitcomplete(&which, &time) == -1);
  CHECK(errno == EAGAIN);
  CHECK(::write(pipe.in(), "ab", 2) == 2);
  CHECK(uaio_waitcomplete(&which, nullptr) == 1);
  CHECK(which == &blocks[0]);
  CHECK(uaio_waitcomplete(&which, nullptr) == 1);
  CHECK(which == &blocks[1]);
  CHECK(aio_cancel(pipe.out(), nullptr) == AIO_CANCELED);
  CHECK(uaio_waitcomplete(&which, nullptr) == -1);
  CHECK(errno == ECANCELED);
  CHECK(which == &blocks[2]);
  const int file = temporary(0, 64);
  aiocb read = request(file, bytes, 3);
  CHECK(aio_read(&read) == 0);
  CHECK(uaio_waitcomplete(&which, nullptr) == 3);
  CHECK(which == &read);
}

struct Owned {
  aiocb block;
  std::atomic<bool> running{true};
};

/// 10^7 in the long rounds (UAIO_HOST_LONG), otherwise enough to hit the race many times.
long rounds_of_threads() { return std::getenv("UAIO_HOST_LONG") != nullptr ? 10'000'000 : 100'000; }

// Eight threads take completions and start the same requests again: none is taken while it runs,
// and there is always a request in flight.
void own_completions_are_handed_out_once() {
  for (const int flags : {O_DIRECT, 0}) {
    const int file = temporary(flags, 256U << 10);
    std::vector<Owned> all(32);
    for (std::size_t i = 0; i < all.size(); ++i) {
      void* memory = nullptr;
      CHECK(::posix_memalign(&memory, 4'096, 4'096) == 0);
      all[i].block = request(file, memory, 4'096, static_cast<off_t>(i) * 4'096);
      CHECK(aio_read(&all[i].block) == 0);
    }
    // The call does not wait for a slow device.
    std::atomic<long> left{flags == 0 ? rounds_of_threads() : rounds_of_threads() / 50};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        while (--left > 0) {
          aiocb* which = nullptr;
          CHECK(uaio_waitcomplete(&which, nullptr) == 4'096);
          auto* const owned = reinterpret_cast<Owned*>(which);
          CHECK(owned->running.exchange(false));
          owned->running = true;
          CHECK(aio_read(which) == 0);
        }
      });
    }
    for (std::thread& each : threads) each.join();
    for (Owned& each : all) CHECK(finish(each.block) == 4'096);
  }
}

// A poll with a timeout of zero does not report an empty queue while requests are in flight.
void own_polls_are_not_refused() {
  Pipe pipe;
  char byte = 0;
  std::atomic<bool> go{false};
  const long count = rounds_of_threads() / 10;
  std::thread writer{[&] {
    for (long i = 0; i < count; ++i) {
      while (!go.exchange(false)) {
      }
      CHECK(::write(pipe.in(), "p", 1) == 1);
    }
  }};
  for (long i = 0; i < count; ++i) {
    aiocb read = request(pipe.out(), &byte, 1);
    CHECK(aio_read(&read) == 0);
    go = true;
    aiocb* which = nullptr;
    const timespec none{0, 0};
    ssize_t got = -1;
    while ((got = uaio_waitcomplete(&which, &none)) == -1) CHECK(errno == EAGAIN);
    CHECK(got == 1 && which == &read);
  }
  writer.join();
}

void own_vectors() {
  for (const int flags : {0, O_DSYNC}) {
    const int file = temporary(flags);
    char one[] = "one";
    char three[] = "three";
    iovec list[] = {{one, 3}, {three, 5}};
    aiocb write = request(file, list, 2);
    CHECK(uaio_writev(&write) == 0);
    CHECK(finish(write) == 8);
    char got[8];
    iovec back[] = {{got, 2}, {got + 2, 6}};
    aiocb read = request(file, back, 2);
    CHECK(uaio_readv(&read) == 0);
    CHECK(finish(read) == 8);
    CHECK(std::memcmp(got, "onethree", 8) == 0);
    read.aio_nbytes = 1'000'000;
    CHECK(uaio_readv(&read) == -1);
    CHECK(errno == EINVAL);
  }
  char text[512];
  const std::size_t size = uaio_statistics(text, sizeof(text));
  CHECK(size == std::strlen(text));
  CHECK(std::strstr(text, "at_once ") != nullptr);
}

// A caller that awaits a list does not carry out requests that it must leave to others.
void own_lists_leave_to_the_engine() {
  const int file = temporary();
  char text[] = "text";
  aiocb write = request(file, text, 4);
  write.aio_lio_opcode = LIO_WRITE;
  aiocb* const list[] = {&write};
  CHECK(lio_listio(LIO_WAIT, list, 1, nullptr) == 0);
  CHECK(aio_return(&write) == 4);
  char counted[512];
  uaio_statistics(counted, sizeof(counted));
  CHECK(std::strstr(counted, "at_once 0\nat_engine 1\n") != nullptr);
}
#endif

struct Case {
  const char* name;
  void (*run)();
  const char* system;  // "ok" or "fails": the system's known result; "any": it depends
  // Its requirements, and POSIX's assertions by the numbers that the Open POSIX Test Suite has
  // given them; tests/uaio/assertions.py adds them up.
  const char* covers;
  const char* options = nullptr;  // for ours, which reads them when it is loaded
};

#define CASE(name, system, covers) {#name, name, system, covers}
const Case cases[] = {
    CASE(reads_and_writes, "ok",
         "U-01 U-06 aio_read 1 3 4 5 7 aio_write 1 3 5 aio_error 1 aio_return 1"),
    CASE(direct_reads_and_writes, "ok", "U-01 U-09 aio_read 1 4 aio_write 1"),
    CASE(block_is_free_after_return, "ok", "U-01 aio_return 3"),
    CASE(signal_carries_value_and_code, "ok", "U-03"),
    CASE(callback_is_called, "ok", "U-03"),
    CASE(interrupted_list_leaves_no_pointers, "fails", "U-01 lio_listio 19"),
    CASE(huge_list_fits_the_stack, "fails", "U-01 U-10 lio_listio 4"),
    CASE(error_is_safe_in_handlers, "any", "U-01 aio_error 1 2"),
    CASE(cancel_of_the_first_leaves_the_others, "fails", "U-11 aio_cancel 1 4 5 6 aio_read 13"),
    CASE(cancel_tells_what_became_of_it, "any", "U-01 U-11 aio_cancel 2 3 4 5 7 8 aio_write 12"),
    CASE(child_of_fork_has_aio, "any", "U-10"),
    CASE(queued_write_keeps_its_file, "fails", "U-10"),
    CASE(sync_waits_for_lower_priorities, "any", "U-04 aio_fsync 1"),
    CASE(sync_waits_for_duplicates, "any", "U-04 aio_fsync 1"),
    CASE(sync_is_a_request_like_others, "any", "U-04 aio_fsync 1 2 3 4 5 7 8 9"),
    CASE(full_signal_queue_is_no_error, "fails", "U-03"),
    CASE(idle_streams_starve_nobody, "fails", "U-06 U-11"),
    CASE(write_passes_a_pending_read, "fails", "U-11"),
    CASE(socket_reads_can_be_cancelled, "fails", "U-11 aio_cancel 1 4 6 aio_read 13"),
    CASE(pipe_reads_can_be_cancelled, "fails", "U-11 aio_cancel 1 4 6 aio_read 13"),
    CASE(terminal_reads_can_be_cancelled, "fails", "U-11 aio_cancel 1 4 6 aio_read 13"),
    CASE(callbacks_wait_for_one_another, "ok", "U-03"),
    CASE(requests_outlive_their_thread, "ok", "U-07"),
    CASE(stream_reads_complete_in_order, "ok", "U-01"),
    CASE(stream_writes_are_whole, "ok", "U-01"),
    CASE(nonblocking_streams_answer_again, "ok", "U-01 aio_read 9"),
    CASE(appends_keep_their_order, "ok", "U-01 aio_write 2"),
    CASE(handlers_and_threads_do_not_hang, "any", "U-10 aio_suspend 1"),
    CASE(suspended_threads_wake_each_other, "ok", "U-07 aio_suspend 1 6"),
    CASE(exit_and_exec_with_requests_pending, "any", "U-05"),
    CASE(record_locks_are_kept, "ok", "U-10"),
    CASE(sleeping_process_is_served, "ok", "U-07"),
    {"urgent_requests_go_first", urgent_requests_go_first, "fails", "U-02 aio_read 2", "depth=1"},
    CASE(lists_wait_or_tell, "ok", "U-01 lio_listio 1 3 4 5 6 7 9 10 12"),
    CASE(lists_of_long_transfers, "ok", "U-01 lio_listio 1 4"),
    CASE(deep_writes_to_several_files, "ok", "U-01 U-04 aio_write 1 aio_fsync 1"),
    CASE(lists_of_neighbours, "ok", "U-01 lio_listio 1 4 7 8 9 12"),
#ifndef UAIO_NAMES
    CASE(oldest_list_tells_only_its_end, "any", "U-10"),
#endif
    CASE(lists_report_failures, "any", "U-01 lio_listio 5 13 14 15"),
    CASE(errors_of_requests, "any",
         "U-01 aio_read 8 10 11 12 14 aio_write 6 8 9 10 11 aio_fsync 10 12 14 aio_cancel 9 10 "
         "lio_listio 11 18 20"),
    CASE(errors_of_resources, "any",
         "U-01 aio_read 8 9 aio_write 7 aio_fsync 11 lio_listio 11 16 17 21"),
    CASE(limit_of_descriptors_changes, "any", "U-01 aio_read 8 9"),
    CASE(errors_of_size, "any", "U-01 aio_read 6 15 aio_write 4 13 lio_listio 15 23 25"),
    CASE(errors_of_waiting, "ok", "U-01 aio_suspend 1 2 3 4 5 7 9 10 aio_error 2"),
    CASE(broken_streams_are_errors, "any", "U-01 aio_fsync 6 13"),
    CASE(thesis_2_initialisation, "any", "U-02 U-05 U-08"),
    CASE(thesis_5_cancel_one_of_a_list, "any", "U-08 aio_cancel 1 4 5 6 lio_listio 2 22 24"),
    CASE(thesis_6_sync_after_a_list, "ok", "U-04 U-08 aio_fsync 1 3 9"),
    CASE(thesis_7_suspend, "ok", "U-08 aio_suspend 1 3 4 6 8 9"),
#ifdef UAIO_NAMES
    CASE(own_results_are_fetched_once, "any", "U-01 aio_error 3 aio_return 2 4"),
    CASE(own_lists_have_a_limit, "any", "U-01 lio_listio 18"),
    CASE(own_completions_come_in_order, "any", "U-02"),
    CASE(own_completions_are_handed_out_once, "any", "U-02"),
    CASE(own_polls_are_not_refused, "any", "U-02"),
    CASE(own_vectors, "any", "U-01"),
    {"own_lists_leave_to_the_engine", own_lists_leave_to_the_engine, "any", "U-01",
     "inline_write=0"},
#endif
};

/// In this process. Ends it when the case fails, or has not called the functions that it names.
void run_here(const Case& one) {
  one.run();
  std::istringstream words{one.covers};
  for (std::string word; words >> word;) {
    for (std::size_t i = 0; i < functions.size(); ++i) {
      if (word != functions[i] || (calls_made->load() & 1U << i) != 0) continue;
      std::printf("it says that it tests %s, and has not called it\n", functions[i]);
      std::fflush(stdout);
      ::_exit(1);
    }
  }
}

/// 0: ok. Otherwise the case's own line has the reason.
int run(const Case& one, unsigned seconds) {
  std::printf("%s ", one.name);
  std::fflush(stdout);
  begin_to_note_calls();
  const pid_t child = ::fork();
  if (child == 0) {
    // A group of its own, so that children of its go with it.
    ::setpgid(0, 0);
    if (one.options != nullptr) {
      ::setenv("UAIO", one.options, 1);
      ::execl("/proc/self/exe", "behaviour", "--here", one.name, nullptr);
      ::_exit(2);
    }
    run_here(one);
    ::_exit(0);
  }
  int status = 0;
  timespec pause{0, 5'000'000};
  for (unsigned waited = 0; ::waitpid(child, &status, WNOHANG) == 0; ++waited) {
    if (waited >= 200 * seconds) {
      if (::kill(-child, SIGKILL) != 0) ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      std::printf("hangs\n");
      return 1;
    }
    ::nanosleep(&pause, nullptr);
  }
  ::kill(-child, SIGKILL);  // processes of a failed case
  if (status == 0) {
    std::printf("ok\n");
  } else if (WIFSIGNALED(status)) {
    std::printf("crashes with signal %d\n", WTERMSIG(status));
  } else {
    std::fflush(stdout);
    if (WEXITSTATUS(status) != 1) std::printf("exits with %d\n", WEXITSTATUS(status));
  }
  return status == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const char* const limit = std::getenv("UAIO_TEST_SECONDS");
  const auto seconds = static_cast<unsigned>(limit != nullptr ? std::atoi(limit) : 100);
  int failures = 0;
  for (const Case& each : cases) {
    if (count == 3 && std::strcmp(arguments[1], "--here") == 0) {
      if (std::strcmp(arguments[2], each.name) != 0) continue;
      begin_to_note_calls();
      run_here(each);
      return 0;
    }
    bool wanted = count < 2;
    for (int i = 1; i < count; ++i) {
      if (std::strcmp(arguments[i], "--covers") == 0) {
        std::printf("%s %s\n", each.name, each.covers);
      }
      if (std::strcmp(arguments[i], "--list") == 0) {
        std::printf("%s %s\n", each.name, each.system);
      }
      wanted |= std::strcmp(arguments[i], each.name) == 0;
    }
    if (wanted) failures += run(each, seconds);
  }
  return failures == 0 ? 0 : 1;
}
