// The threads that run handlers. All are started before the server has anything pending: without
// one of them a server with a lane for each thread could not end what is pending.
#pragma once

#include <atomic>
#include <barrier>
#include <baton/baton.hpp>
#include <cstdint>
#include <thread>
#include <vector>

namespace httpd {

class Crew {
 public:
  /// The calling thread is one of `count`. Throws std::runtime_error, with advice, if the others
  /// cannot be started.
  Crew(baton::Proactor& proactor, std::uint32_t count);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Once: each of them drives the proactor until it stops, and ends. False: one has ended by an
  /// exception.
  bool run();

 private:
  void wait_and_drive();
  void drive();
  void end();
  void join();

  baton::Proactor& proactor_;
  std::barrier<> begin_;
  std::atomic<bool> good_{true};
  bool ended_ = false;  // written before `begin_`
  std::vector<std::thread> others_;
};

}  // namespace httpd
