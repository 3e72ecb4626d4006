// Draws: draws the next faults from a seed. The same seed and the same order of starts give the
// same faults; with several threads the order of starts varies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "baton/config.hpp"
#include "baton/deadline.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"

namespace baton::engines::chaos {

/// The faults drawn for one operation.
struct Fate {
  bool in_parts = false;
  int error = 0;           ///< fails with it before any byte is moved
  Duration before{0};      ///< delay before the engine gets it
  Duration afterwards{0};  ///< delay before its completion is reported
};

class Draws {
 public:
  explicit Draws(const ProcessorConfig& config) noexcept;

  [[nodiscard]] Fate fate(const Operation& operation) noexcept;
  /// The size of the next part of `left` bytes: 1 to all. `aligned`: a multiple of a block stays
  /// one, as direct I/O requires.
  [[nodiscard]] std::size_t part(std::size_t left, bool aligned) noexcept;
  /// How long a cancel is postponed; zero: not at all.
  [[nodiscard]] Duration late_cancel() noexcept;

 private:
  bool of_hundred(std::uint32_t count) noexcept;
  std::uint64_t below(std::uint64_t end) noexcept;
  Duration delay() noexcept;
  int error_of(const Operation& operation) noexcept;

  const std::uint32_t short_;
  const std::uint32_t delay_;
  const std::uint32_t delay_us_;
  const std::uint32_t error_;
  const std::uint32_t late_cancel_;
  std::mt19937_64 random_;
};

}  // namespace baton::engines::chaos
