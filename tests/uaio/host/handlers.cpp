// Signal handlers that use asynchronous I/O and interrupt it at any point.
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>

#include "host.hpp"

using host::Pipe;

namespace {

struct Everything {
  int direct = host::temporary(O_DIRECT, 64U << 10);
  int cached = host::temporary(0, 64U << 10);
  void* memory = host::aligned();
  Pipe pipe;
  char byte = 0;

  /// Each of the calls, with a short wait: the interrupted code may block it.
  void run() {
    const timespec while_it_may_last{0, 5'000'000};
    aiocb blocks[] = {host::request(direct, memory, 4'096), host::request(cached, memory, 64),
                      host::request(pipe.out(), &byte, 1), host::request(cached, nullptr, 0)};
    blocks[0].aio_lio_opcode = blocks[1].aio_lio_opcode = LIO_READ;
    aiocb* const list[] = {&blocks[0], &blocks[1]};
    CHECK(lio_listio(LIO_NOWAIT, list, 2, nullptr) == 0);
    CHECK(aio_read(&blocks[2]) == 0 && aio_fsync(O_DSYNC, &blocks[3]) == 0);
    const aiocb* const waited[] = {&blocks[2]};
    CHECK(aio_suspend(waited, 1, &while_it_may_last) == -1);
    CHECK(aio_cancel(pipe.out(), &blocks[2]) != -1);
    CHECK(::write(pipe.in(), "h", 1) == 1);
    for (aiocb& each : blocks) {
      host::wait_for(each);
      CHECK(aio_error(&each) == 0 || aio_error(&each) == ECANCELED);
      aio_return(&each);
    }
    char rest = 0;
    aiocb drain = host::request(pipe.out(), &rest, 1);
    if (byte == 0) CHECK(aio_read(&drain) == 0 && host::finish(drain) == 1);
    byte = 0;
  }
};

}  // namespace

HOST_CASE(handlers_make_every_call, "signals") {
  static Everything of_handlers;
  static Everything of_the_program;
  static std::atomic<int> handled{0};
  struct sigaction action{};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) {
    const int saved = errno;
    of_handlers.run();
    ++handled;
    errno = saved;
  };
  CHECK(::sigaction(SIGALRM, &action, nullptr) == 0);
  of_handlers.run();
  of_the_program.run();
  for (int i = 0; i < host::rounds(); ++i) {
    const itimerval soon{{0, 0}, {0, 30 + i * 37 % 900}};
    CHECK(::setitimer(ITIMER_REAL, &soon, nullptr) == 0);
    do {
      of_the_program.run();
    } while (handled == i);
  }
}

// -- between any two instructions -----------------------------------------------------------------

namespace {

#ifdef __x86_64__

/// From now on, or no longer, a trap (SIGTRAP) comes after each instruction of this thread. None
/// comes within a handler, which the kernel enters without it.
[[gnu::noinline]] void step(bool by_instructions) {
  constexpr unsigned long trap_flag = 1UL << 8;
  const unsigned long flags = __builtin_ia32_readeflags_u64();
  __builtin_ia32_writeeflags_u64(by_instructions ? flags | trap_flag : flags & ~trap_flag);
}

#else

void step(bool) { host::skip("no processor here that traps after each instruction for a program"); }

#endif

std::atomic<bool> steps{false};

}  // namespace

// In place of libc's, for the library too: a trap that is blocked would end the process.
extern "C" [[gnu::visibility("default")]] int pthread_sigmask(int how, const sigset_t* set,
                                                              sigset_t* before) noexcept {
  const bool stepping = steps;
  if (stepping) step(false);
  const int error = ::sigprocmask(how, set, before) == 0 ? 0 : errno;
  if (!stepping) return error;
  sigset_t now;
  ::sigprocmask(SIG_BLOCK, nullptr, &now);
  if (sigismember(&now, SIGTRAP) == 0) step(true);
  return error;
}

