// The ring layer. Three points are not obvious:
//   - Flags are tried from many to few: a kernel answers EINVAL to the first that it does not know.
//   - io_uring_enter returns the number of requests taken even if the wait that followed was cut
//     short, and does not wait at all if it took fewer than requested.
//   - Completions that found the ring full stay in the kernel (NODROP) and come only through an
//     entry with GETEVENTS; before Linux 5.19 no request is taken meanwhile (EBUSY).
#include "engines/io_uring/ring.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/assert.hpp"

namespace baton::engines::uring {
namespace {

constexpr std::int64_t ns_per_second = 1'000'000'000;

abi::Timespec to_timespec(Duration span) noexcept {
  return {span.count() / ns_per_second, span.count() % ns_per_second};
}

// The time until `deadline`. Reads the clock only if needed.
Duration left_until(const os::System& system, Deadline deadline) noexcept {
  if (deadline == Deadline::immediately()) return Duration::zero();
  return deadline.remaining(Deadline::at_ns(system.monotonic_ns()));
}

Entered classify(int error) noexcept {
  switch (error) {
    case ETIME:
      return Entered::timed_out;
    case EINTR:
      return Entered::interrupted;
    case EAGAIN:  // no memory for a request
    case EBUSY:   // completions wait in the kernel: reap first
    case ENOMEM:
      return Entered::congested;
    case EEXIST:
      return Entered::foreign;
    default:
      return Entered::refused;
  }
}

// The sets of flags to try, from the newest kernel's to the oldest's.
std::size_t flags_to_try(const RingOptions& options, std::uint32_t (&list)[4]) noexcept {
  const std::uint32_t base = abi::setup_cq_size | abi::setup_clamp;
  if (options.pinned) {
    const std::uint32_t pinned = base | abi::setup_submit_all | abi::setup_single_issuer |
                                 abi::setup_defer_taskrun | abi::setup_taskrun_flag |
                                 abi::setup_disabled;
    list[0] = pinned | abi::setup_no_sqarray;
    list[1] = pinned;
    return 2;
  }
  // COOP_TASKRUN saves an interrupt per completion. But a waiting thread would not get the
  // completions of requests that another, busy thread has submitted, so it needs one thread that
  // does both.
  const std::uint32_t cooperative =
      options.cooperative ? abi::setup_coop_taskrun | abi::setup_taskrun_flag : 0;
  list[0] = base | abi::setup_submit_all | cooperative | abi::setup_no_sqarray;
  list[1] = base | abi::setup_submit_all | cooperative;
  list[2] = base | abi::setup_submit_all;
  list[3] = base;
  return 4;
}

}  // namespace

Result<std::unique_ptr<Ring>, int> Ring::open(const os::System& system,
                                              const RingOptions& options) {
  std::uint32_t flags[4] = {};
  const std::size_t tries = flags_to_try(options, flags);
  int descriptor = -1;
  abi::Parameters parameters{};
  for (std::size_t i = 0; i < tries && descriptor < 0; ++i) {
    parameters = {};
    parameters.flags = flags[i];
    parameters.cq_entries = std::max(options.completions, options.entries);
    descriptor = system.io_uring_setup(options.entries, &parameters);
    if (descriptor < 0 && errno != EINVAL) break;
  }
  if (descriptor < 0) return unexpected{errno};
  std::unique_ptr<Ring> ring{new (std::nothrow) Ring(system, descriptor, parameters)};
  if (ring == nullptr) {
    system.close(descriptor);
    return unexpected{ENOMEM};
  }
  if ((parameters.features & abi::feature_single_mmap) == 0) return unexpected{EINVAL};
  if (const int error = ring->map(parameters); error != 0) return unexpected{error};
  if (const int error = ring->register_witness(); error != 0) return unexpected{error};
  return ring;
}

Ring::Ring(const os::System& system, int descriptor, const abi::Parameters& parameters) noexcept
    : system_(system),
      descriptor_(descriptor),
      features_(parameters.features),
      setup_flags_(parameters.flags),
      disabled_((parameters.flags & abi::setup_disabled) != 0),
      waits_in_one_call_(!disabled_ && (parameters.features & abi::feature_ext_arg) != 0),
      // Without it an idle server is accounted as waiting for a disk.
      wait_flags_(
          abi::enter_get_events |
          ((parameters.features & abi::feature_no_iowait) != 0 ? abi::enter_no_iowait : 0U)) {}

Ring::~Ring() { abandon(); }

void Ring::abandon() noexcept {
  if (sqes_ != nullptr) system_.munmap(sqes_, sqes_size_);
  if (rings_ != nullptr) system_.munmap(rings_, rings_size_);
  if (descriptor_ >= 0 && !let_go_) system_.close(descriptor_);
  close_witness();
  sqes_ = nullptr;
  rings_ = nullptr;
  descriptor_ = -1;
}

// Memory that was not inherited may have been reused by the child.
void Ring::abandon_in_child() noexcept {
  const bool has_pages = inherited_ || let_go_;
  if (!has_pages) {
    sqes_ = nullptr;
    rings_ = nullptr;
  }
  abandon();
}

void Ring::close_witness() noexcept {
  if (witness_ >= 0) system_.close(witness_);
  witness_ = -1;
}

// A mapping holds a reference to the ring as a descriptor does. Anonymous pages replace both in one
// step, because other threads may be reading them.
bool Ring::let_go(bool closed) noexcept {
  BATON_ASSERT(!let_go_);
  let_go_ = true;
  const bool rings = replace(rings_, rings_size_);
  const bool sqes = replace(sqes_, sqes_size_);
  tail_ = shared(sq_head_).load(std::memory_order_relaxed) + sq_entries_;  // full, not published
  if (!closed) system_.close(descriptor_);
  return rings && sqes;
}

bool Ring::replace(void* at, std::size_t size) const noexcept {
  return system_.mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                      0) != MAP_FAILED;
}

