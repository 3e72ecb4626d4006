#include "shard.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "futex.hpp"
#include "library.hpp"

namespace uaio {
namespace {

using baton::Operation;
using baton::OperationKind;

// The longest sleep while something is at the engine: what it puts by for a moment (a kernel short
// of memory) does not show at the descriptor.
constexpr std::int64_t sleep_max_ns = 100'000'000;
constexpr std::int64_t signal_pause_ns = 2'000'000;
constexpr std::size_t helper_stack = 256U << 10;

timespec to_timespec(std::int64_t ns) noexcept {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

baton::Config make_config(const Options& options) {
  baton::Config config;
  baton::ProcessorConfig processor;
  processor.engine = options.engine;
  if (!options.wait.empty()) processor.wait = options.wait;
  // Callers and helper take turns.
  processor.mode = baton::Mode::shared;
  config.processors.push_back(std::move(processor));
  // Files past the cache are what an engine is for here, and of those it is the ring that needs no
  // thread, for anything.
  config.prefer.emplace_back("io_uring");
  // Its calls may be ours, when we stand in for the system's library.
  config.forbid.emplace_back("posix_aio");
  return config;
}

OperationKind kind_of(const Request& request) noexcept {
  const bool read = reads(request.action);
  if (syncs(request.action)) return OperationKind::sync_file;
  switch (request.descriptor->kind) {
    case baton::HandleKind::file:
      return read ? OperationKind::read_file : OperationKind::write_file;
    case baton::HandleKind::datagram_socket:
      return read ? OperationKind::read_datagram : OperationKind::write_datagram;
    default:
      return read ? OperationKind::read_stream : OperationKind::write_stream;
  }
}

int errno_of(const Operation& operation) noexcept {
  const int error = operation.error_value();
  if (error >= 0) return error;
  switch (static_cast<baton::errc>(-error)) {
    case baton::errc::stopped:
    case baton::errc::handle_closed:
    case baton::errc::after_fork:
      return ECANCELED;
    default:
      return EIO;
  }
}

/// Waits for a completion by the ring's own call: completions are brought about inside it, which
/// saves poll's second wake-up (a third of the time of a direct read at depth 1). It takes nothing
/// out. 0, ETIME at the end of the time, EINTR, or another errno: not here.
int wait_for_ring(int ring, const timespec& time) noexcept {
  const __kernel_timespec limit{time.tv_sec, time.tv_nsec};
  io_uring_getevents_arg argument{};
  argument.ts = reinterpret_cast<std::uintptr_t>(&limit);
  const long answer =
      ::syscall(__NR_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                &argument, sizeof(argument));
  return answer >= 0 || errno == EBUSY ? 0 : errno;
}

}  // namespace

// -- the proactor ---------------------------------------------------------------------------------

bool Shard::open() noexcept {
  if (opened_.load(std::memory_order_relaxed)) return true;
  try {
    if (forked_) {
      if (!proactor_->reopen()) return false;
      forked_ = false;
    } else if (!proactor_) {
      auto opened = baton::Proactor::open(make_config(library_.options()));
      if (!opened) {
        library_.complain(opened.error().reason.c_str());
        return false;
      }
      proactor_ = std::move(*opened);
    }
  } catch (...) {
    return false;
  }
  const int bell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell < 0) return false;
  bell_.store(bell, std::memory_order_relaxed);
  glances_ = proactor_->glance() != baton::Glance::cannot_tell;
  // A new engine has not been looked at yet, and prepares itself when it is.
  overslept_.store(true, std::memory_order_relaxed);
  opened_.store(true, std::memory_order_release);
  return true;
}

bool Shard::ensure_handle(Descriptor& descriptor) noexcept {
  if (descriptor.handle != nullptr) return true;
  const auto handle =
      proactor_->adopt(descriptor.duplicate, descriptor.kind, baton::Ownership::borrowed);
  if (!handle) return false;
  descriptor.handle = *handle;
  return true;
}

// -- starting -------------------------------------------------------------------------------------

bool Shard::drives_itself(const Request& request) const noexcept {
  return glances_ && request.note.silent() && request.descriptor->regular &&
         library_.options().mode == Mode::automatic && library_.options().threads == 1 &&
         (request.group == nullptr || request.group->note.silent());
}

int Shard::start(Request& request, Descriptor& file) noexcept {
  request.descriptor = &file;
  request.shard = this;
  const bool opened = open();
  const bool alone = drives_itself(request) && in_flight_ < depth_;
  if (!opened || !ensure_handle(file) || (!alone && !need_helper())) {
    if (file.pending == 0 && !file.resting) {
      if (file.handle != nullptr) proactor_->close_detached(*file.handle);
      files_.remove(file);
    }
    return EAGAIN;
  }
  request.number = ++number_;
  const std::uint32_t earlier = file.inode->pending;
  files_.link(request);
  ++pending_;
  busy_.store(true, std::memory_order_relaxed);
  if (syncs(request.action) && file.kind != baton::HandleKind::file) {
    finish(request, EINVAL, -1);
    collect();
  } else if (syncs(request.action) && earlier > 0) {
    request.waits_for = earlier;
    Request** place = &file.inode->held;
    while (*place != nullptr) place = &(*place)->run_next;
    request.run_next = nullptr;
    *place = &request;
    // Without it nobody might come by when the last of the others is complete.
    need_helper();
  } else {
    launch(request);
  }
  return 0;
}

void Shard::launch(Request& request) noexcept {
  if (in_flight_ < depth_ && run_list_ == nullptr) {
    submit(request);
  } else {
    queue(request);
    start_waiting();
  }
}

// Behind all that are as urgent: aio_reqprio lowers the priority.
void Shard::queue(Request& request) noexcept {
  Request** place = &run_list_;
  while (*place != nullptr && (*place)->priority <= request.priority) place = &(*place)->run_next;
  request.run_next = *place;
  *place = &request;
}

bool Shard::unqueue(Request*& head, Request& request) noexcept {
  Request** place = &head;
  while (*place != nullptr && *place != &request) place = &(*place)->run_next;
  if (*place == nullptr) return false;
  *place = request.run_next;
  return true;
}

void Shard::start_waiting() noexcept {
  while (run_list_ != nullptr && in_flight_ < depth_) {
    Request& request = *run_list_;
    run_list_ = request.run_next;
    submit(request);
  }
}

void Shard::submit(Request& request) noexcept {
  request.started = true;
  ++in_flight_;
  fill(request);
  if (const std::error_code error = proactor_->start(request.operation)) {
    --in_flight_;
    library_.complain("an engine does not take a request: ", error.value());
    finish(request, EIO, -1);
    look_again_ = true;
    return;
  }
  // Done by the engine at once: waits to be delivered.
  if (request.operation.state() != baton::OperationState::result_ready) return;
  look_again_ = true;
  collect();
}

void Shard::fill(Request& request) noexcept {
  Operation& operation = request.operation;
  const OperationKind kind = kind_of(request);
  std::uint16_t flags = 0;
  if (kind == OperationKind::write_stream) flags |= Operation::exactly;
  if (kind == OperationKind::write_file && (request.descriptor->flags & O_APPEND) != 0) {
    flags |= Operation::append;
  }
  if (request.action == Action::data_sync) flags |= Operation::data_only;
  operation.prepare(kind, request.descriptor->handle, flags);
  operation.set_completion(completed, &request);
  if (syncs(request.action)) return;
  if (is_vectored(request.action)) {
    static_assert(sizeof(iovec) == sizeof(baton::MutableBuffer));
    operation.set_buffers(baton::MutableBuffers{
        static_cast<const baton::MutableBuffer*>(request.data), request.size});
  } else {
    operation.set_buffer(
        baton::MutableBuffer{static_cast<std::byte*>(request.data) + request.moved_before,
                             request.size - request.moved_before});
  }
  if (kind == OperationKind::read_file || kind == OperationKind::write_file) {
    operation.set_offset(request.offset + request.moved_before);
  }
}

// -- completing -----------------------------------------------------------------------------------

void Shard::completed(Operation& operation) {
  auto& request = *static_cast<Request*>(operation.context());
  Shard& self = *request.shard;
  --self.in_flight_;
  const int error = errno_of(operation);
  const std::size_t moved = operation.bytes() + request.moved_before;
  // As by read and write: what was moved counts, the error is the next call's to meet.
  if (error == 0 || (moved > 0 && !syncs(request.action))) {
    self.finish(request, 0, static_cast<ssize_t>(moved));
  } else {
    self.finish(request, error, -1);
  }
}

void Shard::finish(Request& request, int error, ssize_t result) noexcept {
  Descriptor& descriptor = *request.descriptor;
  const std::uint64_t number = request.number;
  files_.unlink(request);
  if (--pending_ == 0) busy_.store(false, std::memory_order_relaxed);
  if (request.tally != nullptr) {
    auto& tally = *static_cast<Cancelled*>(request.tally);
    --tally.pending;
    if (!descriptor.regular) --tally.streams;
    if (error == ECANCELED) ++tally.cancelled;
  }
  if (descriptor.inode->held != nullptr) release_held(*descriptor.inode, number);
  if (descriptor.pending == 0 && !descriptor.resting) {
    descriptor.resting = true;
    descriptor.resting_next = idle_;
    idle_ = &descriptor;
  }
  library_.complete(request, error, result);
}

// One that was started as `number` is complete: syncs that waited for nothing else may go.
void Shard::release_held(Inode& inode, std::uint64_t number) noexcept {
  Request** place = &inode.held;
  while (Request* const sync = *place) {
    if (sync->number > number && --sync->waits_for == 0) {
      *place = sync->run_next;
      queue(*sync);
      look_again_ = true;
    } else {
      place = &sync->run_next;
    }
  }
}

void Shard::collect() noexcept {
  if (collecting_ || !opened_.load(std::memory_order_relaxed)) return;
  collecting_ = true;
  do {
    look_again_ = false;
    std::size_t brought = 0;
    try {
      brought = proactor_->poll();
    } catch (...) {
      library_.complain("an engine has failed");
    }
    start_waiting();
    look_again_ |= brought > 0 && proactor_->glance() == baton::Glance::something;
  } while (look_again_);
  collecting_ = false;
  release_idle();
}

void Shard::release_idle() noexcept {
  while (Descriptor* const descriptor = idle_) {
    idle_ = descriptor->resting_next;
    descriptor->resting = false;
    if (descriptor->pending != 0) continue;
    if (descriptor->handle != nullptr) proactor_->close_detached(*descriptor->handle);
    files_.remove(*descriptor);
  }
}

// -- cancelling -----------------------------------------------------------------------------------

void Shard::cancel(int fildes, const aiocb* block, Cancelled& tally) noexcept {
  if (!opened_.load(std::memory_order_relaxed)) return;
  collect();
  Request* chosen = nullptr;
  files_.for_each([&](Request& request) {
    if (request.fildes != fildes || (block != nullptr && request.block != block)) return;
    ++tally.found;
    request.next = chosen;
    chosen = &request;
  });
  Request* next = nullptr;
  for (Request* request = chosen; request != nullptr; request = next) {
    next = request->next;
    request->tally = &tally;
    ++tally.pending;
    if (!request->descriptor->regular) ++tally.streams;
    if (!request->started) {
      if (!unqueue(run_list_, *request)) unqueue(request->descriptor->inode->held, *request);
      finish(*request, ECANCELED, -1);
    } else {
      proactor_->cancel(request->operation);
    }
  }
  collect();
}

void Shard::forget(Cancelled& tally) noexcept {
  files_.for_each([&](Request& request) {
    if (request.tally == &tally) request.tally = nullptr;
  });
}

// -- waiting --------------------------------------------------------------------------------------

int Shard::sleep(const timespec* timeout) noexcept {
  const timespec longest = to_timespec(sleep_max_ns);
  timespec time = longest;
  if (timeout != nullptr && timeout->tv_sec == 0 && timeout->tv_nsec < longest.tv_nsec) {
    time = *timeout;
  }
  const int descriptor = proactor_->descriptor();
  if (glances_ && waits_by_ring_.load(std::memory_order_relaxed)) {
    const int error = wait_for_ring(descriptor, time);
    overslept_.store(error == ETIME, std::memory_order_relaxed);
    if (error == 0 || error == ETIME) return 0;
    if (error == EINTR) return error;
    // Before Linux 5.11, or no ring after all.
    waits_by_ring_.store(false, std::memory_order_relaxed);
    overslept_.store(true, std::memory_order_relaxed);
  }
  pollfd entry{descriptor, POLLIN, 0};
  return ::ppoll(&entry, 1, &time, nullptr) < 0 ? errno : 0;
}

void Shard::ring_bell() noexcept {
  const std::uint64_t one = 1;
  const int bell = bell_.load(std::memory_order_relaxed);
  if (bell >= 0 && ::write(bell, &one, sizeof(one)) < 0) return;  // it rings already
}

bool Shard::need_helper() noexcept {
  if (library_.options().mode == Mode::single) return library_.start_timer();
  if (helper_.load(std::memory_order_relaxed)) return true;
  if (!open()) return false;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, helper_stack);
  pthread_t thread;
  // Signals are blocked here, and so they are there.
  const int error = pthread_create(&thread, &attributes, helper, this);
  pthread_attr_destroy(&attributes);
  if (error != 0) return false;
  helper_.store(true, std::memory_order_release);
  library_.helper_started();
  return true;
}

