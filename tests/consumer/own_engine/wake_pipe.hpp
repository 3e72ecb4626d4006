// An interrupt strategy of a program's own, by the public contract alone: a pipe.
#pragma once

#include <baton/interrupt_strategy.hpp>
#include <memory>

baton::Result<std::unique_ptr<baton::InterruptStrategy>, baton::Failure> open_wake_pipe(
    const baton::InterruptOptions& options);
