// An echo server in a child process, and a measured load on it. The server is that of `baton echo`,
// the load that of `baton load`. The server's CPU time is that of the child process, so it does not
// include the load.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "../load/pattern.hpp"
#include "baton/config.hpp"
#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::doctor {

struct EchoNumbers {
  double p50_us = 0;  // round trip
  double cpu_us = 0;  // of the server, for each message
  double messages_per_s = 0;
};

class EchoChild {
 public:
  // One thread in run(). The Failure says why the server does not listen.
  static Result<std::unique_ptr<EchoChild>, Failure> start(const ProcessorConfig& processor);
  ~EchoChild();
  EchoChild(const EchoChild&) = delete;
  EchoChild& operator=(const EchoChild&) = delete;

  Result<EchoNumbers, Failure> measure(std::size_t sessions, double seconds,
                                       const tools::Pattern& pattern) const;

 private:
  EchoChild(pid_t child, std::uint16_t port) : child_(child), port_(port) {}
  double cpu_s() const;
  // Waits until the server is idle: it has accepted, or closed, all connections.
  void settle() const;

  const pid_t child_;
  const std::uint16_t port_;
};

// During its life, this process and its children run on different cores, if there are two: the
// children, which serve, on all but the last, and this process, the load, on the last.
class ApartOnCores {
 public:
  ApartOnCores();
  ~ApartOnCores();
  ApartOnCores(const ApartOnCores&) = delete;
  ApartOnCores& operator=(const ApartOnCores&) = delete;

 private:
  struct Sets;
  std::unique_ptr<Sets> sets_;  // null: there is only one core
};

}  // namespace baton::doctor
