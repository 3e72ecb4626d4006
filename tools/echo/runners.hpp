// The threads that run handlers. All are started before the server has anything pending: without
// one of them a per_thread server could not end its pending operations.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace baton::tools {

class Runners {
 public:
  // The calling thread is one of `count`. Throws std::runtime_error, with advice, if they cannot be
  // started.
  explicit Runners(std::uint32_t count);
  ~Runners();
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;

  // Calls `part` in each of them. Returns when all have returned. `part` throws nothing.
  void run(const std::function<void()>& part);

 private:
  void wait_for_parts();
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  const std::function<void()>* part_ = nullptr;
  std::uint64_t round_ = 0;
  std::size_t running_ = 0;
  bool ended_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace baton::tools
