#include "child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

namespace baton::doctor {
namespace {

double now_s() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

// The child ends with its parent. A filter that kills it is a result, so it leaves no core file.
void begin_child(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent ended before the line above
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

[[noreturn]] void live(int out, pid_t parent, const std::function<void(int)>& life) {
  begin_child(parent);
  int status = 0;
  try {
    life(out);
  } catch (const std::exception& error) {
    write_all(out, error.what());
    status = 1;
  }
  ::_exit(status);
}

Failure system_failure(const char* what, int error) {
  const std::error_code code{error, std::system_category()};
  return {code, fmt::format("{}: {}", what, code.message())};
}

// False: the time is up.
bool read_all(int fd, double until_s, std::string& text) {
  for (;;) {
    const double left = until_s - now_s();
    if (left <= 0) return false;
    pollfd one{fd, POLLIN, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min(left * 1000 + 1, 1e6)));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    char part[4096];
    const ssize_t count = ::read(fd, part, sizeof part);
    if (count > 0) text.append(part, static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return true;
  }
}

ChildEnd judged(int status, bool in_time, double seconds_max, std::string text) {
  ChildEnd end;
  if (!in_time) {
    end.trouble = fmt::format("did not answer in {:.0f} s", seconds_max);
  } else if (WIFSIGNALED(status)) {
    end.killed = true;
    end.signal_number = WTERMSIG(status);
    end.trouble =
        fmt::format("ended by signal {} ({})", end.signal_number, ::strsignal(end.signal_number));
  } else if (!text.empty() && text.back() == '\0') {
    text.pop_back();
    end.good = true;
  } else {
    end.trouble = text.empty() ? "ended without a result" : text;
  }
  end.text = std::move(text);
  return end;
}

}  // namespace

Result<Spawned, Failure> spawn(const std::function<void(int out)>& life) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return unexpected{system_failure("a pipe to a child process", errno)};
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    live(ends[1], parent, life);
  }
  const int error = errno;
  ::close(ends[1]);
  if (child > 0) return Spawned{child, ends[0]};
  ::close(ends[0]);
  return unexpected{system_failure("a child process", error)};
}

void end_child(pid_t child) noexcept {
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

ChildEnd run_in_child(const std::function<std::string()>& work, double seconds_max) {
  // A complete text ends with a NUL byte.
  const auto spawned = spawn([&](int out) { write_all(out, work() + '\0'); });
  if (!spawned) {
    ChildEnd end;
    end.trouble = spawned.error().reason;
    return end;
  }
  std::string text;
  const bool in_time = read_all(spawned->out, now_s() + seconds_max, text);
  ::close(spawned->out);
  if (!in_time) ::kill(spawned->child, SIGKILL);
  int status = 0;
  while (::waitpid(spawned->child, &status, 0) < 0 && errno == EINTR) {
  }
  return judged(status, in_time, seconds_max, std::move(text));
}

}  // namespace baton::doctor
