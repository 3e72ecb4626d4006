// An interrupt strategy of a user's program, written against the public contract: a pipe.
#pragma once

#include <baton/interrupt_strategy.hpp>
#include <memory>

baton::Result<std::unique_ptr<baton::InterruptStrategy>, baton::Failure> open_wake_pipe(
    const baton::InterruptOptions& options);
