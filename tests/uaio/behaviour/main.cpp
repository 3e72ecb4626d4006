// The duties of a POSIX AIO library, as a program that uses the system's names. Run alone it tests
// the system's library, with libuaio-preload.so it tests ours. Compiled with UAIO_NAMES it tests
// libuaio. Each case runs in a process of its own, which may crash or hang. compare.py runs the
// program both ways and prints both columns.
//
//   behaviour            all cases: "name ok|failed|hangs|crashes reason"
//   behaviour NAME...    only these
//   behaviour --list     the names, and whether the system's library is known to fail
//   behaviour --covers   the names, and the requirements and assertions of POSIX they test
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "program.hpp"

namespace behaviour {

namespace {

struct Case {
  const char* name;
  void (*run)();
  const char* system;
  const char* covers;
  const char* options = nullptr;
};

#define CASE(name, ...) {#name, name, __VA_ARGS__},
const Case cases[] = {
#include "cases.inc"
};
#undef CASE

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

}  // namespace behaviour

int main(int count, char** arguments) {
  const char* const limit = std::getenv("UAIO_TEST_SECONDS");
  const auto seconds = static_cast<unsigned>(limit != nullptr ? std::atoi(limit) : 100);
  int failures = 0;
  for (const auto& each : behaviour::cases) {
    if (count == 3 && std::strcmp(arguments[1], "--here") == 0) {
      if (std::strcmp(arguments[2], each.name) != 0) continue;
      behaviour::begin_to_note_calls();
      behaviour::run_here(each);
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
    if (wanted) failures += behaviour::run(each, seconds);
  }
  return failures == 0 ? 0 : 1;
}