// Finds out by trying which features the kernel and any system-call filter allow.
#pragma once

#include "baton/error.hpp"
#include "baton/result.hpp"
#include "engines/io_uring/prepare.hpp"
#include "os/system.hpp"

namespace baton::engines::uring {

struct ProbeReport {
  KernelFacts facts;
  bool pinned = false;  ///< SINGLE_ISSUER with DEFER_TASKRUN works
};

/// Features that the engine uses if it can.
struct ProbeWish {
  bool pinned = false;   ///< the pinned form is tried first
  bool message = false;  ///< interrupts by messages to the ring
};

/// Sets up a small ring, runs a no-op through it, and asks for every request that the engine uses.
/// The Failure is written for a person.
Result<ProbeReport, Failure> probe(const os::System& system, const ProbeWish& wish);

/// The Failure for a ring that could not be set up, by errno.
Failure setup_failure(const os::System& system, int error);

}  // namespace baton::engines::uring
