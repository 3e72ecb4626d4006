// The fields of the struct that each kind of request uses: one table, by which requests are checked
// and operations are filled in.
#pragma once

#include <cstdint>
#include <limits>

#include "baton.h"
#include "baton/operation.hpp"

namespace baton::capi {

/// The use that a kind makes of the handle: a start pins it, a close takes its name away.
enum class HandleUse : std::uint8_t { none, pinned, closed };

/// The use that a kind makes of the address.
enum class Address : std::uint8_t {
  none,     ///< does not look at it
  given,    ///< goes there
  perhaps,  ///< goes there, or where the socket is connected to
  stored    ///< stores the peer's there, unless it is null
};

struct KindFacts {
  OperationKind kind;
  HandleUse handle;
  bool has_buffer;  ///< data and length; or, with BATON_POOLED, a pool
  bool at_offset;
  Address address;
  std::uint16_t flags;        ///< that it knows
  std::uint16_t one_of;       ///< flags of which one must be set; 0: none must
  std::int64_t deadline_min;  ///< `any`: does not look at it

  static constexpr std::int64_t any = std::numeric_limits<std::int64_t>::min();
  [[nodiscard]] constexpr bool has_deadline() const noexcept { return deadline_min != any; }
};

/// The facts of its kind; null when this cannot be an operation. The proactor checks whether the
/// handle allows it.
const KindFacts* check(const baton_operation& from) noexcept;

}  // namespace baton::capi
