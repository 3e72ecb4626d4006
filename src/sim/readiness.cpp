// poll, select and epoll of the simulated machine. All three read the same bits. Their answers may
// be wrong in the same ways as a real kernel's: readiness that is gone when it is used, and
// readiness that is reported late.
#include "sim/readiness.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include <algorithm>

#include "sim/world.hpp"

namespace baton::sim {
namespace {

World& world() noexcept { return *World::current(); }
Kernel& kernel() noexcept { return world().kernel(); }
Scheduler& scheduler() noexcept { return world().scheduler(); }

int fail(int error) noexcept {
  world().note(Event::call, 1, -error);
  errno = error;
  return -1;
}

std::int64_t deadline_of(const timespec* timeout) noexcept {
  if (timeout == nullptr) return Scheduler::never;
  return scheduler().now() + timeout->tv_sec * 1'000'000'000 + timeout->tv_nsec;
}

bool interrupted() noexcept { return world().random.chance(world().faults().interrupted); }

/// The bits of poll.
short poll_bits(const Node& node) noexcept {
  const std::uint32_t bits = Kernel::ready(node);
  unsigned told = 0;
  if ((bits & Kernel::readable) != 0) told |= POLLIN;
  if ((bits & Kernel::writable) != 0) told |= POLLOUT;
  if ((bits & Kernel::broken) != 0) told |= POLLERR;
  if ((bits & Kernel::hung_up) != 0) told |= POLLHUP;
  if ((bits & Kernel::peer_closed) != 0) told |= POLLRDHUP;
  return static_cast<short>(told);
}

/// Calls `look` until it finds something, and sleeps in between. `look` returns how many it found.
template <class Look>
int wait_for(Look&& look, std::int64_t deadline) noexcept {
  scheduler().point();
  for (;;) {
    const int found = look();
    if (found != 0) {
      world().note(Event::call, 2, found);
      return found;
    }
    if (scheduler().now() >= deadline) return 0;
    if (interrupted()) return fail(EINTR);
    ++kernel().pollers_;
    scheduler().sleep(kernel().poll_key(), deadline);
    --kernel().pollers_;
  }
}

// A call that waits may report readiness that is not there. A call that does not wait gets the
// truth.
bool lies(std::int64_t deadline) noexcept {
  return deadline > scheduler().now() && world().random.chance(world().faults().spurious_ready);
}

void note_lie(Node& node) noexcept { node.lied_at = scheduler().now(); }

int poll_call(pollfd* list, nfds_t count, const timespec* timeout, const sigset_t*) {
  const std::int64_t deadline = deadline_of(timeout);
  const bool lie = lies(deadline);
  return wait_for(
      [&] {
        int found = 0;
        for (nfds_t i = 0; i < count; ++i) {
          pollfd& entry = list[i];
          entry.revents = 0;
          if (entry.fd < 0) continue;
          Node* node = kernel().find(entry.fd);
          if (node == nullptr) {
            entry.revents = POLLNVAL;
          } else {
            const auto wanted = static_cast<short>(entry.events | POLLERR | POLLHUP);
            entry.revents = static_cast<short>(poll_bits(*node) & wanted);
            if (lie && found == 0) {
              entry.revents = static_cast<short>(entry.events & POLLIN);
              note_lie(*node);
            }
          }
          if (entry.revents != 0) ++found;
        }
        return found;
      },
      deadline);
}

int select_call(int end, fd_set* in, fd_set* out, fd_set* except, const timespec* timeout,
                const sigset_t*) {
  fd_set wanted_in;
  fd_set wanted_out;
  FD_ZERO(&wanted_in);
  FD_ZERO(&wanted_out);
  if (in != nullptr) wanted_in = *in;
  if (out != nullptr) wanted_out = *out;
  for (int fd = 0; fd < end; ++fd) {
    const bool wanted = FD_ISSET(fd, &wanted_in) || FD_ISSET(fd, &wanted_out);
    if (wanted && kernel().find(fd) == nullptr) return fail(EBADF);
  }
  if (except != nullptr) FD_ZERO(except);
  const std::int64_t deadline = deadline_of(timeout);
  const bool lie = lies(deadline);
  const int found = wait_for(
      [&] {
        int count = 0;
        if (in != nullptr) FD_ZERO(in);
        if (out != nullptr) FD_ZERO(out);
        for (int fd = 0; fd < end; ++fd) {
          const bool for_in = FD_ISSET(fd, &wanted_in);
          const bool for_out = FD_ISSET(fd, &wanted_out);
          if (!for_in && !for_out) continue;
          Node* node = kernel().find(fd);
          const std::uint32_t bits = node != nullptr ? Kernel::ready(*node) : Kernel::broken;
          constexpr std::uint32_t bad = Kernel::broken | Kernel::hung_up;
          if (for_in && ((bits & (Kernel::readable | bad)) != 0 || (lie && count == 0))) {
            FD_SET(fd, in);
            if (lie && node != nullptr) note_lie(*node);
            ++count;
          }
          if (for_out && (bits & (Kernel::writable | bad)) != 0) {
            FD_SET(fd, out);
            ++count;
          }
        }
        return count;
      },
      deadline);
  if (found == 0) {
    if (in != nullptr) FD_ZERO(in);
    if (out != nullptr) FD_ZERO(out);
  }
  return found;
}

// -- epoll ----------------------------------------------------------------------------------------

int epoll_create_call(int) {
  scheduler().point();
  const int fd = kernel().poller();
  return fd >= 0 ? fd : fail(-fd);
}

int epoll_ctl_call(int epoll, int operation, int fd, epoll_event* event) {
  scheduler().point();
  Node* set = kernel().find(epoll);
  Node* node = kernel().find(fd);
  if (set == nullptr || node == nullptr) return fail(EBADF);
  if (set->kind != NodeKind::poller) return fail(EINVAL);
  if (node->kind == NodeKind::file || node->kind == NodeKind::null) return fail(EPERM);
  auto item = std::find_if(set->items.begin(), set->items.end(),
                           [&](const auto& each) { return each->node == node; });
  const bool there = item != set->items.end();
  if (operation == EPOLL_CTL_ADD && there) return fail(EEXIST);
  if (operation != EPOLL_CTL_ADD && !there) return fail(ENOENT);
  if (operation == EPOLL_CTL_DEL) {
    Kernel::unwatch(*node, **item);
    scheduler().forget(**item);
    set->items.erase(item);
    return 0;
  }
  if (!there) {
    set->items.push_back(std::make_unique<PollItem>(*set));
    item = set->items.end() - 1;
    (*item)->node = node;
    (*item)->fd = fd;
    kernel().watch(*node, **item);
  }
  (*item)->events = event->events;
  (*item)->data = event->data.u64;
  (*item)->changed(*node);
  return 0;
}

int epoll_wait_call(int epoll, epoll_event* events, int count, int timeout, const sigset_t*) {
  scheduler().point();
  Node* set = kernel().find(epoll);
  if (set == nullptr || set->kind != NodeKind::poller) return fail(EBADF);
  const std::int64_t deadline =
      timeout < 0 ? Scheduler::never : scheduler().now() + timeout * std::int64_t{1'000'000};
  const bool lie = lies(deadline);
  for (;;) {
    int found = 0;
    std::erase_if(set->items, [](const auto& item) { return item->node == nullptr; });
    // Begins anywhere in the set: a kernel promises no order either.
    const std::size_t size = set->items.size();
    const std::size_t begin = size > 1 ? world().random.below(static_cast<std::uint32_t>(size)) : 0;
    for (std::size_t i = 0; i < size && found < count; ++i) {
      PollItem& item = *set->items[(begin + i) % size];
      std::uint32_t told = item.told(scheduler().now());
      const bool lied = told == 0 && lie && found == 0;
      if (lied) {
        told = item.events & EPOLLIN;
        note_lie(*item.node);
      }
      if (told == 0) continue;
      events[found].events = told;
      events[found].data.u64 = item.data;
      ++found;
      if (!lied) item.fresh = false;  // an edge is reported once; a false report does not count
      if ((item.events & EPOLLONESHOT) != 0) item.events = 0;
    }
    if (found != 0) {
      world().note(Event::call, 2, found);
      return found;
    }
    if (scheduler().now() >= deadline) return 0;
    if (interrupted()) return fail(EINTR);
    scheduler().sleep(set, deadline);
    // The set may have been closed meanwhile, and another file may have its number.
    if (kernel().find(epoll) != set) return fail(EBADF);
  }
}

}  // namespace

std::uint32_t PollItem::told(std::int64_t now) const noexcept {
  if (hidden_until > now || events == 0) return 0;
  if ((events & EPOLLET) != 0 && !fresh) return 0;
  const std::uint32_t bits = Kernel::ready(*node);
  std::uint32_t all = 0;
  if ((bits & Kernel::readable) != 0) all |= EPOLLIN;
  if ((bits & Kernel::writable) != 0) all |= EPOLLOUT;
  if ((bits & Kernel::broken) != 0) all |= EPOLLERR;
  if ((bits & Kernel::hung_up) != 0) all |= EPOLLHUP;
  if ((bits & Kernel::peer_closed) != 0) all |= EPOLLRDHUP;
  return all & (events | EPOLLERR | EPOLLHUP);
}

void PollItem::changed(Node&) noexcept {
  Kernel& of = poller.kernel;
  fresh = true;
  if (of.random.chance(of.faults().late_ready) && hidden_until <= of.scheduler.now()) {
    hidden_until = of.scheduler.now() + of.random.between(10'000, 1'000'000);
    return of.scheduler.at(hidden_until, *this, 0);
  }
  of.scheduler.wake(&poller, 1);
}

// The time of a late report has come.
void PollItem::fire(std::uint32_t) noexcept {
  poller.kernel.scheduler.wake(&poller, 1);
  poller.kernel.changed(poller);
}

void PollItem::gone(Node&) noexcept {
  node = nullptr;
  poller.kernel.scheduler.forget(*this);
}

void add_readiness(os::System& table) noexcept {
  table.ppoll = poll_call;
  table.pselect = select_call;
  table.epoll_create1 = epoll_create_call;
  table.epoll_ctl = epoll_ctl_call;
  table.epoll_pwait = epoll_wait_call;
}

}  // namespace baton::sim
