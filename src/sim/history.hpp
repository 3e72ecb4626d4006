// History: every event of a seed in order, as a hash; the last ones kept for the report of a
// violation, or all of them printed (--verbose).
//
// The hash is a polynomial in an odd base modulo 2^64. So is the one over the seeds (combine): what
// adjacent ranges of seeds give can be put together without running them again.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace baton::sim {

enum class Event : std::uint8_t {
  fiber_start,    // a: fiber
  fiber_end,      // a: fiber
  fiber_switch,   // a: from, b: to
  sleep,          // a: fiber, b: 1 with a deadline
  wake,           // a: fiber
  time_out,       // a: fiber
  jump,           // a: nanoseconds that nobody had anything to do
  call,           // a: system call, b: its result or -errno
  submit,         // a: kind of operation, b: handle
  perform,        // a: kind of operation, b: bytes
  engine_done,    // a: kind of operation, b: error
  engine_cancel,  // a: kind of operation, b: answer
  engine_wait,    // a: operations brought
  interrupt,      // a: engine
  arrive,         // a: channel, b: bytes arrived in all
  reset,          // a: channel
  start,          // a: slot of the program, b: kind + 100 times the object
  refused,        // a: slot, b: error
  complete,       // a: slot, b: bytes or -error
  act,            // a: what the program does, b: to whom
};

const char* to_string(Event event) noexcept;

class History {
 public:
  void begin(std::uint64_t seed, bool verbose) noexcept {
    hash_ = seed;
    count_ = 0;
    verbose_ = verbose;
  }
  void add(std::int64_t now_ns, std::uint32_t fiber, Event event, std::int64_t a = 0,
           std::int64_t b = 0) noexcept {
    // The time is part of it: what happens at another moment is another history.
    const auto mixed = static_cast<std::uint64_t>(now_ns) ^
                       (static_cast<std::uint64_t>(event) << 56) ^
                       (static_cast<std::uint64_t>(fiber) << 48);
    hash_ = hash_ * base + mixed;
    hash_ = hash_ * base + (static_cast<std::uint64_t>(a) ^ (static_cast<std::uint64_t>(b) << 24));
    Entry& entry = last_[count_++ % last_.size()];
    entry = {now_ns, a, b, fiber, event};
    if (verbose_) [[unlikely]]
      print(entry);
  }

  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// The last events, oldest first, one a line.
  [[nodiscard]] std::string last() const;

  /// The hash over several seeds: start with 0, once for each seed in order.
  static std::uint64_t combine(std::uint64_t hash, std::uint64_t of_seed) noexcept {
    return hash * base + of_seed;
  }
  /// What the seeds of `first` followed by the `seeds` ones of `second` give.
  static std::uint64_t merge(std::uint64_t first, std::uint64_t second,
                             std::uint64_t seeds) noexcept;

 private:
  struct Entry {
    std::int64_t now_ns;
    std::int64_t a;
    std::int64_t b;
    std::uint32_t fiber;
    Event event;
  };
  static std::string text_of(const Entry& entry);
  static void print(const Entry& entry);

  static constexpr std::uint64_t base = 0x9e37'79b9'7f4a'7c15U;  // odd, so that nothing is lost
  std::uint64_t hash_ = 0;
  std::uint64_t count_ = 0;
  bool verbose_ = false;
  std::array<Entry, 64> last_{};
};

}  // namespace baton::sim
