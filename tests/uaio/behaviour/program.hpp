// What the cases share: the functions under test by the system's names, and the checks.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#ifdef UAIO_NAMES
#include "uaio.h"
#define TRIED(name) u##name
#define aio_init uaio_init
#else
#include <aio.h>
#define TRIED(name) name
#endif

namespace behaviour {

// Which functions have been called, in this process and its children: a case that says that it
// tests one has to call it.
constexpr std::array functions{"aio_read",   "aio_write",   "aio_fsync",  "aio_error",
                               "aio_return", "aio_suspend", "aio_cancel", "lio_listio"};
inline std::atomic<unsigned>* calls_made = nullptr;  // a bit for each; shared by processes

inline void note_call(const char* name) {
  for (std::size_t i = 0; i < functions.size(); ++i) {
    if (std::strcmp(functions[i], name) == 0) calls_made->fetch_or(1U << i);
  }
}

inline void begin_to_note_calls() {
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

[[noreturn]] inline void fail(int line, const char* what) {
  std::printf("line %d: %s (errno %d)\n", line, what, errno);
  std::fflush(stdout);
  ::_exit(1);
}
#define CHECK(condition)                          \
  do {                                            \
    if (!(condition)) fail(__LINE__, #condition); \
  } while (false)

inline std::string folder() {
  const char* const given = std::getenv("UAIO_TEST_FOLDER");
  return given != nullptr ? given : "/tmp";
}

/// A file without a name.
inline int temporary(int flags = 0, std::size_t size = 0) {
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

inline aiocb request(int fildes, void* data, std::size_t size, off_t offset = 0) {
  aiocb block{};
  block.aio_fildes = fildes;
  block.aio_buf = data;
  block.aio_nbytes = size;
  block.aio_offset = offset;
  block.aio_sigevent.sigev_notify = SIGEV_NONE;
  return block;
}

inline void wait_for(const aiocb& block) {
  const aiocb* const list[] = {&block};
  while (aio_error(&block) == EINPROGRESS) {
    CHECK(aio_suspend(list, 1, nullptr) == 0 || errno == EINTR);
  }
}

inline ssize_t finish(aiocb& block) {
  wait_for(block);
  const int error = aio_error(&block);
  const ssize_t result = aio_return(&block);
  errno = error;
  return result;
}

inline int threads_now() {
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

inline void on_nothing(int) {}

inline void handle(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  CHECK(::sigaction(signal, &action, nullptr) == 0);
}

// What a handler of handle_info has seen.
inline std::atomic<int> signal_code;
inline std::atomic<int> signal_value;
inline std::atomic<int> signals_seen;

inline void on_info(int, siginfo_t* info, void*) {
  signal_code = info->si_code;
  signal_value = info->si_value.sival_int;
  ++signals_seen;
}

inline void handle_info(int signal) {
  struct sigaction action{};
  action.sa_sigaction = on_info;
  action.sa_flags = SA_SIGINFO;
  CHECK(::sigaction(signal, &action, nullptr) == 0);
}

// The cases.
#define CASE(name, ...) void name();
#include "cases.inc"
#undef CASE

}  // namespace behaviour
