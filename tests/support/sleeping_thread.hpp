// A thread whose sleep can be waited for. Tests that need another thread inside a wait ask the
// kernel instead of guessing a time.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace baton::test {

class WatchedThread {
 public:
  explicit WatchedThread(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          number_.store(static_cast<int>(::syscall(SYS_gettid)));
          body();
          done_.store(true);
        }) {}
  ~WatchedThread() { join(); }
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  void join() {
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] int number() const {
    while (number_.load() == 0) ::sched_yield();
    return number_.load();
  }

  /// Returns when the thread sleeps in the kernel, or is done. `in_wait`: it has entered the wait;
  /// it may sleep elsewhere before, on a lock for instance.
  void until_asleep(const std::function<bool()>& in_wait) const {
    while (!done_.load() && !(in_wait() && asleep())) ::sched_yield();
  }

 private:
  [[nodiscard]] bool asleep() const {
    std::ifstream file("/proc/self/task/" + std::to_string(number()) + "/stat");
    std::string line;
    std::getline(file, line);
    const auto name_end = line.rfind(')');
    return name_end != std::string::npos && line.size() > name_end + 2 && line[name_end + 2] == 'S';
  }

  std::atomic<int> number_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;  // last: it uses the others
};

}  // namespace baton::test
