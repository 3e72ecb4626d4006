#include "native/open_file.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace baton::native {
namespace {

/// 0, or an errno.
int find_kind(int fildes, mode_t mode, HandleKind& kind) noexcept {
  if (S_ISSOCK(mode)) {
    int type = 0;
    socklen_t size = sizeof(type);
    if (::getsockopt(fildes, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return errno;
    // The records of SOCK_SEQPACKET are a stream: they have an order and an end.
    const bool is_stream = type == SOCK_STREAM || type == SOCK_SEQPACKET;
    kind = is_stream ? HandleKind::stream_socket : HandleKind::datagram_socket;
    return 0;
  }
  // The files of eventfd, timerfd and inotify have no type. lseek(2) answers as if they had a
  // position.
  const bool positioned = S_ISREG(mode) || S_ISBLK(mode) || S_ISDIR(mode) ||
                          (S_ISCHR(mode) && ::lseek(fildes, 0, SEEK_CUR) >= 0);
  kind = positioned ? HandleKind::file : HandleKind::pipe;
  return 0;
}

}  // namespace

int look_at(int fildes, OpenFile& found) noexcept {
  struct stat status{};
  if (::fstat(fildes, &status) != 0) return errno;
  found.device = status.st_dev;
  found.inode = status.st_ino;
  found.directory = S_ISDIR(status.st_mode);
  const int error = find_kind(fildes, status.st_mode, found.kind);
  found.shares_inode = found.kind == HandleKind::pipe;
  return error;
}

}  // namespace baton::native
