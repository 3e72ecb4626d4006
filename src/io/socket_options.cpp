// Socket options by the system's names.
#include "baton/socket_options.hpp"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <limits>

#include "baton/error.hpp"
#include "baton/handle.hpp"
#include "baton/proactor.hpp"
#include "io/native.hpp"
#include "os/system.hpp"

namespace baton::detail {
namespace {

struct SystemName {
  int level;
  int name;
};

SystemName system_name(option::Name name) noexcept {
  using option::Name;
  switch (name) {
    case Name::no_delay:
      return {IPPROTO_TCP, TCP_NODELAY};
    case Name::keep_alive:
      return {SOL_SOCKET, SO_KEEPALIVE};
    case Name::keep_alive_idle:
      return {IPPROTO_TCP, TCP_KEEPIDLE};
    case Name::keep_alive_interval:
      return {IPPROTO_TCP, TCP_KEEPINTVL};
    case Name::keep_alive_count:
      return {IPPROTO_TCP, TCP_KEEPCNT};
    case Name::reuse_address:
      return {SOL_SOCKET, SO_REUSEADDR};
    case Name::reuse_port:
      return {SOL_SOCKET, SO_REUSEPORT};
    case Name::broadcast:
      return {SOL_SOCKET, SO_BROADCAST};
    case Name::v6_only:
      return {IPPROTO_IPV6, IPV6_V6ONLY};
    case Name::receive_buffer:
      return {SOL_SOCKET, SO_RCVBUF};
    case Name::send_buffer:
      return {SOL_SOCKET, SO_SNDBUF};
  }
  return {-1, -1};  // a number that is not a Name: the kernel returns ENOPROTOOPT
}

// No option takes a negative value.
bool fits(std::int64_t value) noexcept {
  return value >= 0 && value <= std::numeric_limits<int>::max();
}

}  // namespace

std::error_code set_option(const os::System& system, int fd, option::Name name,
                           std::int64_t value) noexcept {
  if (!fits(value)) return std::make_error_code(std::errc::invalid_argument);
  const SystemName to = system_name(name);
  const int number = static_cast<int>(value);
  if (system.setsockopt(fd, to.level, to.name, &number, sizeof(number)) != 0) {
    return io::last_error();
  }
  return {};
}

std::error_code set_option(Proactor& proactor, Handle& handle, option::Name name,
                           std::int64_t value) noexcept {
  return set_option(proactor.system(), handle.native(), name, value);
}

Result<int> get_option(Proactor& proactor, Handle& handle, option::Name name) noexcept {
  const SystemName of = system_name(name);
  int value = 0;
  socklen_t size = sizeof(value);
  if (proactor.system().getsockopt(handle.native(), of.level, of.name, &value, &size) != 0) {
    return unexpected{io::last_error()};
  }
  return value;
}

std::error_code set_linger(Proactor& proactor, Handle& handle, option::Linger linger) noexcept {
  if (!fits(linger.span.count())) return std::make_error_code(std::errc::invalid_argument);
  const ::linger value{linger.enabled ? 1 : 0, static_cast<int>(linger.span.count())};
  if (proactor.system().setsockopt(handle.native(), SOL_SOCKET, SO_LINGER, &value, sizeof(value)) !=
      0) {
    return io::last_error();
  }
  proactor.set_close_may_block(handle, linger.enabled && linger.span.count() > 0);
  return {};
}

Result<option::Linger> get_linger(Proactor& proactor, Handle& handle) noexcept {
  ::linger value{};
  socklen_t size = sizeof(value);
  if (proactor.system().getsockopt(handle.native(), SOL_SOCKET, SO_LINGER, &value, &size) != 0) {
    return unexpected{io::last_error()};
  }
  return option::Linger{value.l_onoff != 0, std::chrono::seconds(value.l_linger)};
}

}  // namespace baton::detail
