// TransmitFile: ACE's operation of this name; Transmission carries it out.
#pragma once

#include "operations.hpp"

namespace baton::ace {

class TransmitFile final : public Opening<ACE_POSIX_Asynch_Transmit_File> {
 public:
  using Opening::Opening;
  /// Sends `bytes_to_write` bytes of the file (0: the rest of it) from the offset on, between
  /// header and trailer, either of which may be missing. `flags` mean something on Windows only.
  /// 0, or -1 and errno: EINVAL for a part that is not in the file, fstat's, and what
  /// Proactor::start_aio answers.
  int transmit_file(ACE_HANDLE file,
                    ACE_Asynch_Transmit_File::Header_And_Trailer* header_and_trailer,
                    std::size_t bytes_to_write, u_long offset, u_long offset_high,
                    std::size_t bytes_per_send, u_long flags, const void* act, int priority,
                    int signal_number) override;
};

}  // namespace baton::ace
