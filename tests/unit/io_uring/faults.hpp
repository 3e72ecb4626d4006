// A system-call table with faults that tests request. One set of faults for the whole program; a
// test resets it.
#pragma once

#include <cstdint>

#include "../support/relaxed.hpp"
#include "os/system.hpp"

namespace baton::test {

struct Faults {
  // io_uring_setup
  Relaxed<int> setup_error = 0;              ///< fails with it
  Relaxed<std::uint32_t> unknown_flags = 0;  ///< EINVAL when one of these is requested
  Relaxed<std::uint32_t> hidden_features = 0;
  // io_uring_enter: of `period` calls, about `failing` fail
  Relaxed<int> enter_error = 0;
  Relaxed<unsigned> period = 0;
  Relaxed<unsigned> failing = 0;
  Relaxed<unsigned> submit_max = 0;  ///< at most so many requests at once; 0: any number
  // others
  Relaxed<int> hidden_opcode = -1;  ///< io_uring_register reports it as missing
  Relaxed<int> message_error = 0;   ///< of messages to a ring
  Relaxed<bool> no_signal_flag_unknown = false;
  Relaxed<bool> no_multishot_poll = false;
  Relaxed<bool> fruitless_receives = false;  ///< polls report at once, and receives find nothing
  Relaxed<unsigned> hasty_sends = 0;     ///< in so many calls, sends without room end with EAGAIN
  Relaxed<bool> loses_receives = false;  ///< those handed over meanwhile complete without a word
  Relaxed<char> sysctl = 0;         ///< what kernel.io_uring_disabled reads as; 0: the real file
  Relaxed<unsigned> fail_call = 0;  ///< this call fails with ENOMEM, whatever it is; counted from 1

  // Observations.
  Relaxed<unsigned> calls = 0;
  Relaxed<unsigned> enters = 0;
  Relaxed<std::uint32_t> flags = 0;  ///< of the last ring that was set up
};

/// Resets the orders and returns the table that follows them.
const os::System& faulty_system();
Faults& faults();

}  // namespace baton::test
