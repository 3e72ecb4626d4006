// An echo server in a process of its own, and a measured load on it. The server is that of `baton
// echo`, the load that of `baton load`; its CPU time is read from the system's clock of the child
// process, so that nothing of the load is in it.
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
  double cpu_us = 0;  // of the server, a message
  double messages_per_s = 0;
};

class EchoChild {
 public:
  // One thread in run(). The Failure says why it did not come to listen.
  static Result<std::unique_ptr<EchoChild>, Failure> start(const ProcessorConfig& processor);
  ~EchoChild();
  EchoChild(const EchoChild&) = delete;
  EchoChild& operator=(const EchoChild&) = delete;

  Result<EchoNumbers, Failure> measure(std::size_t sessions, double seconds,
                                       const tools::Pattern& pattern) const;

 private:
  EchoChild(pid_t child, std::uint16_t port) : child_(child), port_(port) {}
  double cpu_s() const;
  // Waits until the server has nothing more to do: it has accepted, or closed, all connections.
  void settle() const;

  const pid_t child_;
  const std::uint16_t port_;
};

// While it lives, this process and its children run on cores of their own, where there are two:
// children, which serve, on all but the last, and this one, which loads, on the last.
class ApartOnCores {
 public:
  ApartOnCores();
  ~ApartOnCores();
  ApartOnCores(const ApartOnCores&) = delete;
  ApartOnCores& operator=(const ApartOnCores&) = delete;

 private:
  struct Sets;
  std::unique_ptr<Sets> sets_;  // null: there is one core only
};

}  // namespace baton::doctor
