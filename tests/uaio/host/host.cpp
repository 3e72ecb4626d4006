#include "host.hpp"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <string_view>

namespace host {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

void fail(int line, const char* what) {
  std::printf("line %d: %s (errno %d)\n", line, what, errno);
  std::fflush(stdout);
  ::_exit(1);
}

void skip(const char* why) {
  std::printf("skipped: %s\n", why);
  std::fflush(stdout);
  ::_exit(77);
}

bool is_long() { return std::getenv("UAIO_HOST_LONG") != nullptr; }
int rounds() { return is_long() ? 300 : 40; }

timespec patience() {
  const char* const given = std::getenv("UAIO_TEST_SECONDS");
  return {given != nullptr ? std::atoi(given) : 60, 0};
}

void end_in_time() { ::alarm(static_cast<unsigned>(patience().tv_sec)); }

std::string folder() {
  const char* const given = std::getenv("UAIO_TEST_FOLDER");
  return given != nullptr ? given : "/tmp";
}

int temporary(int flags, std::size_t size) {
  std::string name = folder() + "/uaio-host-XXXXXX";
  const int first = ::mkstemp(name.data());
  CHECK(first >= 0);
  const std::vector<char> bytes(size, 'x');
  CHECK(::write(first, bytes.data(), size) == static_cast<ssize_t>(size));
  CHECK(::fdatasync(first) == 0);
  const int file = ::open(name.c_str(), O_RDWR | flags);
  CHECK(file >= 0);
  ::unlink(name.c_str());
  ::close(first);
  return file;
}

int install(std::span<sock_filter> filter, unsigned flags) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
}

void* aligned(std::size_t size) {
  void* memory = nullptr;
  CHECK(::posix_memalign(&memory, 4'096, size) == 0);
  std::memset(memory, 'm', size);
  return memory;
}

Pipe::Pipe() { CHECK(::pipe(ends) == 0); }

aiocb request(int fildes, void* data, std::size_t size, off_t offset) {
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

int in_child(const std::function<void()>& what) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    what();
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void until(const std::function<bool()>& what) {
  const timespec moment{0, 200'000};
  while (!what()) ::nanosleep(&moment, nullptr);
}

bool sleeps(pid_t thread) {
  char path[48];
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
  std::FILE* const file = std::fopen(path, "r");
  char line[128] = {};
  static_cast<void>(std::fgets(line, sizeof(line), file));
  std::fclose(file);
  return std::strstr(line, ") S ") != nullptr;
}

bool is_alone() {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  bool alone = false;
  char line[128];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::strncmp(line, "Threads:", 8) == 0) alone = std::atoi(line + 8) == 1;
  }
  std::fclose(file);
  return alone;
}

Load::Load() : file_(temporary(O_DIRECT, 16U << 20)) {
  for (aiocb& each : blocks_) each = request(file_, aligned(size), size);
  for (aiocb& each : blocks_) CHECK(aio_read(&each) == 0);
}

void Load::top_up() {
  for (aiocb& each : blocks_) {
    if (aio_error(&each) == EINPROGRESS) continue;
    CHECK(aio_return(&each) == static_cast<ssize_t>(size));
    each.aio_offset = static_cast<off_t>(++next_ % 256 * size);
    CHECK(aio_read(&each) == 0);
  }
}

void Load::finish_all() {
  for (aiocb& each : blocks_) CHECK(finish(each) == static_cast<ssize_t>(size));
}

mqd_t message_queue() {
  const std::string name = "/uaio-host-" + std::to_string(::getpid());
  mq_attr attributes{};
  attributes.mq_maxmsg = 1;
  attributes.mq_msgsize = 8;
  const mqd_t queue = ::mq_open(name.c_str(), O_RDWR | O_CREAT, 0600, &attributes);
  if (queue < 0) skip("no message queues here");
  ::mq_unlink(name.c_str());
  return queue;
}

}  // namespace host

int main(int count, char** arguments) {
  using namespace host;
  if (count == 2 && std::string_view{arguments[1]} == "--list") {
    for (const Case& each : cases()) std::printf("%s|%s\n", each.name, each.point);
    return 0;
  }
  for (const Case& each : cases()) {
    if (count != 2 || std::string_view{arguments[1]} != each.name) continue;
    each.run();
    std::puts("ok");
    std::fflush(stdout);
    ::_exit(0);
  }
  std::fprintf(stderr, "usage: %s --list | CASE\n", arguments[0]);
  return 2;
}
