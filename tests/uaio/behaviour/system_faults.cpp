// Cases in which the system's library is known to fail, and their neighbours.
#include <fcntl.h>
#include <pty.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "program.hpp"

namespace behaviour {

namespace {

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

}  // namespace

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

namespace {

aiocb* asked = nullptr;
std::atomic<int> handler_runs;
void on_ask(int) {
  const int saved = errno;
  aio_error(asked);
  ++handler_runs;
  errno = saved;
}

}  // namespace

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

namespace {

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

}  // namespace

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

namespace {

constexpr int idle_count = 1'000;

}  // namespace

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

namespace {

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

}  // namespace

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

namespace {

sem_t gate;
sem_t passed;
std::atomic<int> callbacks_run;
void on_gate(sigval) {
  ++callbacks_run;
  while (sem_wait(&gate) != 0) {
  }
  sem_post(&passed);
}

}  // namespace

// Each has a thread of its own, so that they may wait for one another.
void callbacks_wait_for_one_another() {
  constexpr int count = 200;
  CHECK(sem_init(&gate, 0, 0) == 0);
  CHECK(sem_init(&passed, 0, 0) == 0);
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
    while (sem_wait(&passed) != 0) {
    }
  }
}

}  // namespace behaviour
