#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "../json.hpp"
#include "../numbers.hpp"

namespace baton::tools {
namespace {

double microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; }

double jain_index(const std::vector<std::uint64_t>& counts) {
  double sum = 0;
  double squares = 0;
  for (const std::uint64_t count : counts) {
    const auto x = static_cast<double>(count);
    sum += x;
    squares += x * x;
  }
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(counts.size()) * squares);
}

std::string round_trip_text(const Histogram& times) {
  return fmt::format("p50 {}, p99 {}, p99.9 {}, longest {}", duration_text(times.percentile(0.5)),
                     duration_text(times.percentile(0.99)), duration_text(times.percentile(0.999)),
                     duration_text(times.max()));
}

std::string round_trip_json(const Histogram& times) {
  return fmt::format(
      "\"round_trip_us\": {{\"p50\": {:.2f}, \"p99\": {:.2f}, \"p99_9\": {:.2f}, "
      "\"max\": {:.2f}}}",
      microseconds(times.percentile(0.5)), microseconds(times.percentile(0.99)),
      microseconds(times.percentile(0.999)), microseconds(times.max()));
}

}  // namespace

void LoadReport::add(const WorkerResult& worker) {
  messages += worker.messages;
  messages_total += worker.messages_total;
  bytes += worker.bytes;
  elapsed_s = std::max(elapsed_s, worker.elapsed_s);
  round_trips.merge(worker.round_trips);
  session_round_trips_.insert(session_round_trips_.end(), worker.session_round_trips.begin(),
                              worker.session_round_trips.end());
  datagrams.add(worker.datagrams);
  silent += worker.silent;
  wrong += worker.wrong;
  generator_cpu_s += worker.cpu_s;
  if (worker.elapsed_s > 0) {
    generator_busy = std::max(generator_busy, worker.cpu_s / worker.elapsed_s);
  }
  errors.merge(worker.errors);
  session_messages_.insert(session_messages_.end(), worker.session_messages.begin(),
                           worker.session_messages.end());
}

void LoadReport::compute(std::size_t sessions_apart) {
  if (elapsed_s > 0) {
    messages_per_s = static_cast<double>(messages) / elapsed_s;
    megabytes_per_s = static_cast<double>(bytes) / elapsed_s / 1e6;
  }
  if (session_messages_.empty()) return;
  jain = jain_index(session_messages_);
  const auto [least, most] =
      std::minmax_element(session_messages_.begin(), session_messages_.end());
  session_min = *least;
  session_max = *most;
  if (sessions_apart > 0) tell_apart(sessions_apart);
}

// Slow sessions are found by the number of their returned messages, because a server may serve
// sessions in any order.
void LoadReport::tell_apart(std::size_t count) {
  std::vector<std::size_t> order(session_round_trips_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return session_messages_[a] < session_messages_[b];
  });
  for (const std::size_t session : order) {
    if (apart.sessions == count) {
      round_trips.merge(session_round_trips_[session]);
    } else {
      ++apart.sessions;
      apart.messages += session_messages_[session];
      apart.round_trips.merge(session_round_trips_[session]);
    }
  }
}

std::string LoadReport::text(const LoadOptions& options) const {
  std::string out =
      fmt::format("load: {}{} session{}, {} idle, block {}, window {}, {:.2f} s, {} thread{}\n",
                  options.datagrams() ? "udp, " : "", grouped(options.sessions),
                  options.sessions == 1 ? "" : "s", grouped(options.idle), options.block,
                  options.window, elapsed_s, options.threads, options.threads == 1 ? "" : "s");
  out += fmt::format("  rate        {} messages/s, {:.1f} MB/s in each direction\n",
                     grouped(static_cast<std::uint64_t>(messages_per_s)), megabytes_per_s);
  if (options.datagrams()) {
    out += fmt::format("  datagrams   {} sent, {} lost, {} late\n", grouped(datagrams.sent),
                       grouped(datagrams.lost()), grouped(datagrams.late));
  }
  out += fmt::format("  round trip  {}\n", round_trip_text(round_trips));
  if (apart.sessions > 0) {
    out += fmt::format("  apart       {} session{} with {} messages: {}\n", apart.sessions,
                       apart.sessions == 1 ? "" : "s", grouped(apart.messages),
                       round_trip_text(apart.round_trips));
  }
  out += fmt::format("  fairness    Jain index {:.3f}, {} to {} messages a session, {} silent\n",
                     jain, grouped(session_min), grouped(session_max), silent);
  out += fmt::format("  generator   {:.0f} % of a core{}\n", generator_busy * 100,
                     generator_was_bottleneck()
                         ? " - it was the bottleneck: the server can do more (try --threads)"
                         : "");
  for (const auto& text : errors.texts()) out += fmt::format("  error       {}\n", text);
  if (errors.count() > errors.texts().size()) {
    out += fmt::format("  error       … and {} more\n", errors.count() - errors.texts().size());
  }
  out += passed()
             ? fmt::format("  passed      every byte of {} messages was right\n",
                           grouped(messages_total))
             : fmt::format("  FAILED      {} errors, {} sessions with wrong bytes, {} silent\n",
                           errors.count(), wrong, silent);
  return out;
}

std::string LoadReport::json(const LoadOptions& options) const {
  std::string texts;
  for (const auto& text : errors.texts()) {
    texts += (texts.empty() ? "" : ", ") + json_string(text);
  }
  std::string out = "{";
  out += fmt::format(
      "\"kind\": \"network\", \"protocol\": {}, \"sessions\": {}, \"idle\": {}, \"block\": {}, "
      "\"window\": {}, \"threads\": {}, \"seconds\": {:.6f}, ",
      json_string(options.protocol), options.sessions, options.idle, options.block, options.window,
      options.threads, elapsed_s);
  out += fmt::format(
      "\"messages\": {}, \"messages_total\": {}, \"bytes\": {}, "
      "\"messages_per_second\": {:.1f}, \"megabytes_per_second\": {:.3f}, ",
      messages, messages_total, bytes, messages_per_s, megabytes_per_s);
  out += round_trip_json(round_trips) + ", ";
  if (apart.sessions > 0) {
    out += fmt::format("\"apart\": {{\"sessions\": {}, \"messages\": {}, {}}}, ", apart.sessions,
                       apart.messages, round_trip_json(apart.round_trips));
  }
  if (options.datagrams()) {
    out += fmt::format("\"datagrams\": {{\"sent\": {}, \"lost\": {}, \"late\": {}}}, ",
                       datagrams.sent, datagrams.lost(), datagrams.late);
  }
  out += fmt::format(
      "\"fairness\": {{\"jain\": {:.4f}, \"min\": {}, \"max\": {}, "
      "\"silent\": {}}}, ",
      jain, session_min, session_max, silent);
  out += fmt::format(
      "\"generator\": {{\"cpu_seconds\": {:.6f}, \"busy\": {:.4f}, "
      "\"bottleneck\": {}}}, ",
      generator_cpu_s, generator_busy, generator_was_bottleneck());
  out += fmt::format("\"errors\": {}, \"wrong\": {}, \"error_texts\": [{}], \"passed\": {}}}\n",
                     errors.count(), wrong, texts, passed());
  return out;
}

}  // namespace baton::tools
