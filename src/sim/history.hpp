// History: a hash of all events of a seed, in order. The last events are kept for the report of a
// violation; --verbose prints all of them.
//
// The hash is a polynomial in an odd base modulo 2^64, and so is the hash over several seeds
// (combine). The results of adjacent ranges of seeds can therefore be merged without another run.
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
  jump,           // a: nanoseconds in which no thread could run
  call,           // a: system call, b: its result or -errno
  submit,         // a: kind of operation, b: handle
  perform,        // a: kind of operation, b: bytes
  engine_done,    // a: kind of operation, b: error
  engine_cancel,  // a: kind of operation, b: answer
  engine_wait,    // a: number of completions
  interrupt,      // a: engine
  arrive,         // a: channel, b: bytes that have arrived so far
  reset,          // a: channel
  start,          // a: slot of the program, b: kind + 100 times the object
  refused,        // a: slot, b: error
  complete,       // a: slot, b: bytes or -error
  act,            // a: what the program does, b: its target
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
    // The hash includes the time: the same event at another moment is another history.
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
  /// The last events, the oldest first, a line for each.
  [[nodiscard]] std::string last() const;

  /// The hash over several seeds. Start with 0 and call it for each seed in order.
  static std::uint64_t combine(std::uint64_t hash, std::uint64_t of_seed) noexcept {
    return hash * base + of_seed;
  }
  /// The hash over the seeds of `first` followed by those of `second`, which are `seeds` many.
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

  static constexpr std::uint64_t base = 0x9e37'79b9'7f4a'7c15U;  // odd, so that no bit is lost
  std::uint64_t hash_ = 0;
  std::uint64_t count_ = 0;
  bool verbose_ = false;
  std::array<Entry, 64> last_{};
};

}  // namespace baton::sim
