#include "native/open_file.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace baton::native {
namespace {

HandleKind kind_of(int fildes, mode_t mode) noexcept {
  if (S_ISREG(mode) || S_ISBLK(mode)) return HandleKind::file;
  if (S_ISSOCK(mode)) {
    int type = SOCK_STREAM;
    socklen_t size = sizeof(type);
    ::getsockopt(fildes, SOL_SOCKET, SO_TYPE, &type, &size);
    return type == SOCK_STREAM ? HandleKind::stream_socket : HandleKind::datagram_socket;
  }
  const bool positioned = !S_ISFIFO(mode) && ::lseek(fildes, 0, SEEK_CUR) >= 0;
  return positioned ? HandleKind::file : HandleKind::pipe;
}

}  // namespace

int look_at(int fildes, OpenFile& found) noexcept {
  struct stat status{};
  if (::fstat(fildes, &status) != 0) return errno;
  found.device = status.st_dev;
  found.inode = status.st_ino;
  found.kind = kind_of(fildes, status.st_mode);
  found.directory = S_ISDIR(status.st_mode);
  return 0;
}

}  // namespace baton::native
