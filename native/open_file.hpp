// OpenFile: which open file a descriptor's number names. For the ACE bridge, which borrows
// descriptors and must notice that a number was closed and handed out again.
#pragma once

#include <sys/types.h>

#include "baton/handle.hpp"

namespace baton::native {

struct OpenFile {
  dev_t device = 0;
  ino_t inode = 0;
  HandleKind kind = HandleKind::file;
  bool directory = false;     ///< cannot be read or written (EISDIR)
  bool shares_inode = false;  ///< other open files may look the same: see look_at

  friend bool operator==(const OpenFile&, const OpenFile&) noexcept = default;
};

/// Looks at a number: 0, or the system's error (EBADF: it names no open file). A socket is a stream
/// or a datagram socket, whether it listens or not. A device with a position is a file, one without
/// is a pipe, and so are the kernel's nameless files (eventfd, timerfd, inotify). These share one
/// inode, so they all look the same here, and so do a device or a FIFO that is opened twice. One
/// system call; two for a socket or a device.
int look_at(int fildes, OpenFile& found) noexcept;

}  // namespace baton::native
