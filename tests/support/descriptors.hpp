// Descriptors that close themselves, and pairs of connected ones.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

namespace baton::test {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { close(); }

  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

/// Two connected stream sockets, non-blocking.
struct SocketPair {
  Fd ours;
  Fd peer;

  SocketPair() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
      ADD_FAILURE() << "socketpair: errno " << errno;
      return;
    }
    ours = Fd(fds[0]);
    peer = Fd(fds[1]);
  }
  void make_readable() const { EXPECT_EQ(::write(peer.get(), "x", 1), 1); }
  /// Reads all available bytes; returns their number.
  [[nodiscard]] ssize_t drain() const {
    char buffer[256];
    ssize_t total = 0;
    for (ssize_t got = 0; (got = ::read(ours.get(), buffer, sizeof buffer)) > 0;) total += got;
    return total;
  }
  void fill() const {
    const char block[4096] = {};
    while (::write(ours.get(), block, sizeof block) > 0) {
    }
  }
};

/// The descriptors of this process that a program gets which it starts.
inline std::set<int> inherited_descriptors() {
  std::set<int> numbers;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) numbers.insert(fd);
  }
  return numbers;
}

/// Raises the soft limit of descriptors to `count` and some, if the hard limit allows it.
inline bool allow_descriptors(rlim_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t wanted = count + 256;
  if (limit.rlim_cur >= wanted) return true;
  limit.rlim_cur = wanted;
  return wanted <= limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace baton::test
