// The fields of the struct that each kind of request uses: one table, by which requests are checked
// and operations are filled in.
#pragma once

#include <cstdint>

#include "baton.h"
#include "baton/operation.hpp"

namespace baton::capi {

/// The use that a kind makes of a field of baton_operation.
enum class Use : std::uint8_t { none, optional, required };

/// The use that a kind makes of the address.
enum class Address : std::uint8_t {
  none,     ///< does not look at it
  given,    ///< goes there
  perhaps,  ///< goes there, or where the socket is connected to
  stored    ///< stores the peer's there, unless it is null
};

struct KindFacts {
  OperationKind kind;
  Use handle;
  Use buffer;  ///< data and length; or, with BATON_POOLED, a pool
  bool at_offset;
  Address address;
  Use deadline;
  std::uint16_t flags;   ///< that it knows
  std::uint16_t one_of;  ///< flags of which one must be set; 0: none must
};

/// Null for a number that is not a kind.
const KindFacts* facts_of(std::uint16_t kind) noexcept;

/// 0, or the reason why this cannot be an operation. The proactor checks whether the handle allows
/// it.
int check(const KindFacts& facts, const baton_operation& from) noexcept;

}  // namespace baton::capi
