// Handles: descriptors that are made known, sockets that are opened, their addresses, their end.
#include <sys/socket.h>

#include "baton/acceptor.hpp"
#include "capi/addresses.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"
#include "capi/submission.hpp"
#include "os/system.hpp"

using baton::Endpoint;
using baton::Handle;
using baton::HandleKind;
using baton::capi::code_of;
using baton::capi::Inside;
using baton::capi::PinnedHandle;

namespace {

constexpr int number(HandleKind kind) { return static_cast<int>(kind) + 1; }
static_assert(BATON_STREAM_SOCKET == number(HandleKind::stream_socket));
static_assert(BATON_PIPE == number(HandleKind::pipe));

int add_handle(baton_proactor& self, Handle& handle, baton_handle* out) noexcept {
  *out = self.handles.add(handle);
  if (*out != 0) return 0;
  self.proactor.close_detached(handle);
  return ENOMEM;
}

/// A non-blocking stream socket for the endpoint's family.
baton::Result<int> open_socket(const baton::os::System& system, const baton_endpoint& endpoint) {
  sockaddr address{};
  std::memcpy(&address, endpoint.address, sizeof(address));
  const int descriptor =
      system.socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor >= 0) return descriptor;
  return baton::unexpected{std::error_code{errno, std::system_category()}};
}

}  // namespace

int baton_adopt(baton_proactor* proactor, int descriptor, int kind, int ownership,
                baton_handle* out) {
  const Inside inside;
  const bool known = kind >= BATON_STREAM_SOCKET && kind <= BATON_PIPE &&
                     (ownership == BATON_OWNED || ownership == BATON_BORROWED);
  if (out == nullptr) return EINVAL;
  *out = 0;
  if (!known) return EINVAL;
  const auto handle = proactor->proactor.adopt(
      descriptor, static_cast<HandleKind>(kind - 1),
      ownership == BATON_OWNED ? baton::Ownership::owned : baton::Ownership::borrowed);
  if (!handle) return code_of(handle.error());
  return add_handle(*proactor, **handle, out);
}

int baton_listen(baton_proactor* proactor, const char* endpoint, int backlog, baton_handle* out) {
  const Inside inside;
  if (out == nullptr || endpoint == nullptr) return EINVAL;
  *out = 0;
  try {
    const auto where = Endpoint::parse(endpoint);
    if (!where) return EINVAL;
    auto acceptor = baton::Acceptor::listen(proactor->proactor, *where, {.backlog = backlog});
    if (!acceptor) return code_of(acceptor.error());
    return add_handle(*proactor, *acceptor->release(), out);
  } catch (...) {
    return baton::capi::code_of_exception();
  }
}

int baton_connect(baton_proactor* proactor, const char* endpoint, std::uint64_t tag,
                  std::int64_t deadline_ns, baton_handle* out, baton_activation* activation) {
  const Inside inside;
  if (out == nullptr) return EINVAL;
  *out = 0;
  baton_endpoint where{};
  if (const int error = baton_endpoint_parse(endpoint, &where)) return error;
  const auto descriptor = open_socket(proactor->system, where);
  if (!descriptor) return code_of(descriptor.error());
  if (const int error = baton_adopt(proactor, *descriptor, BATON_STREAM_SOCKET, BATON_OWNED, out)) {
    // Where only the name was missing, the close is under way already.
    if (error != ENOMEM) proactor->system.close(*descriptor);
    return error;
  }
  baton_operation operation = BATON_OPERATION_INIT;
  operation.kind = BATON_CONNECT;
  operation.handle = *out;
  operation.tag = tag;
  operation.deadline_ns = deadline_ns;
  operation.endpoint = &where;
  const int error = baton::capi::start(*proactor, operation, activation);
  if (error != 0) {
    baton_handle_close(proactor, *out);
    *out = 0;
  }
  return error;
}

int baton_handle_descriptor(baton_proactor* proactor, baton_handle handle) {
  const PinnedHandle pinned{proactor->handles, handle};
  return pinned.get() != nullptr ? pinned.get()->native() : -1;
}

int baton_local_endpoint(baton_proactor* proactor, baton_handle handle, baton_endpoint* out) {
  if (out == nullptr) return EINVAL;
  *out = {};
  const PinnedHandle pinned{proactor->handles, handle};
  if (pinned.get() == nullptr) return BATON_HANDLE_CLOSED;
  Endpoint address;
  socklen_t size = Endpoint::capacity;
  if (proactor->system.getsockname(pinned.get()->native(), static_cast<sockaddr*>(address.data()),
                                   &size) != 0) {
    return errno;
  }
  address.set_size(std::min<socklen_t>(size, Endpoint::capacity));
  baton::capi::copy(address, *out);
  return 0;
}

int baton_handle_close(baton_proactor* proactor, baton_handle handle) {
  const Inside inside;
  if (proactor->is_inherited()) return BATON_AFTER_FORK;
  Handle* closing = proactor->handles.begin_close(handle);
  if (closing == nullptr) return BATON_HANDLE_CLOSED;
  proactor->proactor.close_detached(*closing);
  return 0;
}
