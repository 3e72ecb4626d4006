// Which streams keep records.
#include "engines/common/records.hpp"

#include <sys/socket.h>

namespace baton::engines {

bool find_out_records(const os::System& system, Handle& handle) noexcept {
  // O_DIRECT of a pipe: it holds packets (pipe(2)).
  bool kept = handle.kind() == HandleKind::pipe && handle.direct();
  if (handle.kind() == HandleKind::stream_socket) {
    int type = 0;
    socklen_t size = sizeof(type);
    // EBADF, ENOTSOCK: the transfer meets it, too.
    if (system.getsockopt(handle.native(), SOL_SOCKET, SO_TYPE, &type, &size) != 0) return true;
    kept = type != SOCK_STREAM;
  }
  handle.set_records(kept ? Handle::Records::kept : Handle::Records::none);
  return kept;
}

}  // namespace baton::engines
