#include "file_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "../json.hpp"
#include "../numbers.hpp"
#include "baton/file.hpp"
#include "baton/proactor.hpp"
#include "errors.hpp"
#include "histogram.hpp"
#include "pattern.hpp"
#include "progress.hpp"

namespace baton::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct AlignedDelete {
  void operator()(std::byte* memory) const {
    ::operator delete[](memory, std::align_val_t{file_alignment});
  }
};
using AlignedBlock = std::unique_ptr<std::byte[], AlignedDelete>;

AlignedBlock aligned_block(std::size_t size) {
  return AlignedBlock(new (std::align_val_t{file_alignment}) std::byte[size]);
}

// What one pass over the file - writing, or reading and comparing - came to.
struct PassResult {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  double elapsed_s = 0;
  Histogram latencies;
};

// One pass: `depth` slots, each with an operation and a block, go through the file from the start
// to the end and round again, until the time is over or - without a time - once round. There is one
// thread in run(), so handlers need no lock.
class Pass {
 public:
  enum class Kind { write, check };

  Pass(Proactor& proactor, File& file, const Pattern& pattern, const FileLoadOptions& options,
       std::uint64_t size, LoadErrors& errors)
      : proactor_(proactor),
        file_(file),
        pattern_(pattern),
        block_(options.block),
        size_(size),
        errors_(errors),
        slots_(options.depth) {
    for (Slot& slot : slots_) slot.block = aligned_block(block_);
  }

  // `seconds` 0: once round.
  const PassResult& run(Kind kind, double seconds) {
    kind_ = kind;
    start_ = Clock::now();
    once_ = seconds == 0;
    end_ = start_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    Progress progress(seconds, "blocks", [this] { return count_.load(std::memory_order_relaxed); });
    proactor_.restart();
    for (Slot& slot : slots_) next(slot);
    if (in_flight_ > 0) proactor_.run();
    result_.elapsed_s = std::chrono::duration<double>(Clock::now() - start_).count();
    return result_;
  }

 private:
  struct Slot {
    Operation operation;
    AlignedBlock block;
    std::uint64_t offset = 0;
    Clock::time_point started;
  };

  bool over() const {
    return errors_.count() > 0 || (once_ ? offset_ >= size_ : Clock::now() >= end_);
  }

  void next(Slot& slot) {
    if (over()) return;
    slot.offset = offset_ % size_;
    offset_ += block_;
    slot.started = Clock::now();
    if (const auto error = start(slot)) {
      errors_.add(fmt::format("start at offset {}: {}", slot.offset, error.message()));
      return;
    }
    ++in_flight_;
  }

  std::error_code start(Slot& slot) {
    const auto handler = [this, &slot](Operation&) { on_complete(slot); };
    if (kind_ == Kind::check) {
      return file_.read_exactly_at(slot.operation, slot.offset,
                                   MutableBuffer{slot.block.get(), block_}, handler);
    }
    for_each_piece(slot, [](std::byte* at, std::span<const std::byte> piece) {
      std::memcpy(at, piece.data(), piece.size());
      return true;
    });
    return file_.write_all_at(slot.operation, slot.offset, ConstBuffer{slot.block.get(), block_},
                              handler);
  }

  void on_complete(Slot& slot) {
    --in_flight_;
    const auto spent = Clock::now() - slot.started;
    result_.latencies.record(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count()));
    if (slot.operation.failed()) {
      errors_.add(fmt::format("{} at offset {}: {}", kind_ == Kind::check ? "read" : "write",
                              slot.offset, slot.operation.error().message()));
    } else {
      ++result_.operations;
      result_.bytes += slot.operation.bytes();
      count_.store(result_.operations, std::memory_order_relaxed);
      if (kind_ == Kind::check) compare(slot);
    }
    next(slot);
    if (in_flight_ == 0) proactor_.stop();
  }

  void compare(const Slot& slot) {
    for_each_piece(slot, [&](const std::byte* at, std::span<const std::byte> piece) {
      if (std::memcmp(at, piece.data(), piece.size()) == 0) return true;
      const auto different = std::mismatch(piece.begin(), piece.end(), at).first - piece.begin();
      const std::uint64_t offset =
          slot.offset + static_cast<std::uint64_t>(at + different - slot.block.get());
      errors_.add(fmt::format("wrong byte at offset {}; was the file made by 'baton load --write'?",
                              offset));
      return false;
    });
  }

  // The slot's block and what belongs there, in pieces that the pattern has in one.
  template <typename Visit>
  void for_each_piece(const Slot& slot, Visit&& visit) {
    for (std::size_t done = 0; done < block_;) {
      const std::size_t size = std::min(block_ - done, Pattern::piece_bytes_max);
      if (!visit(slot.block.get() + done, pattern_.piece(0, slot.offset + done, size))) return;
      done += size;
    }
  }

  Proactor& proactor_;
  File& file_;
  const Pattern& pattern_;
  const std::size_t block_;
  const std::uint64_t size_;
  LoadErrors& errors_;
  std::vector<Slot> slots_;
  Kind kind_ = Kind::check;
  Clock::time_point start_;
  Clock::time_point end_;
  bool once_ = false;
  std::uint64_t offset_ = 0;  // of the next block, counted on through all rounds
  std::size_t in_flight_ = 0;
  std::atomic<std::uint64_t> count_{0};
  PassResult result_;
};

// --- the report ---------------------------------------------------------------------------------

struct FileReport {
  PassResult measured;
  double sync_s = 0;             // after writing
  std::uint64_t bytes_read = 0;  // and compared
  LoadErrors errors;

  bool passed() const { return errors.count() == 0 && measured.operations > 0; }
};

