// Which streams keep records, and how a long list is moved by one call.
#include "engines/common/records.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <array>

#include "base/uninitialized.hpp"
#include "baton/limits.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines {

bool find_out_records(const os::System& system, Handle& handle) noexcept {
  bool kept = false;
  if (handle.kind() == HandleKind::pipe && !handle.is_file() && !handle.is_terminal()) {
    // A pipe with O_DIRECT holds packets (pipe(2)). On files that are no pipes, such as
    // /dev/net/tun and /dev/kmsg, a write may be a message.
    struct stat status{};
    if (system.fstat(handle.native(), &status) != 0) return true;  // EBADF, as below
    kept = handle.direct() || !S_ISFIFO(status.st_mode);
  } else if (handle.kind() == HandleKind::stream_socket) {
    int type = 0;
    socklen_t size = sizeof(type);
    // EBADF, ENOTSOCK: the transfer gets the same error.
    if (system.getsockopt(handle.native(), SOL_SOCKET, SO_TYPE, &type, &size) != 0) return true;
    kept = type != SOCK_STREAM;
  }
  handle.set_records(kept ? Handle::Records::kept : Handle::Records::none);
  return kept;
}

ssize_t move_whole_list(const os::System& system, PipeCalls& pipes,
                        const Operation& operation) noexcept {
  BATON_UNINITIALIZED std::array<iovec, limits::buffers_max> pieces;
  const std::size_t count = remaining(operation, pieces);
  const Handle& handle = *operation.handle();
  const bool reads = operation.kind() == OperationKind::read_stream;
  if (handle.kind() != HandleKind::stream_socket) {
    return reads ? pipes.read(handle, pieces.data(), count)
                 : pipes.write(handle, pieces.data(), count);
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  return reads ? system.recvmsg(handle.native(), &message, MSG_DONTWAIT)
               : system.sendmsg(handle.native(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace baton::engines
