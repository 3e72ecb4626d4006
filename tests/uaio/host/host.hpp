// Shared by the cases of the host suite. A case is a small program that uses asynchronous I/O and
// then checks that nothing else in it behaves differently: a system call, a lock, a descriptor, a
// signal, a thread. tests/uaio/host.py runs each in a process of its own, on the system's
// library and on ours.
#pragma once

#include <aio.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <mqueue.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace host {

struct Case {
  const char* name;
  const char* point;  // the guarded behaviour, for the table
  void (*run)();
};
std::vector<Case>& cases();

struct Registered {
  Registered(const char* name, const char* point, void (*run)()) {
    cases().push_back({name, point, run});
  }
};

#define HOST_CASE(name, point)                                         \
  static void name();                                                  \
  static const host::Registered name##_registered{#name, point, name}; \
  static void name()

[[noreturn]] void fail(int line, const char* what);
/// This system cannot show it, and why.
[[noreturn]] void skip(const char* why);
/// Open, without a name, with room for one message of 8 bytes. Skips where there are none.
mqd_t message_queue();

#define CHECK(condition)                                \
  do {                                                  \
    if (!(condition)) host::fail(__LINE__, #condition); \
  } while (false)

/// Number of tries: 300 in the long rounds, otherwise 40.
int rounds();
bool is_long();  ///< UAIO_HOST_LONG is set

/// The time limit for events that must come: UAIO_TEST_SECONDS, or a minute.
timespec patience();
/// A signal ends the case after that time, for calls that would wait for ever.
void end_in_time();

/// A file without a name, of so many bytes, on a file system with O_DIRECT.
int temporary(int flags = 0, std::size_t size = 0);
std::string folder();
/// Memory for direct transfers; never freed.
void* aligned(std::size_t size = 4'096);

struct Pipe {
  Pipe();
  int ends[2];
  [[nodiscard]] int out() const { return ends[0]; }
  [[nodiscard]] int in() const { return ends[1]; }
};

aiocb request(int fildes, void* data, std::size_t size, off_t offset = 0);
void wait_for(const aiocb& block);
/// Waits and fetches; errno is the request's error.
ssize_t finish(aiocb& block);

/// Runs it in a child; its exit status, or 128 + the signal that ended it.
int in_child(const std::function<void()>& what);
/// Waits until it is true.
void until(const std::function<bool()>& what);
/// From here on the filter judges the system calls of this thread, or of all (`flags`). 0 or -1.
int install(std::span<sock_filter> filter, unsigned flags = 0);
/// This thread of the process waits in the kernel.
bool sleeps(pid_t thread);
/// This process has no thread besides the calling one.
bool is_alone();

/// Direct reads that are always in flight.
class Load {
 public:
  Load();
  /// Those that are complete are started again.
  void top_up();
  void finish_all();

 private:
  static constexpr std::size_t depth = 16;
  static constexpr std::size_t size = 64U << 10;
  int file_;
  aiocb blocks_[depth];
  unsigned next_ = 0;
};

}  // namespace host