int Ring::map(const abi::Parameters& p) noexcept {
  const auto map_at = [&](std::size_t size, std::uint64_t offset) -> void* {
    void* const at = system_.mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                                  descriptor_, static_cast<off_t>(offset));
    if (at == MAP_FAILED) return nullptr;
    // A child must not share the queues with its parent. This is only advice: if it is refused,
    // abandon_in_child() drops the child's copy.
    inherited_ |= system_.madvise(at, size, MADV_DONTFORK) != 0;
    return at;
  };
  const bool array = (p.flags & abi::setup_no_sqarray) == 0;
  rings_size_ = std::max<std::size_t>(array ? p.sq.array + p.sq_entries * sizeof(std::uint32_t) : 0,
                                      p.cq.cqes + p.cq_entries * sizeof(abi::Cqe));
  rings_ = map_at(rings_size_, abi::offset_rings);
  if (rings_ == nullptr) return errno;
  sqes_size_ = p.sq_entries * sizeof(abi::Sqe);
  sqes_ = static_cast<abi::Sqe*>(map_at(sqes_size_, abi::offset_sqes));
  if (sqes_ == nullptr) return errno;

  const auto word = [&](std::uint32_t offset) {
    return reinterpret_cast<std::uint32_t*>(static_cast<char*>(rings_) + offset);
  };
  sq_head_ = word(p.sq.head);
  sq_tail_ = word(p.sq.tail);
  sq_flags_ = word(p.sq.flags);
  sq_mask_ = *word(p.sq.ring_mask);
  sq_entries_ = p.sq_entries;
  // Entry i of the queue names request i, for ever.
  for (std::uint32_t i = 0; array && i < sq_entries_; ++i) word(p.sq.array)[i] = i;
  cq_head_ = word(p.cq.head);
  cq_tail_ = word(p.cq.tail);
  cq_mask_ = *word(p.cq.ring_mask);
  cqes_ = reinterpret_cast<const abi::Cqe*>(word(p.cq.cqes));
  return 0;
}

int Ring::register_witness() noexcept {
  int ends[2] = {-1, -1};
  if (system_.pipe2(ends, O_CLOEXEC) < 0) return errno;
  witness_ = ends[0];
  const int error = register_call(abi::register_files, &ends[1], 1);
  system_.close(ends[1]);
  return error;
}

std::uint32_t Ring::brought() const noexcept {
  return shared(cq_tail_).load(std::memory_order_relaxed);  // a count only
}

