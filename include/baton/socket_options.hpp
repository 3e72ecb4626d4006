// Socket options as typed values:
//
//   socket.set_option(option::NoDelay{true});
//   int bytes = socket.get_option<option::ReceiveBuffer>().value().bytes;
//
// Errors are the system's (ENOPROTOOPT where the option does not belong to that kind of socket),
// and EINVAL for a value that is negative or that the system's int cannot hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <system_error>
#include <type_traits>

#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/result.hpp"

namespace baton {
namespace option {

/// Names of the options; what the system calls them stays in the source file.
enum class Name : std::uint8_t {
  no_delay,
  keep_alive,
  keep_alive_idle,
  keep_alive_interval,
  keep_alive_count,
  reuse_address,
  reuse_port,
  broadcast,
  v6_only,
  receive_buffer,
  send_buffer,
};

/// An option that is on or off.
template <Name option>
struct Flag {
  static constexpr Name name = option;  ///< which option
  bool enabled = true;                  ///< on or off
};
using NoDelay = Flag<Name::no_delay>;            ///< TCP: send small segments at once
using KeepAlive = Flag<Name::keep_alive>;        ///< probe an idle connection
using ReuseAddress = Flag<Name::reuse_address>;  ///< bind although an earlier socket had it
using ReusePort = Flag<Name::reuse_port>;        ///< several sockets listen on one port
using Broadcast = Flag<Name::broadcast>;         ///< datagrams to broadcast addresses
using V6Only = Flag<Name::v6_only>;              ///< no IPv4 on an IPv6 socket; before bind

/// An option with a number of bytes.
template <Name option>
struct Size {
  static constexpr Name name = option;  ///< which option
  int bytes = 0;                        ///< the size
};
/// The kernel's buffers. Linux doubles the value, for its own bookkeeping, and returns the double.
using ReceiveBuffer = Size<Name::receive_buffer>;
using SendBuffer = Size<Name::send_buffer>;  ///< see ReceiveBuffer

/// An option with a length of time, in whole seconds.
template <Name option>
struct Seconds {
  static constexpr Name name = option;  ///< which option
  std::chrono::seconds span{};          ///< the time
};
using KeepAliveIdle = Seconds<Name::keep_alive_idle>;          ///< before the first probe
using KeepAliveInterval = Seconds<Name::keep_alive_interval>;  ///< between probes
/// Probes without an answer until the connection counts as dead.
struct KeepAliveCount {
  static constexpr Name name = Name::keep_alive_count;  ///< which option
  int probes = 0;                                       ///< how many
};

/// A close with unsent data: when enabled, it waits for up to `span` (with zero it throws the data
/// away and resets the connection). Baton then closes on a worker or on the ring.
struct Linger {
  bool enabled = false;         ///< whether close waits
  std::chrono::seconds span{};  ///< for how long, at most
};

}  // namespace option

namespace detail {

// On a bare descriptor, before it has a handle.
BATON_EXPORT std::error_code set_option(const os::System& system, int fd, option::Name name,
                                        std::int64_t value) noexcept;
BATON_EXPORT std::error_code set_option(Proactor& proactor, Handle& handle, option::Name name,
                                        std::int64_t value) noexcept;
BATON_EXPORT Result<int> get_option(Proactor& proactor, Handle& handle, option::Name name) noexcept;
BATON_EXPORT std::error_code set_linger(Proactor& proactor, Handle& handle,
                                        option::Linger linger) noexcept;
BATON_EXPORT Result<option::Linger> get_linger(Proactor& proactor, Handle& handle) noexcept;

template <option::Name name>
std::int64_t to_number(option::Flag<name> flag) noexcept {
  return flag.enabled ? 1 : 0;
}
template <option::Name name>
std::int64_t to_number(option::Size<name> size) noexcept {
  return size.bytes;
}
template <option::Name name>
std::int64_t to_number(option::Seconds<name> seconds) noexcept {
  return seconds.span.count();
}
inline std::int64_t to_number(option::KeepAliveCount count) noexcept { return count.probes; }

template <option::Name name>
void from_int(option::Flag<name>& flag, int value) noexcept {
  flag.enabled = value != 0;
}
template <option::Name name>
void from_int(option::Size<name>& size, int value) noexcept {
  size.bytes = value;
}
template <option::Name name>
void from_int(option::Seconds<name>& seconds, int value) noexcept {
  seconds.span = std::chrono::seconds(value);
}
inline void from_int(option::KeepAliveCount& count, int value) noexcept { count.probes = value; }

}  // namespace detail

/// set_option and get_option of a socket class, which derives from IoObject. Any thread. On a
/// closed socket they return errc::handle_closed.
template <class Socket>
class SocketOptions {
 public:
  /// Sets an option. Errors: the system's; EINVAL; errc::handle_closed.
  template <class Option>
  std::error_code set_option(Option value) noexcept {
    if (!self().is_open()) return make_error_code(errc::handle_closed);
    return detail::set_option(self().proactor(), *self().handle(), Option::name,
                              detail::to_number(value));
  }
  std::error_code set_option(option::Linger linger) noexcept {
    if (!self().is_open()) return make_error_code(errc::handle_closed);
    return detail::set_linger(self().proactor(), *self().handle(), linger);
  }
  /// Reads an option: get_option<option::NoDelay>(). Errors: as set_option.
  template <class Option>
  [[nodiscard]] Result<Option> get_option() const noexcept {
    if (!self().is_open()) return unexpected{make_error_code(errc::handle_closed)};
    if constexpr (requires { Option::name; }) {
      const Result<int> value =
          detail::get_option(self().proactor(), *self().handle(), Option::name);
      if (!value) return unexpected{value.error()};
      Option found;
      detail::from_int(found, *value);
      return found;
    } else {
      static_assert(std::is_same_v<Option, option::Linger>);
      return detail::get_linger(self().proactor(), *self().handle());
    }
  }

 private:
  [[nodiscard]] const Socket& self() const noexcept { return static_cast<const Socket&>(*this); }
};

}  // namespace baton
