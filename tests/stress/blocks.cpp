// Files, timers and posts.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "actors.hpp"

namespace baton::soak {
namespace {

constexpr std::size_t file_size = 1U << 20;
constexpr std::size_t block_max = 16'384;
constexpr int workers_count = 3;
constexpr std::size_t phase = 0;
constexpr std::uint64_t sync_one_in = 256;

/// Without a name, and full of the pattern.
int make_file(const tools::Pattern& pattern) {
  std::string name = std::filesystem::temp_directory_path() / "baton-soak-XXXXXX";
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) {
    fmt::print(stderr, "soak: {}: {}\n", name, std::strerror(errno));
    std::exit(1);
  }
  ::unlink(name.c_str());
  for (std::size_t at = 0; at < file_size; at += block_max) {
    const auto piece = pattern.piece(phase, at, block_max);
    if (::pwrite(descriptor, piece.data(), piece.size(), static_cast<off_t>(at)) !=
        static_cast<ssize_t>(piece.size())) {
      fmt::print(stderr, "soak: a temporary file: {}\n", std::strerror(errno));
      std::exit(1);
    }
  }
  return descriptor;
}

}  // namespace

/// One operation at a time, of the several that the file has.
struct Blocks::Worker {
  explicit Worker(Blocks& owner)
      : blocks(owner), ledger(owner.ledger_), entry(ledger), random(ledger.new_seed()) {
    entry.on_done<&Worker::done>(*this);
  }

  void next() {
    if (!ledger.more(allowance, 1)) return blocks.worker_ended();
    const std::size_t size = random.size(block_max);
    offset = random.below(file_size - size);
    if (random.one_in(sync_one_in)) {
      entry.prepare(OperationKind::sync_file, blocks.handle_, Operation::data_only);
    } else if (random.one_in(2)) {
      entry.prepare(OperationKind::write_file, blocks.handle_, blocks.whole_or_plain(random));
      entry.set_buffer(ConstBuffer{ledger.pattern.piece(phase, offset, size)});
      entry.set_offset(offset);
    } else {
      entry.prepare(OperationKind::read_file, blocks.handle_, blocks.whole_or_plain(random));
      entry.set_buffer(MutableBuffer{buffer.data(), size});
      entry.set_offset(offset);
    }
    whole = entry.kind() == OperationKind::sync_file ? 0 : size;
    entry.start(random);
  }
  void done() {
    if (!entry.expect_no_error("file")) return blocks.worker_ended();
    const bool may_be_short = blocks.in_parts_ && !entry.has(Operation::exactly);
    if (!entry.failed() && entry.bytes() != whole && !may_be_short) {
      ledger.violation("a file transfer was short");
    }
    if (entry.kind() == OperationKind::read_file) {
      expect_pattern(ledger, phase, offset, std::span(buffer).first(entry.bytes()));
    }
    next();
  }

  Blocks& blocks;
  Ledger& ledger;
  Entry entry;
  Random random;
  std::uint64_t allowance = 0;
  std::uint64_t offset = 0;
  std::size_t whole = 0;
  std::array<std::byte, block_max> buffer;
};

std::uint16_t Blocks::whole_or_plain(Random& random) {
  return random.one_in(2) ? Operation::exactly : 0;
}

Blocks::Blocks(Ledger& ledger) : ledger_(ledger), close_(ledger) {
  for (const auto& one : ledger.proactor.config().processors) {
    in_parts_ = in_parts_ || one.engine == "chaos";
  }
  handle_ = adopt(ledger, make_file(ledger.pattern), HandleKind::file);
  close_.on_done<&Blocks::closed>(*this);
  for (int i = 0; i < workers_count; ++i) workers_.push_back(std::make_unique<Worker>(*this));
  workers_left_.store(workers_count);
}

Blocks::~Blocks() = default;

void Blocks::begin() {
  ledger_.part_begins();
  for (const auto& worker : workers_) worker->next();
}

// Bytes are checked as they arrive.
void Blocks::expect_balanced() {}

void Blocks::worker_ended() {
  if (workers_left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  close_.prepare(OperationKind::close, handle_);
  close_.start();
}

// -- timers and posts -----------------------------------------------------------------------------

Clock::Clock(Ledger& ledger)
    : ledger_(ledger), timer_(ledger), post_(ledger), random_(ledger.new_seed()) {
  timer_.on_done<&Clock::rung>(*this);
  post_.on_done<&Clock::next>(*this);
}

void Clock::begin() {
  ledger_.part_begins();
  next();
}

void Clock::next() {
  constexpr std::uint64_t delay_ns_max = 2'000'000;
  if (!ledger_.more(allowance_, 2)) return ledger_.part_ended();
  timer_.prepare(OperationKind::timer, nullptr);
  const Duration delay{static_cast<std::int64_t>(random_.below(delay_ns_max))};
  due_ = Deadline::after(delay, ledger_.proactor.now());
  timer_.set_deadline(due_);
  timer_.start(random_);
}

void Clock::rung() {
  timer_.expect_no_error("timer");
  if (!timer_.failed() && ledger_.proactor.now() < due_) {
    ledger_.violation("a timer was early");
  }
  post_.prepare(OperationKind::user, nullptr);
  post_.start();
}

}  // namespace baton::soak
