#include "file_pass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "progress.hpp"

namespace baton::tools {

AlignedBlock aligned_block(std::size_t size) {
  return AlignedBlock(new (std::align_val_t{file_alignment}) std::byte[size]);
}

FilePass::FilePass(Proactor& proactor, File& file, const Pattern& pattern, std::size_t block,
                   std::size_t depth, std::uint64_t size, LoadErrors& errors)
    : proactor_(proactor),
      file_(file),
      pattern_(pattern),
      block_(block),
      size_(size),
      errors_(errors),
      slots_(depth) {
  for (Slot& slot : slots_) slot.block = aligned_block(block_);
}

// The slot's block and its expected contents, in pieces that are contiguous in the pattern.
template <typename Visit>
void FilePass::for_each_piece(const Slot& slot, Visit&& visit) {
  for (std::size_t done = 0; done < block_;) {
    const std::size_t size = std::min(block_ - done, Pattern::piece_bytes_max);
    if (!visit(slot.block.get() + done, pattern_.piece(0, slot.offset + done, size))) return;
    done += size;
  }
}

const FilePassResult& FilePass::run(Kind kind, double seconds) {
  kind_ = kind;
  start_ = Clock::now();
  once_ = seconds == 0;
  end_ =
      start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Progress progress(seconds, "blocks", [this] { return count_.load(std::memory_order_relaxed); });
  proactor_.restart();
  for (Slot& slot : slots_) next(slot);
  if (in_flight_ > 0) proactor_.run();
  result_.elapsed_s = std::chrono::duration<double>(Clock::now() - start_).count();
  return result_;
}

bool FilePass::over() const {
  return errors_.count() > 0 || (once_ ? offset_ >= size_ : Clock::now() >= end_);
}

void FilePass::next(Slot& slot) {
  if (over()) return;
  slot.offset = next_offset();
  slot.started = Clock::now();
  if (const auto error = start(slot)) {
    errors_.add(fmt::format("start at offset {}: {}", slot.offset, error.message()));
    return;
  }
  ++in_flight_;
}

// Only for runs with a time: a run without one reads every block once.
std::uint64_t FilePass::next_offset() {
  const std::uint64_t next = offset_;
  offset_ += block_;
  if (!random_ || once_) return next % size_;
  return generator_() % (size_ / block_) * block_;
}

std::error_code FilePass::start(Slot& slot) {
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

void FilePass::on_complete(Slot& slot) {
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
    if (kind_ == Kind::check && compare_) compare(slot);
  }
  next(slot);
  if (in_flight_ == 0) proactor_.stop();
}

void FilePass::compare(const Slot& slot) {
  for_each_piece(slot, [&](const std::byte* at, std::span<const std::byte> piece) {
    if (std::memcmp(at, piece.data(), piece.size()) == 0) return true;
    const auto different = std::mismatch(piece.begin(), piece.end(), at).first - piece.begin();
    const std::uint64_t offset =
        slot.offset + static_cast<std::uint64_t>(at + different - slot.block.get());
    errors_.add(
        fmt::format("wrong byte at offset {}; was the file made by 'baton load --write'?", offset));
    return false;
  });
}

}  // namespace baton::tools
