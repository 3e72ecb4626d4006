#include "file_report.hpp"

#include <fmt/format.h>

#include "../json.hpp"
#include "../numbers.hpp"

namespace baton::tools {

std::string FileReport::text(const FileLoadOptions& options) const {
  const FilePassResult& m = measured;
  std::string out =
      fmt::format("load: {} {}, block {}, depth {}{}{}, {:.2f} s\n",
                  options.write ? "write" : "read", options.file, options.block, options.depth,
                  options.direct ? ", direct" : "", options.random ? ", random" : "", m.elapsed_s);
  out += fmt::format(
      "  rate        {} operations/s, {:.1f} MB/s\n",
      grouped(static_cast<std::uint64_t>(static_cast<double>(m.operations) / m.elapsed_s)),
      static_cast<double>(m.bytes) / m.elapsed_s / 1e6);
  out += fmt::format(
      "  latency     p50 {}, p99 {}, p99.9 {}, longest {}\n",
      duration_text(m.latencies.percentile(0.5)), duration_text(m.latencies.percentile(0.99)),
      duration_text(m.latencies.percentile(0.999)), duration_text(m.latencies.max()));
  if (options.write) out += fmt::format("  sync        {:.3f} s\n", sync_s);
  for (const auto& one : errors.texts()) out += fmt::format("  error       {}\n", one);
  out += passed() && !options.compare ? "  passed      what was read was not compared\n"
         : passed() ? fmt::format("  passed      every byte of {} was right\n", grouped(bytes_read))
                    : fmt::format("  FAILED      {} errors\n", errors.count());
  return out;
}

std::string FileReport::json(const FileLoadOptions& options) const {
  const FilePassResult& m = measured;
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; };
  std::string texts;
  for (const auto& one : errors.texts()) {
    texts += (texts.empty() ? "" : ", ") + json_string(one);
  }
  std::string out = fmt::format(
      "{{\"kind\": \"file\", \"file\": {}, \"write\": {}, \"direct\": {}, \"random\": {}, "
      "\"block\": {}, "
      "\"depth\": {}, \"seconds\": {:.6f}, \"operations\": {}, \"bytes\": {}, ",
      json_string(options.file), options.write, options.direct, options.random, options.block,
      options.depth, m.elapsed_s, m.operations, m.bytes);
  out += fmt::format("\"operations_per_second\": {:.1f}, \"megabytes_per_second\": {:.3f}, ",
                     static_cast<double>(m.operations) / m.elapsed_s,
                     static_cast<double>(m.bytes) / m.elapsed_s / 1e6);
  out += fmt::format(
      "\"latency_us\": {{\"p50\": {:.2f}, \"p99\": {:.2f}, \"p99_9\": {:.2f}, \"max\": {:.2f}}}, ",
      us(m.latencies.percentile(0.5)), us(m.latencies.percentile(0.99)),
      us(m.latencies.percentile(0.999)), us(m.latencies.max()));
  out += fmt::format(
      "\"sync_seconds\": {:.6f}, \"bytes_compared\": {}, \"errors\": {}, "
      "\"error_texts\": [{}], \"passed\": {}}}\n",
      sync_s, bytes_read, errors.count(), texts, passed());
  return out;
}

}  // namespace baton::tools
