// Socket options by number: sets them on a descriptor or a handle, and reads them.
#include "capi/options.hpp"

#include <errno.h>
#include <sys/socket.h>

#include <cstring>

#include "capi/proactor.hpp"
#include "capi/structs.hpp"

using baton::capi::find;
using baton::capi::Inside;
using baton::capi::Instance;
using baton::capi::PinnedHandle;

namespace baton::capi {

int set_option(const os::System& system, int descriptor, const baton_option& option) noexcept {
  if (option.value == nullptr && option.value_size != 0) return EINVAL;
  const int answer = system.setsockopt(descriptor, option.level, option.name, option.value,
                                       static_cast<socklen_t>(option.value_size));
  return answer == 0 ? 0 : errno;
}

bool is_linger(const baton_option& option) noexcept {
  return option.level == SOL_SOCKET && option.name == SO_LINGER &&
         option.value_size >= sizeof(::linger);
}

bool close_waits(const baton_option& option) noexcept {
  ::linger value{};
  std::memcpy(&value, option.value, sizeof(value));
  return value.l_onoff != 0 && value.l_linger > 0;
}

}  // namespace baton::capi

int baton_set_option(baton_proactor* proactor, baton_handle handle, const baton_option* option) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  baton_option copy{};
  const std::size_t size = option != nullptr ? option->size : 0;
  if (const int error = baton::capi::copy_in(option, size, copy)) return error;
  const PinnedHandle pinned{self->handles, handle};
  if (pinned.get() == nullptr) return BATON_HANDLE_CLOSED;
  const int error = baton::capi::set_option(self->system, pinned.get()->native(), copy);
  if (error == 0 && baton::capi::is_linger(copy)) {
    self->proactor.set_close_may_block(*pinned.get(), baton::capi::close_waits(copy));
  }
  return error;
}

int baton_get_option(baton_proactor* proactor, baton_handle handle, int level, int name,
                     void* value, std::uint32_t* value_size) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  if (value == nullptr || value_size == nullptr) return EINVAL;
  const PinnedHandle pinned{self->handles, handle};
  if (pinned.get() == nullptr) return BATON_HANDLE_CLOSED;
  socklen_t size = *value_size;
  if (self->system.getsockopt(pinned.get()->native(), level, name, value, &size) != 0) {
    return errno;
  }
  *value_size = size;
  return 0;
}