// The interrupted code continues only after it: neither its sync nor its read may need that. Not at
// each instruction of one run: loops without a lock would never end.
HOST_CASE(handlers_wait_between_all_instructions, "signals") {
  static const int direct = host::temporary(O_DIRECT, 64U << 10);
  static const int cached = host::temporary(0, 64U << 10);
  static void* const memory = host::aligned();
  constexpr int distance = 101;
  static int until_next = 0;
  static int handled = 0;
  struct sigaction action{};
  action.sa_handler = [](int) {
    if (until_next-- > 0) return;
    until_next = distance;
    const int saved = errno;
    const timespec time = host::patience();
    aiocb sync = host::request(cached, nullptr, 0);
    aiocb read = host::request(direct, memory, 4'096);
    CHECK(aio_fsync(O_DSYNC, &sync) == 0 && aio_read(&read) == 0);
    for (aiocb* const each : {&sync, &read}) {
      const aiocb* const list[] = {each};
      CHECK(aio_suspend(list, 1, &time) == 0 && aio_return(each) != -1);
    }
    ++handled;
    errno = saved;
  };
  CHECK(::sigaction(SIGTRAP, &action, nullptr) == 0);
  aiocb blocks[] = {host::request(direct, host::aligned(), 4'096),
                    host::request(direct, host::aligned(), 4'096)};
  for (aiocb& each : blocks) each.aio_lio_opcode = LIO_READ;
  aiocb* const list[] = {&blocks[0], &blocks[1]};
  Pipe pipe;
  char byte = 0;
  aiocb stream = host::request(pipe.out(), &byte, 1);
  aiocb sync = host::request(direct, nullptr, 0);
  const int stride = host::is_long() ? 3 : 10;
  for (int first = 0; first < distance; first += stride) {
    until_next = first;
    steps = true;
    step(true);
    CHECK(aio_read(&blocks[0]) == 0 && host::finish(blocks[0]) == 4'096);
    CHECK(lio_listio(LIO_WAIT, list, 2, nullptr) == 0);
    CHECK(aio_read(&stream) == 0 && aio_cancel(pipe.out(), &stream) == AIO_CANCELED);
    CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
    step(false);
    steps = false;
    CHECK(aio_return(&stream) == -1);
    CHECK(aio_return(&blocks[0]) == 4'096 && aio_return(&blocks[1]) == 4'096);
  }
  // The first thread that looks takes a waiting completion, so the first handler of a round may
  // find it taken and its result not stored.
  const timespec moment{0, 1'000'000};
  for (int first = 0; first < 600; first += stride) {
    CHECK(aio_read(&blocks[0]) == 0);
    ::nanosleep(&moment, nullptr);
    until_next = first;
    steps = true;
    step(true);
    CHECK(host::finish(blocks[0]) == 4'096);
    step(false);
    steps = false;
  }
  CHECK(handled > 100);
}

namespace {

/// What runs in the midst of the next call of mmap for a page that is only read.
void (*within_mmap)() = nullptr;

}  // namespace

#ifndef HOST_SANITIZED  // a sanitizer has a wrapper of its own
// In place of libc's, for the library too.
extern "C" [[gnu::visibility("default")]] void* mmap(void* address, std::size_t size,
                                                     int protection, int flags, int file,
                                                     off_t offset) noexcept {
  void (*const call)() = protection == PROT_READ ? std::exchange(within_mmap, nullptr) : nullptr;
  if (call != nullptr) call();
  return reinterpret_cast<void*>(
      ::syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
#endif

// The first request opens what all others use.
HOST_CASE(handler_interrupts_the_first_direct_read, "signals") {
  static const int file = host::temporary(O_DIRECT, 8'192);
  static void* const memory = host::aligned();
  ::signal(SIGUSR1, [](int) {
    aiocb read = host::request(file, memory, 4'096);
    CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  });
  aiocb read = host::request(file, host::aligned(), 4'096);
  within_mmap = [] { ::raise(SIGUSR1); };
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
}

namespace {

sigjmp_buf out_of_the_wait;
aiocb* waited_for;
int alarms_to_come;

/// Calls what waits, and leaves it by siglongjmp from a handler: once the request is started, which
/// takes long on a busy machine. A request that is pending may still be on its way to the keeper,
/// and a jump would lose it there; a few alarms later it waits.
void leave_by_a_jump(void (*wait)(aiocb&), aiocb& block) {
  waited_for = &block;
  alarms_to_come = 3;
  if (sigsetjmp(out_of_the_wait, 1) == 0) {
    const itimerval soon{{0, 2'000}, {0, 2'000}};
    CHECK(::setitimer(ITIMER_REAL, &soon, nullptr) == 0);
    wait(block);
  }
  const itimerval never{};
  CHECK(::setitimer(ITIMER_REAL, &never, nullptr) == 0);
}

}  // namespace

// The waits are left without their return. The request stays, and all goes on as before.
HOST_CASE(handlers_leave_waits_by_a_jump, "signals") {
  ::signal(SIGALRM, [](int) {
    if (aio_error(waited_for) == EINPROGRESS && --alarms_to_come == 0) {
      siglongjmp(out_of_the_wait, 1);
    }
  });
  Pipe pipe;
  const int direct = host::temporary(O_DIRECT, 4'096);
  void* const memory = host::aligned();
  char byte = 0;
  for (int i = 0; i < host::rounds(); ++i) {
    aiocb read = host::request(pipe.out(), &byte, 1);
    if (i % 2 == 0) {
      CHECK(aio_read(&read) == 0);
      const auto suspend = [](aiocb& block) {
        const aiocb* const list[] = {&block};
        aio_suspend(list, 1, nullptr);
      };
      leave_by_a_jump(suspend, read);
    } else {
      read.aio_lio_opcode = LIO_READ;
      const auto listio = [](aiocb& block) {
        aiocb* const list[] = {&block};
        lio_listio(LIO_WAIT, list, 1, nullptr);
      };
      leave_by_a_jump(listio, read);
    }
    CHECK(aio_error(&read) == EINPROGRESS);
    aiocb other = host::request(direct, memory, 4'096);
    CHECK(aio_read(&other) == 0 && host::finish(other) == 4'096);
    CHECK(::write(pipe.in(), "j", 1) == 1 && host::finish(read) == 1);
  }
}
namespace {

void (*of_the_library)(int);
std::atomic<bool> allocates{false};

/// From now on the timer's handler is watched. Only mode=single has it, from its first request on.
void watch_the_timer() {
  const int timer = SIGRTMAX - 2;
  struct sigaction action{};
  CHECK(::sigaction(timer, nullptr, &action) == 0);
  of_the_library = action.sa_handler;
  action.sa_handler = [](int number) {
    const std::size_t before = ::mallinfo2().uordblks;
    of_the_library(number);
    if (::mallinfo2().uordblks != before) allocates = true;
  };
  if (of_the_library != SIG_DFL) CHECK(::sigaction(timer, &action, nullptr) == 0);
}

/// Blocks SIGRTMIN, which ends the waits below: nothing but the handler collects meanwhile.
sigset_t block_the_told() {
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &told, nullptr);
  host::end_in_time();
  return told;
}

void tell(aiocb& block) {
  block.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  block.aio_sigevent.sigev_signo = SIGRTMIN;
}

}  // namespace

// It may have interrupted malloc.
HOST_CASE(handler_of_the_timer_allocates_nothing, "signals") {
  Pipe pipe;
  char byte = 0;
  aiocb first = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&first) == 0);
  watch_the_timer();
  // The handler starts the sync, behind the reads.
  constexpr std::size_t size = 2U << 20;
  constexpr std::size_t count = 8;
  const int file = host::temporary(O_DIRECT, count * size);
  const sigset_t told = block_the_told();
  std::vector<aiocb> reads;
  for (std::size_t i = 0; i < count; ++i) {
    reads.push_back(host::request(file, host::aligned(size), size, static_cast<off_t>(i * size)));
  }
  aiocb sync = host::request(file, nullptr, 0);
  tell(sync);
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0);
  while (::sigwaitinfo(&told, nullptr) != SIGRTMIN) CHECK(errno == EINTR);
  CHECK(host::finish(sync) == 0);
  for (aiocb& each : reads) CHECK(host::finish(each) == static_cast<ssize_t>(size));
  CHECK(!allocates);
  CHECK(::write(pipe.in(), "t", 1) == 1 && host::finish(first) == 1);
}
// A thread begins with the name of the one that creates it. Nothing but the handler collects.
HOST_CASE(handler_of_the_timer_creates_no_thread, "callbacks") {
  static std::atomic<int> called{0};
  static std::array<char, 16> name;
  const auto note_name = [](sigval) {
    CHECK(pthread_getname_np(pthread_self(), name.data(), name.size()) == 0);
    ++called;
  };
  host::end_in_time();
  Pipe pipe;
  char byte = 0;
  for (int i = 0; i < host::rounds(); ++i) {
    aiocb read = host::request(pipe.out(), &byte, 1);
    read.aio_sigevent.sigev_notify = SIGEV_THREAD;
    read.aio_sigevent.sigev_notify_function = note_name;
    CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "c", 1) == 1);
    host::until([i] { return called == i + 1; });
    if (i == 0) watch_the_timer();
    if (of_the_library != SIG_DFL) CHECK(std::strcmp(name.data(), "uaio-notifier") == 0);
    CHECK(host::finish(read) == 1);
  }
}
// With depth=1 the read is at the engine, and the appends wait for the handler. An engine has a
// block of records for the files that it meets, and needs a second one for those of the appends.
HOST_CASE(handler_of_the_timer_starts_what_waits, "signals") {
  constexpr std::size_t size = 64U << 20;
  Pipe pipe;
  char byte = 0;
  aiocb first = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&first) == 0);
  watch_the_timer();
  const sigset_t told = block_the_told();
  aiocb read = host::request(host::temporary(O_DIRECT, size), host::aligned(size), size);
  std::vector<aiocb> waiting;
  std::vector<Pipe> others(80);
  std::vector<char> got(others.size());
  for (std::size_t i = 0; i < others.size(); ++i) {
    CHECK(::write(others[i].in(), "w", 1) == 1);
    waiting.push_back(host::request(others[i].out(), &got[i], 1));
    waiting[i].aio_lio_opcode = LIO_READ;
  }
  std::array<int, 70> files;
  for (int& each : files) each = host::temporary(O_APPEND);
  char digits[] = {'0', '1'};
  for (char& each : digits) {
    for (const int file : files) {
      waiting.push_back(host::request(file, &each, 1));
      waiting.back().aio_lio_opcode = LIO_WRITE;
    }
  }
  std::vector<aiocb*> list;
  for (aiocb& each : waiting) {
    tell(each);
    list.push_back(&each);
  }
  // In one call, so that none of its own collects what is complete.
  read.aio_lio_opcode = LIO_READ;
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(others.size()), &read);
  CHECK(lio_listio(LIO_NOWAIT, list.data(), static_cast<int>(list.size()), nullptr) == 0);
  for (std::size_t i = 0; i < waiting.size();) {
    if (::sigwaitinfo(&told, nullptr) == SIGRTMIN) ++i;
  }
  for (aiocb& each : waiting) CHECK(host::finish(each) == 1);
  CHECK(host::finish(read) == static_cast<ssize_t>(size));
  CHECK(::write(pipe.in(), "t", 1) == 1 && host::finish(first) == 1);
  for (const int file : files) {
    char back[3] = {};
    CHECK(::pread(file, back, 2, 0) == 2 && std::strcmp(back, "01") == 0);
  }
  CHECK(!allocates);
}

// The thread sleeps in aio_suspend before its request completes.
HOST_CASE(handler_has_run_when_a_wait_is_over, "signals") {
  static std::atomic<int> handled{0};
  struct sigaction action{};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) { ++handled; };
  CHECK(::sigaction(SIGRTMIN + 3, &action, nullptr) == 0);
  const pid_t me = ::gettid();
  for (int i = 0; i < host::rounds(); ++i) {
    Pipe pipe;
    char byte = 0;
    aiocb read = host::request(pipe.out(), &byte, 1);
    read.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    read.aio_sigevent.sigev_signo = SIGRTMIN + 3;
    CHECK(aio_read(&read) == 0);
    std::atomic<bool> waits{false};
    std::thread writer{[&] {
      sigset_t all;
      sigfillset(&all);
      CHECK(pthread_sigmask(SIG_BLOCK, &all, nullptr) == 0);
      host::until([&] { return waits && host::sleeps(me); });
      CHECK(::write(pipe.in(), "w", 1) == 1);
    }};
    const aiocb* const list[] = {&read};
    waits = true;
    while (aio_suspend(list, 1, nullptr) != 0) CHECK(errno == EINTR);
    CHECK(handled == i + 1);
    writer.join();
    CHECK(aio_error(&read) == 0 && aio_return(&read) == 1);
    ::close(pipe.in());
    ::close(pipe.out());
  }
}
