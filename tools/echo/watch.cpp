#include "watch.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <new>

#include "../numbers.hpp"
#include "../output.hpp"
#include "../printable.hpp"
#include "../replaced_file.hpp"
#include "baton/log.hpp"
#include "server.hpp"

namespace baton::tools {
namespace {

constexpr auto interval = std::chrono::seconds(1);

std::uint64_t per_second(std::uint64_t now, std::uint64_t before, double seconds) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(now - before) / seconds));
}

std::string time_stamp() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return iso_8601(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

// "read_stream 12.3 s", or "-": the session's operation that has waited longest for its peer. The
// server's own wait for signals is a read that is always pending and is left out. So the query asks
// for two operations.
std::string oldest(const Proactor& proactor) {
  PendingQuery query;
  query.kinds = stream_operations;
  query.shown = 2;
  for (const PendingOperation& one : proactor.pending(query).operations) {
    if (one.tag == EchoServer::signal_tag) continue;
    return fmt::format("{} {:.1f} s", to_string(one.kind),
                       std::chrono::duration<double>(one.age).count());
  }
  return "-";
}

}  // namespace

Watch::Watch(const EchoServer& server, const WatchOptions& options)
    : server_(server), options_(options) {
  if (options.wanted()) thread_ = std::thread([this] { run(); });
}

void Watch::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_event_.notify_one();
  thread_.join();
}

void Watch::run() {
  auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!ended_event_.wait_for(lock, interval, [this] { return ended_; })) {
    const auto now = std::chrono::steady_clock::now();
    try {
      look(std::chrono::duration<double>(now - start).count());
      start = now;
    } catch (const std::bad_alloc&) {
      // The next look tells of both seconds.
    }
  }
  line_.clear();
  try {
    if (!options_.metrics.empty()) write_metrics(read());
  } catch (const std::bad_alloc&) {
    // The file keeps its last content.
  }
}

Watch::Reading Watch::read() const {
  const EchoServer::Traffic traffic = server_.traffic();
  return {traffic.messages, traffic.bytes, server_.proactor().statistics()};
}

void Watch::look(double seconds) {
  const Reading now = read();
  if (options_.lines == "always") {
    note("{} {}\n", time_stamp(), line(now, seconds));
  } else if (options_.lines == "auto") {
    line_.show(line(now, seconds));
  }
  if (!options_.metrics.empty()) write_metrics(now);
  last_ = now;
}

std::string Watch::line(const Reading& now, double seconds) const {
  const Statistics& a = last_.statistics;
  const Statistics& b = now.statistics;
  const auto rate = [seconds](std::uint64_t after, std::uint64_t before) {
    return grouped(per_second(after, before, seconds));
  };
  return fmt::format(
      "{} msg/s, {} B/s, {} connections | leader changes {}/s, deferred {}/s, "
      "wakes {}/s (saved {}/s) | oldest {}",
      rate(now.messages, last_.messages), rate(now.bytes, last_.bytes), server_.connections(),
      rate(b.leader_changes, a.leader_changes), rate(b.deferred, a.deferred),
      rate(b.interrupts_sent + b.followers_woken, a.interrupts_sent + a.followers_woken),
      rate(b.interrupts_suppressed + b.wakes_suppressed,
           a.interrupts_suppressed + a.wakes_suppressed),
      oldest(server_.proactor()));
}

// A file that cannot be written is reported once and keeps its last content. The next second tries
// again.
void Watch::write_metrics(const Reading& now) {
  const Statistics::Label labels[] = {{"program", "baton echo"}};
  const auto written =
      write_in_one_step(options_.metrics, Existing::replace, now.statistics.to_prometheus(labels));
  if (!written && !metrics_failed_)
    note("baton echo: --metrics: {}\n", printable(written.error().reason));
  metrics_failed_ = !written;
}

}  // namespace baton::tools
