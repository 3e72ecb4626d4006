// One line on the terminal that rewrites itself, for a person at it; nothing into a pipe or a
// log, and nothing for a run of less than two seconds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "../status_line.hpp"

namespace baton::tools {

class Progress {
 public:
  // Shows from now on, in a thread of its own, the time left and the rate at which `count` grows.
  // `count` is called by that thread.
  Progress(double seconds, std::string unit, std::function<std::uint64_t()> count);
  // Takes the line away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void show();
  void print(double elapsed_s);

  const double seconds_;
  const std::string unit_;
  const std::function<std::uint64_t()> count_;
  StatusLine line_;  // of the thread
  std::mutex mutex_;
  std::condition_variable ended_event_;
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace baton::tools
