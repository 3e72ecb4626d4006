// Shared by the sources of this folder: opens sockets and reads their addresses, through
// os::System.
#pragma once

#include <fcntl.h>

#include <system_error>

#include "baton/endpoint.hpp"
#include "baton/handle.hpp"
#include "baton/io_object.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"
#include "os/system.hpp"

namespace baton::io {

/// errno as a value.
std::error_code last_error() noexcept;

/// A non-blocking, close-on-exec socket; EAFNOSUPPORT if the family is unspecified.
Result<int> open_socket(const os::System& system, AddressFamily family, int type) noexcept;

std::error_code bind(const os::System& system, int fd, const Endpoint& endpoint) noexcept;

/// errc::handle_closed if the object is closed, or was never open.
Result<Endpoint> local_endpoint(const IoObject& object) noexcept;
Result<Endpoint> remote_endpoint(const IoObject& object) noexcept;

/// Closes a descriptor at the end of the scope, unless it was released.
class Descriptor {
 public:
  Descriptor(const os::System& system, int fd) noexcept : system_(system), fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) system_.close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  const os::System& system_;
  int fd_;
};

/// Gives a descriptor that was just opened to the proactor (Proactor::adopt_opened). Closes it if
/// that fails.
Result<Handle*> adopt_or_close(Proactor& proactor, int fd, HandleKind kind, int flags,
                               Home home) noexcept;

/// The flags of a socket that was opened with SOCK_NONBLOCK.
inline constexpr int socket_flags = O_RDWR | O_NONBLOCK;

}  // namespace baton::io
