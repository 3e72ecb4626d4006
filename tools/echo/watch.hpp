// Watch: `baton echo --watch` and `--metrics FILE`. A separate thread looks at the server once a
// second. So it also reports a server with stuck handlers, and does not disturb a measurement.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "../status_line.hpp"
#include "baton/statistics.hpp"

namespace baton::tools {

class EchoServer;

struct WatchOptions {
  // "never"; "auto": only on a terminal, where one line is rewritten; "always": also into a pipe or
  // a file, a line each second with its time.
  std::string lines = "never";
  std::string metrics;  // file in the text format of Prometheus, replaced in one step every second
  bool wanted() const { return lines != "never" || !metrics.empty(); }
};

class Watch {
 public:
  Watch(const EchoServer& server, const WatchOptions& options);
  ~Watch() { end(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Looks for the last time: removes the line and writes the current metrics.
  void end();

 private:
  struct Reading {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    Statistics statistics;
  };
  Reading read() const;
  void run();
  void look(double seconds);
  std::string line(const Reading& now, double seconds) const;
  void write_metrics(const Reading& now);

  const EchoServer& server_;
  const WatchOptions& options_;
  StatusLine line_;  // used by the thread only
  Reading last_;
  bool metrics_failed_ = false;  // the last write failed
  std::mutex mutex_;
  std::condition_variable ended_event_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace baton::tools
