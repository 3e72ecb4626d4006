// What the servers of this folder share, so that each is its library's part only: options, a
// listening port, the end by signal and the line of JSON at the end.
//
//   <server> [--port P] [--block B] [--threads T] [--delay-us D]
//   <server> --sessions N --block B --rounds R         in lock-step (bench/lock_step.hpp)
//
// The first prints `listening PORT` and serves until SIGTERM.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "lock_step.hpp"

namespace rival {

[[noreturn]] inline void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// As many descriptors as there may be: 10,000 sessions are one scenario.
inline void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// The signals that end a server, blocked in this thread and those it starts: one of them waits.
inline sigset_t block_ending_signals() {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  return ending;
}

/// A listening socket of 127.0.0.1; prints its port.
inline int listen_on(unsigned long port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("bind");
  if (::listen(fd, SOMAXCONN) != 0) die("listen");
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("listening %u\n", static_cast<unsigned>(ntohs(address.sin_port)));
  std::fflush(stdout);
  return fd;
}

/// A handler that takes long: asleep for so many microseconds.
inline void work(unsigned long delay_us) {
  if (delay_us != 0) ::usleep(static_cast<useconds_t>(delay_us));
}

inline void no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

inline void print_statistics(const char* server, unsigned long long messages) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  std::printf(
      "{\"server\": \"%s\", \"messages\": %llu, \"user_seconds\": %.6f, \"system_seconds\": %.6f, "
      "\"voluntary_switches\": %ld, \"involuntary_switches\": %ld}\n",
      server, messages, seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_nvcsw,
      usage.ru_nivcsw);
}

}  // namespace rival
