// The books of one file: what may stand in each of its bytes.
//
// Every write carries bytes of its own. A write and a read that are under way together may meet in
// either order, and so may two writes. So a byte has a set of possible values; a write that is
// complete before another starts takes the values of older ones out of the set. A sync is judged as
// a read of the state after a crash: it must see every write that was complete before it started.
//
// No time is used but the order of starts and completions, as the program sees them. So the books
// hold for a real file as well.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace baton::tools::simulation {

class FileBook {
 public:
  /// A moment: the number of starts and completions before it.
  using Moment = std::uint32_t;
  static constexpr Moment never = std::numeric_limits<Moment>::max();

  /// A write starts. Its number; `bytes_of` gives its bytes.
  std::uint32_t begin_write(std::uint64_t offset, std::size_t size);
  [[nodiscard]] const std::byte* bytes_of(std::uint32_t write) const noexcept;
  /// It is over and has moved so many bytes; 0: as one that was refused. `exact`: nothing else.
  void end_write(std::uint32_t write, std::size_t moved, bool exact = true);

  /// A read, or a sync, starts.
  Moment begin_read();
  /// It is over.
  void end_read(Moment begin);

  /// Null, or the fault of bytes that a read, begun then and not yet ended, has found.
  [[nodiscard]] const char* wrong(Moment begin, std::uint64_t offset,
                                  std::span<const std::byte> found) const noexcept;
  /// Can the file have ended there when that read met its end?
  [[nodiscard]] bool may_end_at(Moment begin, std::uint64_t offset) const noexcept;

 private:
  struct Write {
    std::uint32_t number;
    std::uint64_t offset;
    std::size_t size;   // it may have changed so many bytes
    std::size_t moved;  // and has changed so many
    Moment begin;
    Moment end;
  };
  struct Value {
    std::byte byte;
    Moment end;  // of its write; 0: of none
  };
  /// The possible values of one byte. More values than fit: anything.
  struct Cell {
    static constexpr std::size_t values_max = 3;
    std::array<Value, values_max> values{};
    std::uint8_t count = 1;  // at first a hole
    bool anything = false;
    void add(Value value, Moment overwrites_before) noexcept;
  };

  [[nodiscard]] static std::byte byte_of(const Write& write, std::uint64_t offset) noexcept;
  [[nodiscard]] bool possible(Moment begin, std::uint64_t offset, std::byte byte) const noexcept;
  void over(Moment begin);
  void settle();
  void settle(const Write& write);

  Moment now_ = 0;
  std::uint32_t next_ = 0;
  std::vector<Moment> under_way_;  // the starts of incomplete operations
  std::vector<Write> recent_;      // those that an operation under way may meet in either order
  std::vector<Cell> cells_;        // of the others
  std::uint64_t size_least_ = 0;   // of the others
  std::uint64_t size_most_ = 0;    // of all
};

/// The books of a file that is only appended to: every append stands there once, as far as it has
/// moved, in one piece, and behind those that were complete before it started.
class AppendBook {
 public:
  std::uint32_t begin_append();
  [[nodiscard]] static const std::byte* bytes_of(std::uint32_t append) noexcept;
  /// 0 bytes: as one that was refused.
  void end_append(std::uint32_t append, std::size_t moved);
  /// Null, or the fault of the whole file when nothing is in flight.
  [[nodiscard]] const char* wrong(std::span<const std::byte> file) const;

 private:
  struct Append {
    std::size_t moved = 0;
    FileBook::Moment begin = 0;
    FileBook::Moment end = FileBook::never;
  };
  FileBook::Moment now_ = 0;
  std::vector<Append> appends_;
};

}  // namespace baton::tools::simulation
