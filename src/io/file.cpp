// Files.
#include "baton/file.hpp"

#include <errno.h>
#include <fcntl.h>

#include <utility>

#include "core/core.hpp"
#include "io/native.hpp"
#include "os/system.hpp"

// O_DIRECT is not in POSIX; without it the flag is an error of open().
#ifndef O_DIRECT
#define O_DIRECT 0
#endif

namespace baton {
namespace {

int system_flags(FileFlags flags) noexcept {
  int result = O_CLOEXEC | O_NOCTTY;
  const bool reads = has(flags, FileFlags::read);
  const bool writes = has(flags, FileFlags::write | FileFlags::append);
  result |= reads && writes ? O_RDWR : writes ? O_WRONLY : O_RDONLY;
  if (has(flags, FileFlags::create)) result |= O_CREAT;
  if (has(flags, FileFlags::exclusive)) result |= O_EXCL;
  if (has(flags, FileFlags::truncate)) result |= O_TRUNC;
  if (has(flags, FileFlags::append)) result |= O_APPEND;
  if (has(flags, FileFlags::direct)) result |= O_DIRECT;
  if (has(flags, FileFlags::sync)) result |= O_SYNC;
  if (has(flags, FileFlags::data_sync)) result |= O_DSYNC;
  return result;
}

std::error_code check_is_file(const os::System& system, int fd) noexcept {
  struct stat status{};
  if (system.fstat(fd, &status) != 0) return io::last_error();
  if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) return {};
  if (S_ISDIR(status.st_mode)) return std::make_error_code(std::errc::is_a_directory);
  return std::make_error_code(std::errc::invalid_argument);
}

}  // namespace

Result<File> File::open(Proactor& proactor, const std::string& path, FileFlags flags,
                        FileOptions options) noexcept {
  const os::System& system = proactor.system();
  if (!has(flags, FileFlags::read_write | FileFlags::append) ||
      (has(flags, FileFlags::direct) && O_DIRECT == 0) ||
      path.find('\0') != std::string::npos) {  // the system would open the shorter name
    return unexpected{std::make_error_code(std::errc::invalid_argument)};
  }
  // First: an open makes a file and truncates it, and must do neither if the proactor refuses it.
  Proactor::Core::Place place{proactor.core()};
  if (const auto error = proactor.core().reserve(place, options.home)) return unexpected{error};
  // O_NONBLOCK: the open of a FIFO must not wait for its other end. For a file it means that the
  // open does not wait for a lease of another process (EAGAIN), so try again without it, once: a
  // file system may have EAGAIN as its own answer. If it stayed, some file systems would misbehave.
  // Errnos: EINTR is retried; the others are returned to the caller.
  const int system_flag = system_flags(flags);
  int fd = -1;
  int more = O_NONBLOCK;
  do {
    fd = system.open(path.c_str(), system_flag | more, static_cast<mode_t>(options.permissions));
  } while (fd < 0 && (errno == EINTR || (errno == EAGAIN && std::exchange(more, 0) != 0)));
  if (fd < 0) return unexpected{io::last_error()};
  io::Descriptor descriptor{system, fd};
  if (auto error = check_is_file(system, fd)) return unexpected{error};
  if (more != 0 && system.fcntl(fd, F_SETFL, system_flag) != 0) return unexpected{io::last_error()};
  const Result<Handle*> handle =
      proactor.core().adopt_opened(fd, HandleKind::file, system_flag, options.home, &place);
  if (!handle) return unexpected{handle.error()};
  descriptor.release();
  return File{proactor, **handle};
}

Result<File> File::adopt(Proactor& proactor, NativeHandle native, Ownership ownership,
                         Home home) noexcept {
  if (auto error = check_is_file(proactor.system(), native)) return unexpected{error};
  return adopt_as<File>(proactor, native, HandleKind::file, ownership, home);
}

Result<std::uint64_t> File::size() const noexcept {
  if (!is_open()) return unexpected{make_error_code(errc::handle_closed)};
  struct stat status{};
  if (proactor().system().fstat(native(), &status) != 0) return unexpected{io::last_error()};
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace baton
