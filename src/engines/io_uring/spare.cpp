// The spare descriptor. The ring reserves the new descriptor's number before it looks at the
// backlog, so that it reports EMFILE without a connection, too: hence the look.
#include "engines/io_uring/spare.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "engines/common/pipe_calls.hpp"

namespace baton::engines::uring {

SpareDescriptor::~SpareDescriptor() {
  if (spare_ >= 0) system_.close(spare_);
}

void SpareDescriptor::prepare() noexcept {
  if (spare_ < 0) spare_ = system_.open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
}

void SpareDescriptor::turn_one_away(const Handle& listener) noexcept {
  // A blocking listener is left alone: should another process be faster, accept4 would wait.
  if (spare_ < 0 || !listener.nonblocking() || !ready_now(system_, listener.native(), POLLIN))
    return;
  system_.close(spare_);
  spare_ = -1;
  // Another thread may take the number first: then nobody is told this time.
  const int turned_away =
      system_.accept4(listener.native(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (turned_away >= 0) system_.close(turned_away);
  prepare();
}

}  // namespace baton::engines::uring
