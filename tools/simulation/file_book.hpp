// The books of one file: the possible values of each byte.
//
// Every write has bytes of its own. A write and a read in flight at the same time may happen in
// either order, and so may two writes. So a byte has a set of possible values. A write that starts
// after another was complete removes that one's value, and older ones, from the set. A sync is
// judged as a read of the state after a crash: it must see every write that was complete before it
// started.
//
// Only the order of starts and completions counts, as the program sees them. So the books hold for
// a real file as well.
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
  /// It is complete and has moved so many bytes; 0: as if refused. `exact`: no others.
  void end_write(std::uint32_t write, std::size_t moved, bool exact = true);

  /// A read, or a sync, starts.
  Moment begin_read();
  /// It is complete.
  void end_read(Moment begin);

  /// Null, or the fault of bytes that a read, begun then and not yet ended, has found.
  [[nodiscard]] const char* wrong(Moment begin, std::uint64_t offset,
                                  std::span<const std::byte> found) const noexcept;
  /// Whether the file can have ended there when that read reached its end.
  [[nodiscard]] bool may_end_at(Moment begin, std::uint64_t offset) const noexcept;

 private:
  struct Write {
    std::uint32_t number;
    std::uint64_t offset;
    std::size_t size;   // the bytes that it may have changed
    std::size_t moved;  // the bytes that it has changed
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
  std::vector<Write> recent_;      // may be ordered either way with an operation in flight
  std::vector<Cell> cells_;        // of the others
  std::uint64_t size_least_ = 0;   // of the others
  std::uint64_t size_most_ = 0;    // of all
};

/// The books of a file that is only appended to: it contains the moved bytes of every append once,
/// in one piece, behind the appends that were complete before its start.
class AppendBook {
 public:
  std::uint32_t begin_append();
  [[nodiscard]] static const std::byte* bytes_of(std::uint32_t append) noexcept;
  /// 0 bytes: as if refused.
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
