// Turns a request into a started operation: the one path of all starts.
#pragma once

#include "baton.h"
#include "capi/proactor.hpp"

namespace baton::capi {

/// The work of baton_start; returns how many were taken, and why the next one was not.
int start_all(Instance& self, const baton_operation* operations, int count,
              baton_activation* activations, int& why_not) noexcept;

}  // namespace baton::capi
