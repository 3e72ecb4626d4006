// O_ASYNC, its owner and its signal.
#include "demux/async_file.hpp"

#include <fcntl.h>

#include <cerrno>

namespace baton::demux {
namespace {

std::error_code last_error() noexcept { return {errno, std::system_category()}; }

void disown(const os::System& system, NativeHandle fd) noexcept {
  static_cast<void>(system.fcntl(fd, F_SETSIG, 0));
  const f_owner_ex no_owner{F_OWNER_TID, 0};
  static_cast<void>(system.fcntl(fd, F_SETOWN_EX, reinterpret_cast<long>(&no_owner)));
}

}  // namespace

// Sets the owner first: a terminal without one takes its whole process group. EINVAL: only a bug.
std::error_code arm(const os::System& system, NativeHandle fd, int signal_number,
                    SignalThread& thread) noexcept {
  const int flags = system.fcntl(fd, F_GETFL, 0);
  if (flags < 0) return last_error();
  if ((flags & O_ASYNC) != 0) return std::make_error_code(std::errc::device_or_resource_busy);
  if (const std::error_code error = thread.own(system, fd)) return error;
  std::error_code error;
  if (system.fcntl(fd, F_SETSIG, signal_number) < 0 ||
      system.fcntl(fd, F_SETFL, flags | O_ASYNC) < 0) {
    error = last_error();
  } else if (!is_armed(system, fd)) {
    error = std::make_error_code(std::errc::operation_not_supported);  // although F_SETFL succeeded
  }
  if (error) disown(system, fd);
  return error;
}

bool is_armed(const os::System& system, NativeHandle fd) noexcept {
  const int flags = system.fcntl(fd, F_GETFL, 0);
  return flags >= 0 && (flags & O_ASYNC) != 0;
}

void disarm(const os::System& system, NativeHandle fd) noexcept {
  const int flags = system.fcntl(fd, F_GETFL, 0);
  if (flags < 0 || (flags & O_ASYNC) == 0) return;
  static_cast<void>(system.fcntl(fd, F_SETFL, flags & ~O_ASYNC));
  disown(system, fd);
}

}  // namespace baton::demux
