#include <ace/Message_Block.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>

#include "connections.hpp"
#include "results.hpp"

namespace baton::ace {
namespace {

/// Makes the descriptor like those that ACE's own implementation gets from accept(2): blocking, and
/// open across exec.
void make_plain(int fildes) noexcept {
  ::fcntl(fildes, F_SETFL, 0);
  ::fcntl(fildes, F_SETFD, 0);
}

void accepted(Bridge& bridge, void* what, Outcome outcome) {
  auto& result = *static_cast<ACE_POSIX_Asynch_Result*>(what);
  result.aio_fildes = ACE_INVALID_HANDLE;
  if (outcome.error == 0) {
    const auto fildes = static_cast<int>(outcome.bytes);
    bridge.descriptors().let_go(fildes);  // an earlier file had the number
    if (handler_is_gone(result)) {
      ::close(fildes);  // no other code does
    } else {
      make_plain(fildes);
      result.aio_fildes = fildes;
    }
  }
  bridge.dispatch(result, {0, outcome.error});
}

}  // namespace

Accept::~Accept() {
  if (!opened_) return;
  // The number may belong to other code by now: to a connection whose operations go on.
  native::OpenFile now;
  if (native::look_at(handle_, now) != 0 || !(now == listener_)) {
    static_cast<void>(bridge_->opened(handle_));
    return;
  }
  bridge_->let_go(handle_);
  ::close(handle_);
}

int Accept::open(const ACE_Handler::Proxy_Ptr& handler_proxy, ACE_HANDLE handle,
                 const void* completion_key, ACE_Proactor* proactor) {
  if (ACE_POSIX_Asynch_Operation::open(handler_proxy, handle, completion_key, proactor) != 0) {
    return -1;
  }
  if (const int error = bridge_->opened(handle_)) return errno = error, -1;
  if (const int error = native::look_at(handle_, listener_)) return errno = error, -1;
  opened_ = true;
  return 0;
}

int Accept::accept(ACE_Message_Block& block, std::size_t bytes_to_read, ACE_HANDLE accept_handle,
                   const void* act, int priority, int signal_number, int address_family) {
  if (!opened_) return errno = EINVAL, -1;
  const std::size_t address =
      address_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const std::size_t room = room_of(block);
  if (room < 2 * address || room - 2 * address < bytes_to_read) return errno = ENOBUFS, -1;
  std::unique_ptr<ACE_POSIX_Asynch_Result> result{
      posix_part(posix_proactor()->create_asynch_accept_result(
          handler_proxy_, handle_, accept_handle, block, bytes_to_read, act, ACE_INVALID_HANDLE,
          priority, signal_number))};
  if (!result) return errno = ENOMEM, -1;
  Start start;
  start.fildes = handle_;
  start.action = Action::accept;
  start.told = tell<accepted>(result.get());
  if (const int error = bridge_->start(start)) return errno = error, -1;
  static_cast<void>(result.release());
  return 0;
}

}  // namespace baton::ace
