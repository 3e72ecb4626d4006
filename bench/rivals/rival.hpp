// Shared by the servers of this folder, so that each is its library's part only: options, a
// listening port, the end by signal and the line of JSON at the end.
//
//   <server> [--port P] [--block B] [--threads T] [--delay-us D] [--random-us R] [--slow-us S]
//   <server> --sessions N --block B --rounds R         in lock-step (bench/lock_step.hpp)
//
// Handlers are kept busy by those that can (tools/bench/handler_work.hpp).
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

#include "handler_work.hpp"
#include "lock_step.hpp"
#include "write_out.hpp"

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

/// A socket of 127.0.0.1 where `port` says.
inline int bound_socket(int type, unsigned long port) {
  const int fd = ::socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("bind");
  return fd;
}

inline void print_port(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("listening %u\n", static_cast<unsigned>(ntohs(address.sin_port)));
  baton::bench::write_out();
}

/// A listening socket; prints its port.
inline int listen_on(unsigned long port) {
  const int fd = bound_socket(SOCK_STREAM, port);
  if (::listen(fd, SOMAXCONN) != 0) die("listen");
  print_port(fd);
  return fd;
}

/// A socket for datagrams, with room for those that come while the server is at work; prints its
/// port.
inline int datagrams_on(unsigned long port) {
  const int fd = bound_socket(SOCK_DGRAM, port);
  const int bytes = 1 << 20;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  print_port(fd);
  return fd;
}

inline handler_work::Options work_of(int argc, char** argv) {
  const auto us = [&](const char* name) {
    return static_cast<std::uint32_t>(lock_step::number(argc, argv, name, 0));
  };
  return {us("--delay-us"), us("--random-us"), us("--slow-us")};
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
  baton::bench::write_out();
}

}  // namespace rival
