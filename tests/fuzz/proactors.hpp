// The proactors among which harnesses choose. A byte of the input is an index into this list, so
// new ones are appended and the corpus keeps its meaning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton.h"

namespace baton::fuzz {

/// A new one with that many slots, for arrays of completions with that stride. The caller closes
/// it.
baton_proactor* open_proactor(std::uint8_t choice, std::uint32_t slots,
                              std::size_t completion_size);

/// One that is opened at its first use and stays, with slots enough.
baton_proactor* kept_proactor(std::uint8_t choice);

}  // namespace baton::fuzz
