// The faults of native AIO, on top of those of files (../engines/fault_system.hpp). One set of
// faults for the whole program. Asking for the table resets both.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "../engines/fault_system.hpp"
#include "../support/relaxed.hpp"
#include "os/system.hpp"

namespace baton::test {

struct AioFaults {
  Relaxed<int> setup_error = 0;
  Relaxed<bool> hide_ring = false;        ///< the ring has an unknown layout: io_getevents does all
  Relaxed<const char*> sysctl = nullptr;  ///< what fs.aio-max-nr reads as; null: the real one
  // io_submit, of all but interrupts
  Relaxed<int> submit_error = 0;  ///< the next `submit_failures` calls fail with it
  Relaxed<unsigned> submit_failures = 0;
  Relaxed<unsigned> submit_max = 0;    ///< takes no more at once; 0: any number
  Relaxed<int> refused = 0;            ///< whenever the first request is a transfer with RWF_NOWAIT
  Relaxed<int> poll_error = 0;         ///< of interrupts
  std::function<void()> on_refusal{};  ///< called before a call fails with `submit_error`
  // io_getevents, with a hidden ring
  Relaxed<unsigned> interrupted = 0;  ///< the next calls answer EINTR
  Relaxed<std::int64_t> result = 0;   ///< the value of the next `results` completions
  Relaxed<unsigned> results = 0;

  // Observations.
  Relaxed<unsigned> setups = 0;
  Relaxed<unsigned> slots = 0;  ///< asked for by the last io_setup
  Relaxed<unsigned> submits = 0;
  Relaxed<unsigned> submitted = 0;      ///< requests
  std::vector<std::int64_t> offsets{};  ///< theirs, as the kernel has taken them
  std::vector<unsigned> commands{};     ///< likewise: IOCB_CMD_...
  Relaxed<unsigned> waits = 0;          ///< io_getevents
  Relaxed<unsigned> cancels = 0;
  Relaxed<unsigned> destroyed = 0;
};

AioFaults& aio_faults();
/// Resets all orders and returns the table that follows them.
const os::System& aio_system();

}  // namespace baton::test