std::string text_of(const FileLoadOptions& options, const FileReport& report) {
  const PassResult& m = report.measured;
  std::string out = fmt::format("load: {} {}, block {}, depth {}{}, {:.2f} s\n",
                                options.write ? "write" : "read", options.file, options.block,
                                options.depth, options.direct ? ", direct" : "", m.elapsed_s);
  out += fmt::format(
      "  rate        {} operations/s, {:.1f} MB/s\n",
      grouped(static_cast<std::uint64_t>(static_cast<double>(m.operations) / m.elapsed_s)),
      static_cast<double>(m.bytes) / m.elapsed_s / 1e6);
  out += fmt::format(
      "  latency     p50 {}, p99 {}, p99.9 {}, longest {}\n",
      duration_text(m.latencies.percentile(0.5)), duration_text(m.latencies.percentile(0.99)),
      duration_text(m.latencies.percentile(0.999)), duration_text(m.latencies.max()));
  if (options.write) out += fmt::format("  sync        {:.3f} s\n", report.sync_s);
  for (const auto& text : report.errors.texts()) out += fmt::format("  error       {}\n", text);
  out += report.passed()
             ? fmt::format("  passed      every byte of {} was right\n", grouped(report.bytes_read))
             : fmt::format("  FAILED      {} errors\n", report.errors.count());
  return out;
}

std::string json_of(const FileLoadOptions& options, const FileReport& report) {
  const PassResult& m = report.measured;
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; };
  std::string texts;
  for (const auto& text : report.errors.texts()) {
    texts += (texts.empty() ? "" : ", ") + json_string(text);
  }
  std::string out = fmt::format(
      "{{\"kind\": \"file\", \"file\": {}, \"write\": {}, \"direct\": {}, \"block\": {}, "
      "\"depth\": {}, \"seconds\": {:.6f}, \"operations\": {}, \"bytes\": {}, ",
      json_string(options.file), options.write, options.direct, options.block, options.depth,
      m.elapsed_s, m.operations, m.bytes);
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
      report.sync_s, report.bytes_read, report.errors.count(), texts, report.passed());
  return out;
}

// --- the run ------------------------------------------------------------------------------------

Failure failure(std::error_code code, const std::string& what) {
  return {code, fmt::format("{}: {}", what, code.message())};
}

Result<File, Failure> open_file(Proactor& proactor, const FileLoadOptions& options) {
  FileFlags flags = options.write ? FileFlags::read_write | FileFlags::create : FileFlags::read;
  if (options.direct) flags = flags | FileFlags::direct;
  auto file = File::open(proactor, options.file, flags);
  if (file) return std::move(*file);
  const auto code = file.error();
  if (code == std::errc::no_such_file_or_directory && !options.write) {
    return unexpected{Failure{code, options.file + " does not exist; make it with --write first"}};
  }
  if (code == std::errc::invalid_argument && options.direct) {
    return unexpected{
        Failure{code, options.file + ": this file system has no direct I/O; leave --direct out"}};
  }
  return unexpected{failure(code, options.file)};
}

// Whole blocks only.
Result<std::uint64_t, Failure> usable_size(const File& file, const FileLoadOptions& options) {
  std::uint64_t size = options.size;
  if (!options.write) {
    const auto found = file.size();
    if (!found) return unexpected{failure(found.error(), options.file)};
    size = *found;
  }
  size -= size % options.block;
  if (size > 0) return size;
  return unexpected{
      Failure{std::make_error_code(std::errc::invalid_argument),
              fmt::format("{} holds no block of {} bytes", options.file, options.block)}};
}

double sync(Proactor& proactor, File& file, LoadErrors& errors) {
  const auto start = Clock::now();
  Operation operation;
  proactor.restart();
  const auto error = file.data_sync(operation, [&proactor](Operation&) { proactor.stop(); });
  if (!error) proactor.run();
  if (error || operation.failed()) {
    errors.add("sync: " + (error ? error : operation.error()).message());
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Result<FileReport, Failure> load_file(const FileLoadOptions& options) {
  const auto config = make_config(options.config);
  if (!config) return unexpected{config.error()};
  const auto proactor = Proactor::open(*config);
  if (!proactor) return unexpected{proactor.error()};
  auto file = open_file(**proactor, options);
  if (!file) return unexpected{file.error()};
  const auto size = usable_size(*file, options);
  if (!size) return unexpected{size.error()};

  const Pattern pattern;
  FileReport report;
  const auto pass = [&] {
    return std::make_unique<Pass>(**proactor, *file, pattern, options, *size, report.errors);
  };
  if (!options.write) {
    report.measured = pass()->run(Pass::Kind::check, options.seconds);
    report.bytes_read = report.measured.bytes;
    return report;
  }
  report.measured = pass()->run(Pass::Kind::write, options.seconds);
  report.sync_s = sync(**proactor, *file, report.errors);
  // What was written is read back, once round; less if the time did not suffice for a whole round.
  const std::uint64_t written = std::min(*size, report.measured.bytes);
  if (report.errors.count() == 0 && written > 0) {
    Pass check(**proactor, *file, pattern, options, written, report.errors);
    report.bytes_read = check.run(Pass::Kind::check, 0).bytes;
  }
  return report;
}

}  // namespace

int run_file_load(const FileLoadOptions& options) {
  if (options.direct && options.block % file_alignment != 0) {
    return report_failure(
        "load",
        {{}, fmt::format("--direct needs a --block that is a multiple of {}", file_alignment)});
  }
  const auto report = load_file(options);
  if (!report) return report_failure("load", report.error());
  std::fputs((options.json ? json_of : text_of)(options, *report).c_str(), stdout);
  return report->passed() ? 0 : 1;
}

}  // namespace baton::tools
