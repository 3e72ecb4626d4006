#include <ace/Addr.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "connections.hpp"
#include "results.hpp"

namespace baton::ace {
namespace {

/// The data of a connect that must live until its end.
struct Connecting {
  std::unique_ptr<ACE_POSIX_Asynch_Result> result;
  Endpoint remote;
  std::shared_ptr<Connect::Pending> pending;
  int fildes = -1;
  native::OpenFile file;
  bool made = false;  ///< by us, not by the program
};

/// 0 or an errno.
int add(Connecting& connecting) noexcept {
  if (const int error = native::look_at(connecting.fildes, connecting.file)) return error;
  Connect::Pending& pending = *connecting.pending;
  const std::lock_guard guard{pending.mutex};
  try {
    pending.sockets.push_back({connecting.fildes, connecting.file});
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

/// A newer connect may have the same number.
void remove(const Connecting& connecting) noexcept {
  Connect::Pending& pending = *connecting.pending;
  const std::lock_guard guard{pending.mutex};
  std::erase_if(pending.sockets, [&](const auto& each) {
    return each.fildes == connecting.fildes && each.file == connecting.file;
  });
}

void connect_ended(Bridge& bridge, void* what, Outcome outcome) {
  const std::unique_ptr<Connecting> connecting{static_cast<Connecting*>(what)};
  remove(*connecting);
  ACE_POSIX_Asynch_Result& result = *connecting->result.release();
  if (connecting->made && handler_is_gone(result)) {
    ::close(connecting->fildes);  // no other code does
    result.aio_fildes = ACE_INVALID_HANDLE;
  }
  bridge.dispatch(result, {0, outcome.error});
}

/// Opens the socket if need be, binds it, makes it non-blocking. 0 or an errno.
int prepare(Connecting& connecting, const ACE_Addr& remote, const ACE_Addr& local,
            bool reuse_address) noexcept {
  if (!copy_address(remote, connecting.remote)) return EINVAL;
  if (connecting.fildes == ACE_INVALID_HANDLE) {
    connecting.fildes = ::socket(remote.get_type(), SOCK_STREAM, 0);
    if (connecting.fildes == -1) return errno;
    connecting.made = true;
    const int on = 1;
    if (reuse_address &&
        ::setsockopt(connecting.fildes, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
      return errno;
    }
  }
  if (!(local == ACE_Addr::sap_any) &&
      ::bind(connecting.fildes, static_cast<const sockaddr*>(local.get_addr()),
             static_cast<socklen_t>(local.get_size())) != 0) {
    return errno;
  }
  const int flags = ::fcntl(connecting.fildes, F_GETFL);
  const bool set = flags != -1 && ::fcntl(connecting.fildes, F_SETFL, flags | O_NONBLOCK) == 0;
  return set ? 0 : errno;
}

}  // namespace

int Connect::open(const ACE_Handler::Proxy_Ptr& handler_proxy, ACE_HANDLE handle,
                  const void* completion_key, ACE_Proactor* proactor) {
  // Without a handle it returns -1, which is normal here.
  ACE_POSIX_Asynch_Operation::open(handler_proxy, handle, completion_key, proactor);
  return 0;
}

int Connect::connect(ACE_HANDLE handle, const ACE_Addr& remote, const ACE_Addr& local,
                     int reuse_address, const void* act, int priority, int signal_number) {
  if (bridge_->is_closed()) return errno = ESHUTDOWN, -1;
  std::unique_ptr<Connecting> connecting{new (std::nothrow) Connecting};
  if (!connecting) return errno = ENOMEM, -1;
  connecting->pending = pending_;
  connecting->fildes = handle;
  connecting->result.reset(posix_part(posix_proactor()->create_asynch_connect_result(
      handler_proxy_, handle, act, ACE_INVALID_HANDLE, priority, signal_number)));
  if (!connecting->result) return errno = ENOMEM, -1;

  int error = prepare(*connecting, remote, local, reuse_address != 0);
  const int fildes = connecting->fildes;
  const bool made = connecting->made;
  if (error == 0) error = bridge_->opened(fildes);
  if (error == 0) {
    connecting->result->aio_fildes = fildes;
    Start start;
    start.fildes = fildes;
    start.action = Action::connect;
    start.endpoint = &connecting->remote;
    start.told = tell<connect_ended>(connecting.get());
    error = add(*connecting);
    if (error == 0) error = bridge_->start(start);
    if (error == 0) return static_cast<void>(connecting.release()), 0;
    remove(*connecting);
  }
  // A connect that fails at once also ends with a completion, as on Windows. Its handler may be
  // deleted by then, so a socket that was made for it is closed now.
  if (made) ::close(fildes);
  connecting->result->aio_fildes = made ? ACE_INVALID_HANDLE : handle;
  connecting->result->set_error(static_cast<u_long>(error));
  connecting->result->set_bytes_transferred(0);
  if (posix_proactor()->post_completion(connecting->result.get()) == 0) {
    static_cast<void>(connecting->result.release());
    return 0;
  }
  return -1;
}

int Connect::cancel() {
  std::lock_guard guard{pending_->mutex};
  int answer = 1;
  for (const Pending::Socket& each : pending_->sockets) {
    // The number may belong to other code by now, whose operations go on.
    native::OpenFile now;
    if (native::look_at(each.fildes, now) != 0 || !(now == each.file)) {
      static_cast<void>(bridge_->opened(each.fildes));
      answer = 0;
    } else if (bridge_->cancel(each.fildes) == 0) {
      answer = 0;
    }
  }
  return answer;
}

}  // namespace baton::ace
