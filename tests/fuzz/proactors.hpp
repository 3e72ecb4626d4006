// Proactors for harnesses whose inputs choose the engine: the one list of them. A byte of the input
// is an index into it, so new ones go to the end, and the corpus keeps its meaning.
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
