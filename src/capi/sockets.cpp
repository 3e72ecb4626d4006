// Sockets: opened with their options, bound, listening, connected.
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "capi/addresses.hpp"
#include "capi/options.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"
#include "capi/submission.hpp"
#include "os/remove_path.hpp"
#include "os/system.hpp"

using baton::capi::find;
using baton::capi::Inside;
using baton::capi::Instance;
using baton::os::System;

namespace {

/// Closes a descriptor at the end of the scope, unless it was released.
class Descriptor {
 public:
  Descriptor(const System& system, int number) noexcept : system_(system), number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) system_.close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  const System& system_;
  int number_;
};

/// The system's number, of a family of the header or of an address; -1: none of the three.
int system_family(const baton_socket& from) noexcept {
  switch (from.family) {
    case 0:
      break;
    case BATON_IPV4:
      return AF_INET;
    case BATON_IPV6:
      return AF_INET6;
    case BATON_UNIX:
      return AF_UNIX;
    default:
      return -1;
  }
  if (from.local == nullptr) return -1;
  const int family = baton::capi::family_of(*from.local);
  return family == AF_INET || family == AF_INET6 || family == AF_UNIX ? family : -1;
}

int check(const baton_socket& from) noexcept {
  if (from.kind < BATON_STREAM_SOCKET || from.kind > BATON_DATAGRAM_SOCKET) return EINVAL;
  if (from.kind == BATON_LISTENER && from.local == nullptr) return EINVAL;
  if (from.local != nullptr && !baton::capi::is_address(from.local)) return EINVAL;
  const int family = system_family(from);
  if (family < 0) return EINVAL;
  if (from.local != nullptr && baton::capi::family_of(*from.local) != family) return EINVAL;
  if (from.options == nullptr && from.option_count != 0) return EINVAL;
  return from.reserved == 0 ? 0 : EINVAL;
}

int set_number(const System& system, int descriptor, int level, int name, int value) noexcept {
  return system.setsockopt(descriptor, level, name, &value, sizeof(value)) == 0 ? 0 : errno;
}

/// The defaults of baton::ListenOptions. The second is set in any case, because its default is a
/// system-wide setting.
int set_listener_defaults(const System& system, int descriptor, int family) noexcept {
  if (family == AF_UNIX) return 0;
  if (const int error = set_number(system, descriptor, SOL_SOCKET, SO_REUSEADDR, 1)) return error;
  return family == AF_INET6 ? set_number(system, descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 0) : 0;
}

/// Sets all options of an array. Returns whether close waits by the last SO_LINGER among them.
int set_options(const System& system, int descriptor, const baton_socket& from,
                bool& close_waits) noexcept {
  // All elements of an array have the size that the first one names.
  const std::size_t stride = from.option_count != 0 ? from.options->size : 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(from.options);
  for (std::size_t i = 0; i < from.option_count; ++i) {
    baton_option option{};
    if (const int error = baton::capi::copy_in(bytes + i * stride, stride, option)) return error;
    if (option.size != stride) return EINVAL;
    if (const int error = baton::capi::set_option(system, descriptor, option)) return error;
    if (baton::capi::is_linger(option)) close_waits = baton::capi::close_waits(option);
  }
  return 0;
}

int bind(const System& system, int descriptor, const baton_endpoint& local) noexcept {
  const auto* const address = reinterpret_cast<const sockaddr*>(local.address);
  return system.bind(descriptor, address, local.length) == 0 ? 0 : errno;
}

/// REQUIRES: `from` is of the library's own version, *out is 0.
int open_socket(Instance& self, const baton_socket& from, baton_handle* out) noexcept {
  if (const int error = check(from)) return error;
  const System& system = self.system;
  const int family = system_family(from);
  const int type = from.kind == BATON_DATAGRAM_SOCKET ? SOCK_DGRAM : SOCK_STREAM;
  Descriptor descriptor{system, system.socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (descriptor.get() < 0) return errno;
  bool close_waits = false;
  int error =
      from.kind == BATON_LISTENER ? set_listener_defaults(system, descriptor.get(), family) : 0;
  if (error == 0) error = set_options(system, descriptor.get(), from, close_waits);
  if (error == 0 && from.local != nullptr) error = bind(system, descriptor.get(), *from.local);
  const bool bound = error == 0 && from.local != nullptr;
  if (error == 0 && from.kind == BATON_LISTENER &&
      system.listen(descriptor.get(), from.backlog) != 0) {
    error = errno;
  }
  if (error == 0) {
    error = baton::capi::adopt_or_close(self, descriptor.release(),
                                        static_cast<baton::HandleKind>(from.kind - 1), {}, *out);
  }
  if (error != 0 && bound) {
    baton::os::remove_path(system, from.local->address, from.local->length);
  }
  if (error == 0 && close_waits) {
    const baton::capi::PinnedHandle pinned{self.handles, *out};
    self.proactor.set_close_may_block(*pinned.get(), true);
  }
  return error;
}

}  // namespace

int baton_socket_open(baton_proactor* proactor, const baton_socket* socket, baton_handle* out) {
  Instance* const self = find(proactor);
  const Inside inside;
  if (out == nullptr) return EINVAL;
  *out = 0;
  if (self == nullptr) return EINVAL;
  baton_socket copy{};
  const std::size_t size = socket != nullptr ? socket->size : 0;
  if (const int error = baton::capi::copy_in(socket, size, copy)) return error;
  return open_socket(*self, copy, out);
}

int baton_listen(baton_proactor* proactor, const char* endpoint, int backlog, baton_handle* out) {
  Instance* const self = find(proactor);
  const Inside inside;
  if (out == nullptr) return EINVAL;
  *out = 0;
  if (self == nullptr) return EINVAL;
  baton_endpoint local{};
  if (const int error = baton_endpoint_parse(endpoint, &local)) return error;
  baton_socket socket = BATON_SOCKET_INIT;
  socket.kind = BATON_LISTENER;
  socket.backlog = backlog;
  socket.local = &local;
  return open_socket(*self, socket, out);
}

int baton_connect(baton_proactor* proactor, const char* endpoint, std::uint64_t tag,
                  std::int64_t deadline_ns, baton_handle* out, baton_activation* activation) {
  Instance* const self = find(proactor);
  const Inside inside;
  if (out == nullptr) return EINVAL;
  *out = 0;
  if (self == nullptr) return EINVAL;
  baton_endpoint there{};
  if (const int error = baton_endpoint_parse(endpoint, &there)) return error;
  baton_socket socket = BATON_SOCKET_INIT;
  socket.kind = BATON_STREAM_SOCKET;
  socket.family = baton::capi::header_family(there);
  if (const int error = open_socket(*self, socket, out)) return error;
  baton_operation operation = BATON_OPERATION_INIT;
  operation.kind = BATON_CONNECT;
  operation.handle = *out;
  operation.tag = tag;
  operation.deadline_ns = deadline_ns;
  operation.endpoint = &there;
  int error = 0;
  if (baton::capi::start_all(*self, &operation, 1, activation, error) == 0) {
    baton_handle_close(proactor, *out);
    *out = 0;
  }
  return error;
}
