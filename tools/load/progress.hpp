// A line on the terminal that is rewritten. Nothing is written into a pipe or a log, nor in a run
// of less than two seconds.
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
  // Starts a thread that shows the remaining time and the rate at which `count` grows. The thread
  // calls `count`.
  Progress(double seconds, std::string unit, std::function<std::uint64_t()> count);
  // Removes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void show();
  void print(double elapsed_s);

  const double seconds_;
  const std::string unit_;
  const std::function<std::uint64_t()> count_;
  StatusLine line_;  // used by the thread only
  std::mutex mutex_;
  std::condition_variable ended_event_;
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace baton::tools
