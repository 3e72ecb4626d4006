// Turns a request into a started operation: the one path of all starts.
#pragma once

#include "baton.h"
#include "capi/proactor.hpp"

namespace baton::capi {

/// Starts one request in a slot. 0, or the error: then no completion comes. REQUIRES: `from` is of
/// the library's own version.
int start(Instance& self, const baton_operation& from, baton_activation* activation) noexcept;

/// The work of baton_start; returns how many were taken, and why the next one was not.
int start_all(Instance& self, const baton_operation* operations, int count,
              baton_activation* activations, int& why_not) noexcept;

}  // namespace baton::capi
