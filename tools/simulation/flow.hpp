// Flow: the account of one direction of a stream. Writes take the next bytes of a fixed pattern, so
// a byte shows its position; reads must return them in order, whichever handlers run first.
//
// Only promises are checked. A write that ended short (cancelled, timed out) with others queued
// behind it leaves a gap that no reader can see. From then on only the totals count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace baton::tools::simulation {

/// Bytes that differ from their neighbours; repeated every `period`.
class Pattern {
 public:
  static constexpr std::size_t period = 65'536;
  static constexpr std::size_t size_max = 8'192;
  static const std::byte* at(std::uint64_t offset) noexcept {
    static const Pattern pattern;
    return pattern.bytes_.data() + offset % period;
  }
  /// Describes the expected and the actual place of `bytes`.
  static std::string difference(std::uint64_t expected, const std::byte* bytes, std::size_t size) {
    std::string text = "expected at " + std::to_string(expected % period);
    for (std::size_t i = 0; i < period && size > 3; ++i) {
      if (std::memcmp(at(i), bytes, size) == 0) return text + ", came from " + std::to_string(i);
    }
    return text;
  }

 private:
  Pattern() : bytes_(period + size_max) {
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < period; ++i) {
      state = state * 1'664'525 + 1'013'904'223;
      bytes_[i] = static_cast<std::byte>(state >> 24);
    }
    std::memcpy(bytes_.data() + period, bytes_.data(), size_max);
  }
  std::vector<std::byte> bytes_;
};

class Flow {
 public:
  void begin() noexcept { *this = Flow{}; }

  // -- the writer's side --------------------------------------------------------------------------

  /// The bytes of the next write, which has taken them.
  const std::byte* take(std::size_t size) noexcept {
    const std::byte* bytes = Pattern::at(next_write_);
    next_write_ += size;
    ++writes_;
    return bytes;
  }
  /// The start was refused. REQUIRES: no other write was taken since.
  void give_back(std::size_t size) noexcept {
    next_write_ -= size;
    --writes_;
  }
  void wrote(std::size_t size, std::size_t moved) noexcept {
    --writes_;
    sent_ += moved;
    if (moved == size) return;
    if (writes_ == 0 && !gap_) {
      next_write_ -= size - moved;  // continues where it ended
    } else {
      gap_ = true;
    }
  }
  [[nodiscard]] std::uint32_t writes() const noexcept { return writes_; }
  /// Cancelling several writes may leave a gap, after which a reader's bytes cannot be judged.
  void may_gap() noexcept { gap_ = true; }

  // -- the reader's side --------------------------------------------------------------------------

  /// The number of a read that starts.
  std::uint64_t begin_read() noexcept {
    ++reads_;
    return next_read_++;
  }
  /// The start was refused. REQUIRES: no other read has begun since.
  void unbegin_read() noexcept {
    --reads_;
    --next_read_;
  }
  [[nodiscard]] std::uint32_t reads() const noexcept { return reads_; }
  /// False: the bytes are not those that come next.
  bool read(std::uint64_t number, const std::byte* bytes, std::size_t size) {
    --reads_;
    received_ += size;
    if (number != next_check_) {
      early_.push_back({number, {bytes, bytes + size}});
      return true;
    }
    bool right = check(bytes, size);
    for (std::size_t i = 0; i < early_.size();) {
      if (early_[i].number != next_check_) {
        ++i;
        continue;
      }
      right &= check(early_[i].bytes.data(), early_[i].bytes.size());
      early_[i] = std::move(early_.back());
      early_.pop_back();
      i = 0;
    }
    return right;
  }

  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }

  /// After a wrong read: the expected and the received bytes.
  [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }

  bool has_writer = false;
  std::uint32_t channel = 0;   ///< the machine's number of it; 0: not known yet
  bool writer_closed = false;  ///< the program has closed or destroyed it
  bool reader_closed = false;
  bool fin = false;     ///< there will be no more writes
  bool at_end = false;  ///< the reader has seen it

 private:
  struct Early {
    std::uint64_t number;
    std::vector<std::byte> bytes;
  };

  bool check(const std::byte* bytes, std::size_t size) noexcept {
    ++next_check_;
    const bool right = gap_ || size == 0 || std::memcmp(bytes, Pattern::at(checked_), size) == 0;
    if (!right) complaint_ = Pattern::difference(checked_, bytes, size);
    checked_ += size;
    return right;
  }

  std::uint64_t next_write_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t checked_ = 0;
  std::uint64_t next_read_ = 0;
  std::uint64_t next_check_ = 0;
  std::uint32_t writes_ = 0;
  std::uint32_t reads_ = 0;
  bool gap_ = false;
  std::string complaint_;
  std::vector<Early> early_;  // handlers of later reads ran first
};

}  // namespace baton::tools::simulation
