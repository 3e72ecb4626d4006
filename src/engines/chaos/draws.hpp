// Draws: what goes wrong next, from a seed. The same seed and the same order of starts draw the
// same troubles; with several threads the order is theirs.
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
  int error = 0;           ///< fails with it, before anything is moved
  Duration before{0};      ///< rests so long before the engine gets it
  Duration afterwards{0};  ///< and its completion so long before it is told
};

class Draws {
 public:
  explicit Draws(const ProcessorConfig& config) noexcept;

  [[nodiscard]] Fate fate(const Operation& operation) noexcept;
  /// How much of `left` bytes, at least one, is moved at once: 1 to all. `aligned`: what is whole
  /// blocks, as direct I/O asks for, stays so.
  [[nodiscard]] std::size_t part(std::size_t left, bool aligned) noexcept;
  /// How long a cancel is kept back; zero: not at all.
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