void* Shard::helper(void* self) {
  pthread_setname_np(pthread_self(), "uaio");
  static_cast<Shard*>(self)->run_helper();
  return nullptr;
}

void Shard::run_helper() {
  for (;;) {
    bool busy = false;
    {
      const Locked locked{mutex_};
      collect();
      busy = in_flight_ > 0;
    }
    const bool signals = library_.send_waiting_signals();
    const timespec time = to_timespec(signals ? signal_pause_ns : sleep_max_ns);
    pollfd entries[2] = {{proactor_->descriptor(), POLLIN, 0},
                         {bell_.load(std::memory_order_relaxed), POLLIN, 0}};
    if (::ppoll(entries, 2, busy || signals ? &time : nullptr, nullptr) <= 0) continue;
    std::uint64_t rung = 0;
    if (entries[1].revents != 0 && ::read(entries[1].fd, &rung, sizeof(rung)) < 0) continue;
  }
}

// -- fork -----------------------------------------------------------------------------------------

// The requests are the parent's. The copies of their aiocbs that the child has become complete, so
// that nobody here waits for them for ever.
void Shard::after_fork_in_child() noexcept {
  Request* lost = nullptr;
  files_.for_each([&](Request& request) {
    request.next = lost;
    lost = &request;
  });
  while (Request* const request = lost) {
    lost = request->next;
    library_.lose(*request);
  }
  files_.clear();
  run_list_ = nullptr;
  idle_ = nullptr;
  pending_ = in_flight_ = 0;
  collecting_ = false;
  helper_.store(false, std::memory_order_relaxed);
  busy_.store(false, std::memory_order_relaxed);
  forked_ = proactor_ != nullptr;
  opened_.store(false, std::memory_order_release);
  const int bell = bell_.exchange(-1, std::memory_order_relaxed);
  if (bell >= 0) ::close(bell);
}

}  // namespace uaio
