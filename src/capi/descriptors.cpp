// Handles: adopting descriptors, reading their properties, closing them.
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>

#include "capi/addresses.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"
#include "os/system.hpp"

using baton::Endpoint;
using baton::Handle;
using baton::HandleKind;
using baton::Home;
using baton::Ownership;
using baton::capi::code_of;
using baton::capi::find;
using baton::capi::Inside;
using baton::capi::Instance;
using baton::capi::PinnedHandle;
using baton::os::System;

namespace {

constexpr int number(HandleKind kind) { return static_cast<int>(kind) + 1; }
static_assert(BATON_STREAM_SOCKET == number(HandleKind::stream_socket));
static_assert(BATON_PIPE == number(HandleKind::pipe));

/// Of a handle that was just adopted. ENOMEM: there is no memory for it. Then it is closed.
int name(Instance& self, Handle& handle, baton_handle& out) noexcept {
  const baton_handle named = self.handles.add(handle);
  if (named == 0) {
    self.proactor.close_detached(handle);
    return ENOMEM;
  }
  out = named;
  return 0;
}

using AskAddress = int (*)(int descriptor, sockaddr* address, socklen_t* size);

int tell_address(const Instance* self, baton_handle handle, AskAddress System::* ask,
                 baton_endpoint* out) noexcept {
  if (out == nullptr) return EINVAL;
  *out = {};
  if (self == nullptr) return EINVAL;
  const PinnedHandle pinned{self->handles, handle};
  if (pinned.get() == nullptr) return BATON_HANDLE_CLOSED;
  Endpoint address;
  socklen_t size = Endpoint::capacity;
  if ((self->system.*ask)(pinned.get()->native(), static_cast<sockaddr*>(address.data()), &size) !=
      0) {
    return errno;
  }
  address.set_size(std::min<socklen_t>(size, Endpoint::capacity));
  baton::capi::copy(address, *out);
  return 0;
}

}  // namespace

int baton::capi::adopt_or_close(Instance& self, int descriptor, HandleKind kind, Home home,
                                baton_handle& out) noexcept {
  const auto handle = self.proactor.adopt_opened(descriptor, kind, O_RDWR | O_NONBLOCK, home);
  if (handle) return name(self, **handle, out);
  self.system.close(descriptor);
  return code_of(handle.error());
}

int baton_adopt(baton_proactor* proactor, int descriptor, int kind, int ownership,
                baton_handle* out) {
  Instance* const self = find(proactor);
  const Inside inside;
  const bool known = kind >= BATON_STREAM_SOCKET && kind <= BATON_PIPE &&
                     (ownership == BATON_OWNED || ownership == BATON_BORROWED);
  if (out == nullptr) return EINVAL;
  *out = 0;
  if (self == nullptr || !known) return EINVAL;
  const auto handle =
      self->proactor.adopt(descriptor, static_cast<HandleKind>(kind - 1),
                           ownership == BATON_OWNED ? Ownership::owned : Ownership::borrowed);
  if (handle) return name(*self, **handle, *out);
  // As when there is no memory for its name.
  const int error = code_of(handle.error());
  if (error == ENOMEM && ownership == BATON_OWNED) self->system.close(descriptor);
  return error;
}

int baton_handle_descriptor(baton_proactor* proactor, baton_handle handle) {
  Instance* const self = find(proactor);
  if (self == nullptr) return -1;
  const PinnedHandle pinned{self->handles, handle};
  return pinned.get() != nullptr ? pinned.get()->native() : -1;
}

int baton_local_endpoint(baton_proactor* proactor, baton_handle handle, baton_endpoint* out) {
  return tell_address(find(proactor), handle, &System::getsockname, out);
}

int baton_remote_endpoint(baton_proactor* proactor, baton_handle handle, baton_endpoint* out) {
  return tell_address(find(proactor), handle, &System::getpeername, out);
}

int baton_handle_close(baton_proactor* proactor, baton_handle handle) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  if (self->is_inherited()) return BATON_AFTER_FORK;
  Handle* closing = self->handles.begin_close(handle);
  if (closing == nullptr) return BATON_HANDLE_CLOSED;
  self->proactor.close_detached(*closing);
  return 0;
}
