// The spare descriptor.
#include "engines/common/spare_descriptor.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include "engines/common/look.hpp"

namespace baton::engines {

SpareDescriptor::~SpareDescriptor() {
  if (spare_ >= 0) static_cast<void>(system_.close(spare_));
}

void SpareDescriptor::abandon() noexcept {
  mutex_.assume_held();  // the child has one thread
  if (spare_ >= 0) static_cast<void>(system_.close(spare_));
  spare_ = -1;
}

void SpareDescriptor::open_first() noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (prepared_.exchange(true, std::memory_order_relaxed)) return;
  open();
}

void SpareDescriptor::open() noexcept {
  if (spare_ < 0) spare_ = system_.open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
}

// A ring reserves the new descriptor's number before it checks the backlog, so it reports EMFILE
// even without a connection: hence the poll. A blocking listener is left alone: accept4
// would block if another process were faster.
void SpareDescriptor::turn_one_away(const Handle& listener) noexcept {
  if (!listener.nonblocking() || !ready_now(system_, listener.native(), POLLIN)) return;
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (spare_ < 0) return open();
  static_cast<void>(system_.close(spare_));
  spare_ = -1;
  // Another thread may take the number first; then no connection is turned away.
  const int turned_away =
      system_.accept4(listener.native(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (turned_away >= 0) static_cast<void>(system_.close(turned_away));
  open();
}

}  // namespace baton::engines