bool Ring::needs_kernel() const noexcept {
  const std::uint32_t by_flag = abi::sq_cq_overflow | abi::sq_taskrun;
  // relaxed: a flag that is set too late is seen next time.
  return (shared(sq_flags_).load(std::memory_order_relaxed) & by_flag) != 0;
}

int Ring::register_call(unsigned operation, void* argument, unsigned count) noexcept {
  return system_.io_uring_register(descriptor_, operation, argument, count) < 0 ? errno : 0;
}

int Ring::send_message(const os::System& system, int ring, std::uint64_t user_data) noexcept {
  abi::Sqe message{};
  message.opcode = abi::op_msg_ring;
  message.fd = ring;
  message.offset = user_data;
  return system.io_uring_register(-1, abi::register_send_message, &message, 1) < 0 ? errno : 0;
}

// Makes the calling thread the owner of a ring that has none. Returns 0 or an errno.
int Ring::enable_if_needed() noexcept {
  if (BATON_LIKELY(!disabled_)) return 0;
  const int error = register_call(abi::register_enable_rings, nullptr, 0);
  disabled_ = error != 0;
  waits_in_one_call_ = !disabled_ && (features_ & abi::feature_ext_arg) != 0;
  return error;
}

// Returns the number of requests taken, or -errno.
int Ring::enter(unsigned count, unsigned wanted, unsigned flags, const void* argument,
                std::size_t size) noexcept {
  if (const int error = enable_if_needed(); error != 0) return -error;
  const int taken = system_.io_uring_enter(descriptor_, count, wanted, flags, argument, size);
  return taken >= 0 ? taken : -errno;
}

Entered Ring::submit() noexcept {
  for (;;) {
    const std::uint32_t count = unsubmitted();
    if (count == 0) return Entered::done;
    const int taken = enter(count, 0, 0, nullptr, 0);
    if (taken == static_cast<int>(count)) return Entered::done;
    if (taken == 0 && unsubmitted() == count) return Entered::congested;
    if (taken >= 0 || taken == -EINTR) continue;  // the rest, or another thread took some of ours
    return classify(-taken);
  }
}

Entered Ring::failed() noexcept { return classify(errno); }

Entered Ring::wait_only(Deadline deadline) noexcept { return enter_and_wait(0, deadline); }

Entered Ring::enter_and_wait(unsigned count, Deadline deadline) noexcept {
  abi::Timespec timeout{};
  abi::GetEventsArgument argument{};
  unsigned wanted = 1;
  if (!deadline.is_never()) {
    const Duration left = left_until(system_, deadline);
    timeout = to_timespec(left);
    argument.timeout = reinterpret_cast<std::uintptr_t>(&timeout);
    if (left == Duration::zero()) wanted = 0;
  }
  if (BATON_UNLIKELY((features_ & abi::feature_ext_arg) == 0)) {
    if (wanted != 0) {
      const Entered submitted = count > 0 ? submit() : Entered::done;
      return submitted == Entered::done ? poll_descriptor(deadline) : submitted;
    }
    const int taken = enter(count, 0, abi::enter_get_events, nullptr, 0);
    return taken >= 0 ? Entered::done : classify(-taken);
  }
  const unsigned flags = wait_flags_ | abi::enter_ext_arg;
  const int taken = enter(count, wanted, flags, &argument, sizeof(argument));
  return taken >= 0 ? Entered::done : classify(-taken);
}

// Before Linux 5.11 a wait on the ring has no timeout; its descriptor is readable when there are
// completions.
Entered Ring::poll_descriptor(Deadline deadline) noexcept {
  pollfd entry{descriptor_, POLLIN, 0};
  timespec timeout{};
  if (!deadline.is_never()) {
    const abi::Timespec left = to_timespec(left_until(system_, deadline));
    timeout.tv_sec = static_cast<time_t>(left.seconds);
    timeout.tv_nsec = static_cast<long>(left.nanoseconds);
  }
  const int ready = system_.ppoll(&entry, 1, deadline.is_never() ? nullptr : &timeout, nullptr);
  if (ready < 0) return errno == EINTR ? Entered::interrupted : Entered::congested;
  if (ready == 0) return Entered::timed_out;
  if (needs_kernel()) enter(0, 0, abi::enter_get_events, nullptr, 0);
  return Entered::done;
}

}  // namespace baton::engines::uring
