// LockStep: the peers of an echo server, in the server's own process and thread. Each session is
// one end of a socket pair; in each round every peer sends a block, the server echoes all of them,
// and the peers take their answers and send the next. The server says after each message that it
// has answered it, which is where the peers act. So every run does the same, instruction for
// instruction, and callgrind counts what a message costs a program; what the peers do is not
// counted.
//
// Used by the rivals and by the same scenario on Baton; it depends on none of them.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT static_cast<void>(0)
#define CALLGRIND_ZERO_STATS static_cast<void>(0)
#endif

namespace lock_step {

/// The value of `--name value`, or `otherwise`.
inline unsigned long number(int argc, char** argv, std::string_view name, unsigned long otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (name == argv[i]) return std::strtoul(argv[i + 1], nullptr, 10);
  }
  return otherwise;
}

class Peers {
 public:
  /// From --sessions, --block, --rounds and --datagrams; none when there is no --sessions.
  Peers(int argc, char** argv)
      : block_(number(argc, argv, "--block", 512)),
        rounds_left_(number(argc, argv, "--rounds", 100)),
        buffer_(block_, 'x') {
    const unsigned long sessions = number(argc, argv, "--sessions", 0);
    const int type = number(argc, argv, "--datagrams", 0) != 0 ? SOCK_DGRAM : SOCK_STREAM;
    for (unsigned long i = 0; i < sessions; ++i) {
      int ends[2];
      if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
      near_.push_back(ends[0]);
      far_.push_back(ends[1]);
    }
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  [[nodiscard]] bool present() const { return !near_.empty(); }
  [[nodiscard]] std::size_t block() const { return block_; }
  /// The server's ends, blocking; the server's own from now on.
  [[nodiscard]] const std::vector<int>& sessions() const { return far_; }

  /// The first round. REQUIRES: the server has its sessions, and is about to enter its loop.
  void begin() {
    send_all();
    CALLGRIND_TOGGLE_COLLECT;
  }
  /// A message was answered. The last answer of the last round ends the program: there is nothing
  /// left to count.
  void answered() {
    if (--left_ == 0) next_round();
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    std::perror(what);
    std::_Exit(1);
  }
  void send_all() {
    for (const int fd : near_) {
      if (::send(fd, buffer_.data(), block_, 0) != static_cast<ssize_t>(block_)) fail("send");
    }
    left_ = near_.size();
  }
  // Begins before the count: the first rounds include the set-up.
  __attribute__((noinline)) void next_round() {
    CALLGRIND_TOGGLE_COLLECT;
    for (const int fd : near_) {
      const ssize_t got = ::recv(fd, buffer_.data(), block_, MSG_WAITALL);
      if (got != static_cast<ssize_t>(block_)) fail("recv");
    }
    if (--rounds_left_ == 0) std::_Exit(0);
    send_all();
    CALLGRIND_TOGGLE_COLLECT;
  }

  const std::size_t block_;
  unsigned long rounds_left_;
  std::vector<char> buffer_;
  std::vector<int> near_;
  std::vector<int> far_;
  std::size_t left_ = 0;
};

}  // namespace lock_step
