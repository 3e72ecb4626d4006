// One pass over a file through a proactor: numbered blocks are written, or read and compared, with
// a fixed number of operations in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "baton/file.hpp"
#include "baton/proactor.hpp"
#include "errors.hpp"
#include "histogram.hpp"
#include "pattern.hpp"

namespace baton::tools {

// Memory, offsets and sizes of direct transfers are multiples of this: enough for every device.
inline constexpr std::size_t file_alignment = 4096;

struct AlignedDelete {
  void operator()(std::byte* memory) const {
    ::operator delete[](memory, std::align_val_t{file_alignment});
  }
};
using AlignedBlock = std::unique_ptr<std::byte[], AlignedDelete>;
AlignedBlock aligned_block(std::size_t size);

// The outcome of one pass.
struct FilePassResult {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  double elapsed_s = 0;
  Histogram latencies;
};

// `depth` slots, each with an operation and a block, go through the file again and again until the
// time is over, or once without a time. There is one thread in run(), so handlers need no lock.
class FilePass {
 public:
  enum class Kind { write, check };

  // `size` of the file, a multiple of `block`.
  FilePass(Proactor& proactor, File& file, const Pattern& pattern, std::size_t block,
           std::size_t depth, std::uint64_t size, LoadErrors& errors);

  // Blocks are read in a random order, the same in every run, for as long as the time lasts.
  void read_at_random() { random_ = true; }
  void compare_nothing() { compare_ = false; }

  // `seconds` 0: the whole file once, in order.
  const FilePassResult& run(Kind kind, double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    Operation operation;
    AlignedBlock block;
    std::uint64_t offset = 0;
    Clock::time_point started;
  };

  bool over() const;
  std::uint64_t next_offset();
  void next(Slot& slot);
  std::error_code start(Slot& slot);
  void on_complete(Slot& slot);
  void compare(const Slot& slot);
  template <typename Visit>
  void for_each_piece(const Slot& slot, Visit&& visit);

  Proactor& proactor_;
  File& file_;
  const Pattern& pattern_;
  const std::size_t block_;
  const std::uint64_t size_;
  LoadErrors& errors_;
  std::vector<Slot> slots_;
  bool random_ = false;
  bool compare_ = true;
  std::minstd_rand generator_;
  Kind kind_ = Kind::check;
  Clock::time_point start_;
  Clock::time_point end_;
  bool once_ = false;
  std::uint64_t offset_ = 0;  // of the next block, counted through all rounds
  std::size_t in_flight_ = 0;
  std::atomic<std::uint64_t> count_{0};
  FilePassResult result_;
};

}  // namespace baton::tools
