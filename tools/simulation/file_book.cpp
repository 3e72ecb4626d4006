// The possible contents of a file.
#include "simulation/file_book.hpp"

#include <algorithm>
#include <cstring>

#include "simulation/flow.hpp"

namespace baton::tools::simulation {
namespace {
/// From one write's bytes in the pattern to the next one's; prime to the period.
constexpr std::uint64_t step = 977;
}  // namespace

// -- positional writes ----------------------------------------------------------------------------

std::uint32_t FileBook::begin_write(std::uint64_t offset, std::size_t size) {
  const Moment begin = ++now_;
  under_way_.push_back(begin);
  recent_.push_back({++next_, offset, size, 0, begin, never});
  return next_;
}

const std::byte* FileBook::bytes_of(std::uint32_t write) const noexcept {
  return Pattern::at(write * step);
}

std::byte FileBook::byte_of(const Write& write, std::uint64_t offset) noexcept {
  return Pattern::at(write.number * step)[offset - write.offset];
}

void FileBook::end_write(std::uint32_t write, std::size_t moved, bool exact) {
  const auto it = std::find_if(recent_.begin(), recent_.end(),
                               [&](const Write& each) { return each.number == write; });
  it->end = ++now_;
  it->moved = moved;
  if (exact) it->size = moved;
  if (it->size != 0) size_most_ = std::max(size_most_, it->offset + it->size);
  over(it->begin);
}

FileBook::Moment FileBook::begin_read() {
  under_way_.push_back(++now_);
  return now_;
}

void FileBook::end_read(Moment begin) {
  ++now_;
  over(begin);
}

void FileBook::over(Moment begin) {
  under_way_.erase(std::find(under_way_.begin(), under_way_.end(), begin));
  settle();
}

// No operation in flight can see the bytes before these writes, so their order is that of their
// ends.
void FileBook::settle() {
  const Moment oldest =
      under_way_.empty() ? never : *std::min_element(under_way_.begin(), under_way_.end());
  for (;;) {
    const auto first =
        std::min_element(recent_.begin(), recent_.end(),
                         [](const Write& a, const Write& b) { return a.end < b.end; });
    if (first == recent_.end() || first->end == never || first->end > oldest) return;
    settle(*first);
    recent_.erase(first);
  }
}

void FileBook::settle(const Write& write) {
  if (cells_.size() < write.offset + write.size) cells_.resize(write.offset + write.size);
  for (std::size_t i = 0; i < write.size; ++i) {
    const std::uint64_t at = write.offset + i;
    cells_[at].add({byte_of(write, at), write.end}, i < write.moved ? write.begin : 0);
  }
  if (write.moved != 0) size_least_ = std::max(size_least_, write.offset + write.moved);
}

void FileBook::Cell::add(Value value, Moment overwrites_before) noexcept {
  // Values from before the start are gone; that of a hole is the oldest.
  std::uint8_t kept = 0;
  for (std::uint8_t i = 0; i < count; ++i) {
    if (values[i].end >= overwrites_before) values[kept++] = values[i];
  }
  count = kept;
  if (kept == 0) anything = false;
  if (count == values_max) {
    anything = true;
    std::shift_left(values.begin(), values.end(), 1);  // the oldest: they are ordered by their ends
    --count;
  }
  values[count++] = value;
}

bool FileBook::possible(Moment begin, std::uint64_t offset, std::byte byte) const noexcept {
  Moment overwrites_before = 0;  // by operations complete when the read began
  for (const Write& write : recent_) {
    if (offset < write.offset || offset - write.offset >= write.size) continue;
    if (byte_of(write, offset) == byte) return true;
    if (write.end < begin && offset - write.offset < write.moved) {
      overwrites_before = std::max(overwrites_before, write.begin);
    }
  }
  if (offset >= cells_.size()) return byte == std::byte{0} && overwrites_before == 0;
  const Cell& cell = cells_[offset];
  if (cell.anything) return true;
  for (std::uint8_t i = 0; i < cell.count; ++i) {
    if (cell.values[i].byte == byte && cell.values[i].end >= overwrites_before) return true;
  }
  return false;
}

const char* FileBook::wrong(Moment begin, std::uint64_t offset,
                            std::span<const std::byte> found) const noexcept {
  if (found.empty()) return nullptr;
  std::uint64_t size_most = size_most_;
  for (const Write& write : recent_) {
    if (write.size != 0) size_most = std::max(size_most, write.offset + write.size);
  }
  if (offset + found.size() > size_most) return "a file is longer than its writes allow";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!possible(begin, offset + i, found[i])) {
      return "a byte of a file that is not what was last written there";
    }
  }
  return nullptr;
}

bool FileBook::may_end_at(Moment begin, std::uint64_t offset) const noexcept {
  std::uint64_t least = size_least_;
  for (const Write& write : recent_) {
    if (write.end < begin && write.moved != 0) {
      least = std::max(least, write.offset + write.moved);
    }
  }
  return offset >= least;
}

// -- appends --------------------------------------------------------------------------------------

std::uint32_t AppendBook::begin_append() {
  appends_.push_back({0, ++now_, FileBook::never});
  return static_cast<std::uint32_t>(appends_.size() - 1);
}

const std::byte* AppendBook::bytes_of(std::uint32_t append) noexcept {
  return Pattern::at((append + 1) * step);
}

void AppendBook::end_append(std::uint32_t append, std::size_t moved) {
  appends_[append].moved = moved;
  appends_[append].end = ++now_;
}

const char* AppendBook::wrong(std::span<const std::byte> file) const {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t i = 0; i < appends_.size(); ++i) {
    if (appends_[i].moved != 0) missing.push_back(i);
  }
  while (!file.empty()) {
    // The longest match: a short one may look like the beginning of another.
    auto found = missing.end();
    for (auto each = missing.begin(); each != missing.end(); ++each) {
      const std::size_t size = appends_[*each].moved;
      if (size > file.size() || std::memcmp(bytes_of(*each), file.data(), size) != 0) continue;
      if (found == missing.end() || size > appends_[*found].moved) found = each;
    }
    if (found == missing.end()) return "a part of a file was never appended";
    for (const std::uint32_t each : missing) {
      if (appends_[each].end < appends_[*found].begin) {
        return "an append is before one that was complete when it started";
      }
    }
    file = file.subspan(appends_[*found].moved);
    missing.erase(found);
  }
  return missing.empty() ? nullptr : "an append that was complete is not in the file";
}

}  // namespace baton::tools::simulation
