// Streams that keep records: each write is one, and a read takes no more than one. What is written
// together would become one record, and a list that goes in parts several.
#pragma once

#include "base/assert.hpp"
#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Asks the system; true as well where it cannot tell, and then asks again the next time.
bool find_out_records(const os::System& system, Handle& handle) noexcept;

/// Of a stream. One system call for each handle, when it first matters.
inline bool keeps_records(const os::System& system, Handle& handle) noexcept {
  if (BATON_LIKELY(handle.records() == Handle::Records::none)) return false;
  return handle.records() == Handle::Records::kept || find_out_records(system, handle);
}

}  // namespace baton::engines
