// Copies between memory of ours and memory that may not be mapped.
#include "os/probe_memory.hpp"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

namespace baton::os {
namespace {

using Copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                         unsigned long);

/// `reads`: from theirs to ours, else the other way.
bool copy_by(Copy copy, bool reads, void* ours, void* theirs, std::size_t size) noexcept {
  auto* our_bytes = static_cast<std::byte*>(ours);
  auto* their_bytes = static_cast<std::byte*>(theirs);
  while (size > 0) {
    const iovec local{our_bytes, size};
    const iovec remote{their_bytes, size};
    const ssize_t moved = copy(::getpid(), &local, 1, &remote, 1, 0);
    if (moved > 0) {
      our_bytes += moved;
      their_bytes += moved;
      size -= static_cast<std::size_t>(moved);
      continue;
    }
    if (moved < 0 && (errno == EPERM || errno == ENOSYS)) {
      std::memcpy(reads ? our_bytes : their_bytes, reads ? their_bytes : our_bytes, size);
      return true;
    }
    return false;  // EFAULT; a call that moves nothing counts as that
  }
  return true;
}

}  // namespace

bool copy_if_readable(void* to, const void* from, std::size_t size) noexcept {
  const int kept = errno;
  const bool good = copy_by(::process_vm_readv, true, to, const_cast<void*>(from), size);
  errno = kept;
  return good;
}

bool copy_if_writable(void* to, const void* from, std::size_t size) noexcept {
  const int kept = errno;
  const bool good = copy_by(::process_vm_writev, false, const_cast<void*>(from), to, size);
  errno = kept;
  return good;
}

}  // namespace baton::os
