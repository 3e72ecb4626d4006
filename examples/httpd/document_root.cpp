// openat2 with RESOLVE_BENEATH (since Linux 5.6). If there is none, or a filter of system calls
// hides it, the path is walked step by step, and no link is followed. That serves less than the
// other way, but never more.
#include "document_root.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace httpd {
namespace {

// A look at what a name means, which the other end of a FIFO does not notice: one that was opened
// and closed again would kill a writer that had waited for it.
constexpr int look_flags = O_PATH | O_CLOEXEC;
// O_NONBLOCK: should the name mean a FIFO by now, the open does not wait for a writer.
constexpr int read_flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
// A rename somewhere in the path at the same moment makes the kernel say EAGAIN.
constexpr int tries = 8;

std::error_code last_error() { return {errno, std::system_category()}; }

std::error_code look_at(int descriptor, Opened& opened) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return last_error();
  opened.kind = S_ISREG(status.st_mode)   ? Opened::Kind::file
                : S_ISDIR(status.st_mode) ? Opened::Kind::folder
                                          : Opened::Kind::other;
  opened.size = static_cast<std::uint64_t>(status.st_size);
  opened.modified = {status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  opened.device = status.st_dev;
  opened.inode = status.st_ino;
  return {};
}

// With O_PATH a link is opened itself; it is one that must not be followed.
int open_last(int folder, const char* name, int flags) {
  const int descriptor = ::openat(folder, name, flags | O_NOFOLLOW);
  struct stat status{};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0 || !S_ISLNK(status.st_mode)) {
    return descriptor;
  }
  ::close(descriptor);
  errno = ELOOP;
  return -1;
}

}  // namespace

Opened& Opened::operator=(Opened&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = other.release();
  kind = other.kind;
  size = other.size;
  modified = other.modified;
  device = other.device;
  inode = other.inode;
  return *this;
}

Opened::~Opened() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DocumentRoot::~DocumentRoot() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::error_code DocumentRoot::open(const std::string& folder) {
  descriptor_ = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) return last_error();
  // Probed by doing. ENOSYS: an older kernel; EPERM: a container's filter that is older than it.
  const int probe = open_beneath(".", read_flags);
  if (probe >= 0) {
    ::close(probe);
  } else if (errno == ENOSYS || errno == EPERM) {
    beneath_ = false;
  } else {
    return last_error();
  }
  return {};
}

std::error_code DocumentRoot::open_below(const std::string& path, Opened& opened) const {
  Opened fresh;
  if (const std::error_code error = open_as(path, look_flags, fresh)) return error;
  if (fresh.kind != Opened::Kind::other) {
    if (const std::error_code error = open_as(path, read_flags, fresh)) return error;
  }
  opened = std::move(fresh);
  return {};
}

std::error_code DocumentRoot::open_as(const std::string& path, int flags, Opened& opened) const {
  Opened fresh;
  fresh.descriptor_ = beneath_ ? open_beneath(path.empty() ? "." : path.c_str(), flags)
                               : open_by_steps(path, flags);
  if (fresh.descriptor_ < 0) return last_error();
  if (const std::error_code error = look_at(fresh.descriptor_, fresh)) return error;
  opened = std::move(fresh);
  return {};
}

int DocumentRoot::open_beneath(const char* path, int flags) const {
  open_how how{};
  how.flags = static_cast<unsigned>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  long descriptor = -1;
  for (int i = 0; i < tries; ++i) {
    descriptor = ::syscall(SYS_openat2, descriptor_, path, &how, sizeof(how));
    if (descriptor >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  return static_cast<int>(descriptor);
}

// Each folder on the way is opened in the one before it, so that no link can be slipped in between
// the look and the use. A link as the last name is ELOOP, one on the way ENOTDIR.
int DocumentRoot::open_by_steps(const std::string& path, int flags) const {
  int folder = ::openat(descriptor_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  std::size_t begin = 0;
  while (folder >= 0) {
    const std::size_t slash = path.find('/', begin);
    std::string name = path.substr(begin, slash == std::string::npos ? slash : slash - begin);
    if (name.empty()) name = ".";
    const bool last = slash == std::string::npos;
    const bool climbs = name == "..";
    const int next =
        climbs ? -1
        : last ? open_last(folder, name.c_str(), flags)
               : ::openat(folder, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int error = climbs ? EXDEV : errno;
    ::close(folder);
    errno = error;
    if (last || next < 0) return next;
    folder = next;
    begin = slash + 1;
  }
  return folder;
}

}  // namespace httpd
