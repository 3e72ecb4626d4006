#include "descriptors.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>

#include "bridge.hpp"
#include "ending.hpp"

namespace baton::ace {
namespace {

/// Some starts travel to the thread of a lane. In a team that may be so for sockets only.
bool has_lanes(const Config& config) noexcept {
  return std::ranges::any_of(
      config.processors, [](const ProcessorConfig& each) { return each.mode == Mode::per_thread; });
}

OperationKind kind_of(Action action, HandleKind handle) noexcept {
  const bool in = action == Action::read || action == Action::receive;
  if (handle == HandleKind::stream_socket && action <= Action::write) {
    return in ? OperationKind::read_stream : OperationKind::write_stream;
  }
  if (action == Action::accept) return OperationKind::accept;
  if (action == Action::connect) return OperationKind::connect;
  if (action == Action::receive) return OperationKind::read_datagram;
  if (action == Action::send) return OperationKind::write_datagram;
  switch (handle) {
    case HandleKind::file:
      return in ? OperationKind::read_file : OperationKind::write_file;
    case HandleKind::datagram_socket:
      return in ? OperationKind::read_datagram : OperationKind::write_datagram;
    default:
      return in ? OperationKind::read_stream : OperationKind::write_stream;
  }
}

/// Sockets are called with MSG_DONTWAIT, which accept(2) does not have.
bool mode_matters(HandleKind kind) noexcept {
  return kind == HandleKind::pipe || kind == HandleKind::listener;
}

/// The access mode and O_NONBLOCK; -1: no such descriptor.
int mode_of(int fildes) noexcept {
  const int flags = ::fcntl(fildes, F_GETFL);
  return flags != -1 ? flags & (O_ACCMODE | O_NONBLOCK) : -1;
}

}  // namespace

/// A part may have been transferred. A failed accept has no descriptor, and so no bytes.
Outcome Descriptors::Request::failure() const noexcept {
  return {kind() != OperationKind::accept ? bytes() : 0, errno_of(error())};
}

[[gnu::noinline]] Descriptors::Request* Descriptors::make(Descriptor& descriptor) noexcept {
  try {
    auto fresh = std::make_unique<Request>(bridge_, descriptor);
    const std::lock_guard guard{requests_mutex_};
    return requests_.emplace_back(std::move(fresh)).get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Descriptors::Descriptors(Bridge& bridge, bool lazy) noexcept
    : bridge_(bridge),
      native_(bridge.native()),
      lazy_(lazy),
      per_thread_(has_lanes(native_.config())) {}

Descriptors::~Descriptors() {
  for (const std::atomic<Chunk*>& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
}

// -- the table ------------------------------------------------------------------------------------

Descriptors::Descriptor* Descriptors::add(int fildes) noexcept {
  const auto number = static_cast<std::size_t>(fildes);
  if (fildes < 0 || number >= chunks * chunk_size) return nullptr;
  const std::lock_guard guard{chunks_mutex_};
  std::atomic<Chunk*>& place = chunks_[number / chunk_size];
  if (place.load(std::memory_order_relaxed) == nullptr) {
    Chunk* const chunk = new (std::nothrow) Chunk;
    if (chunk == nullptr) return nullptr;
    place.store(chunk, std::memory_order_release);
  }
  return find(fildes);
}

// -- starting -------------------------------------------------------------------------------------

int Descriptors::start_lazily(Descriptor& descriptor, const Start& start) noexcept {
  // A descriptor that adopt() refuses is refused at once, in this mode as well.
  if (!must_wait(descriptor) && descriptor.handle == nullptr) {
    if (const int error = adopt(descriptor, start)) return error;
  }
  if (const int error = wait_in_line(descriptor, start)) return error;
  const std::error_code error = native_.post([this, &descriptor] {
    bridge_.count_own();
    begin_next(descriptor);
  });
  if (error) descriptor.waiting->pop_back();
  return errno_of(error);
}

/// 0, or an errno.
int Descriptors::set_file(Descriptor& descriptor, int fildes,
                          const native::OpenFile& file) noexcept {
  descriptor.file = file;
  return file.shares_inode ? shared_inodes_.add(fildes) : 0;
}

/// The number, which names `now`, still names the file of the descriptor.
bool Descriptors::is_same(const Descriptor& descriptor, int fildes,
                          const native::OpenFile& now) noexcept {
  return now == descriptor.file && (!now.shares_inode || shared_inodes_.knows(fildes));
}

int Descriptors::adopt(Descriptor& descriptor, const Start& start) noexcept {
  expect_end(true);
  native::OpenFile file;
  if (const int error = native::look_at(start.fildes, file)) return error;
  if (file.directory) return EISDIR;
  const bool listens = start.action == Action::accept;
  if (listens && file.kind != HandleKind::stream_socket) {
    return file.kind == HandleKind::datagram_socket ? EOPNOTSUPP : ENOTSOCK;  // as accept(2)
  }
  const HandleKind kind = listens ? HandleKind::listener : file.kind;
  if (const int error = set_file(descriptor, start.fildes, file)) return error;
  const Result<Handle*> handle = native_.adopt(start.fildes, kind, Ownership::borrowed);
  if (!handle) return errno_of(handle.error());
  descriptor.handle = *handle;
  if (mode_matters(kind)) descriptor.mode = mode_of(start.fildes);
  return 0;
}

/// For a socket that was used for transfers and listens now, or the other way round, and for a
/// change of the mode. It is the same file, so the starts that wait are still right, and this one
/// comes before them.
int Descriptors::adopt_anew(Descriptor& descriptor, const Start& start) noexcept {
  if (descriptor.pending.load(std::memory_order_relaxed) != 0) return EINVAL;
  close_handle(descriptor);
  if (!descriptor.letting_go) return EINVAL;
  if (const int error = wait_in_line(descriptor, start)) return error;
  std::deque<Waiting>& line = *descriptor.waiting;
  std::rotate(line.begin(), line.end() - 1, line.end());
  return 0;
}

int Descriptors::start_now(Descriptor& descriptor, const Start& start) noexcept {
  if (descriptor.handle == nullptr) {
    if (const int error = adopt(descriptor, start)) return error;
  }
  const HandleKind kind = descriptor.handle->kind();
  const bool listens = kind == HandleKind::listener;
  if (listens != (start.action == Action::accept)) return adopt_anew(descriptor, start);
  // Baton reads the mode when it adopts a descriptor. The program may have changed it, or opened
  // the same FIFO anew.
  if (mode_matters(kind) && descriptor.pending.load(std::memory_order_relaxed) == 0 &&
      mode_of(start.fildes) != descriptor.mode) {
    return adopt_anew(descriptor, start);
  }
  return start_as(kind_of(start.action, kind), descriptor, start);
}

/// Also behind other starts that wait, which keeps the order.
inline bool Descriptors::must_wait(const Descriptor& descriptor) noexcept {
  return descriptor.letting_go || (descriptor.waiting && !descriptor.waiting->empty());
}

int Descriptors::start(const Start& start) noexcept {
  Descriptor* descriptor = find(start.fildes);
  if (descriptor == nullptr) descriptor = add(start.fildes);
  if (descriptor == nullptr) [[unlikely]] {
    if (start.fildes < 0) return EBADF;
    return start.fildes < int{chunks * chunk_size} ? ENOMEM : EMFILE;
  }
  const std::lock_guard guard{descriptor->mutex};
  if (lazy_) return start_lazily(*descriptor, start);
  if (must_wait(*descriptor)) return wait_in_line(*descriptor, start);
  const int error = start_now(*descriptor, start);
  const Handle* const handle = descriptor->handle;
  descriptor->plain =
      handle != nullptr && handle->kind() == HandleKind::stream_socket && !must_wait(*descriptor);
  return error;
}

int Descriptors::wait_in_line(Descriptor& descriptor, const Start& start) noexcept {
  native::OpenFile now;
  if (const int error = native::look_at(start.fildes, now)) return error;
  if (!is_same(descriptor, start.fildes, now)) {
    let_go(descriptor);
    if (const int error = set_file(descriptor, start.fildes, now)) return error;
  }
  try {
    if (!descriptor.waiting) descriptor.waiting = std::make_unique<std::deque<Waiting>>();
    descriptor.waiting->push_back(Waiting{start, false});
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

/// False: no start waits, or the first has to wait longer.
bool Descriptors::begin_next(Descriptor& descriptor) {
  Waiting next;
  int error = 0;
  {
    const std::lock_guard guard{descriptor.mutex};
    if (descriptor.letting_go) return false;
    if (!descriptor.waiting || descriptor.waiting->empty()) return false;
    next = descriptor.waiting->front();
    descriptor.waiting->pop_front();
    error = next.cancelled ? ECANCELED : let_go_of_earlier(descriptor, next.start.fildes);
    if (error == 0) error = start_now(descriptor, next.start);
    if (error == ESHUTDOWN) error = ECANCELED;  // it was started, and ends with the proactor
  }
  if (error != 0) next.start.told.function(bridge_, next.start.told.what, {0, error});
  return true;
}

/// No later call would begin the others, so an exception of a handler is rethrown only when all
/// have begun.
void Descriptors::begin_all(Descriptor& descriptor) {
  std::exception_ptr thrown;
  for (bool more = true; more;) {
    try {
      more = begin_next(descriptor);
    } catch (...) {
      if (thrown == nullptr) thrown = std::current_exception();
    }
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

void Descriptors::end_waiting() noexcept {
  for (const std::atomic<Chunk*>& each : chunks_) {
    Chunk* const chunk = each.load(std::memory_order_acquire);
    if (chunk == nullptr) continue;
    for (Descriptor& descriptor : chunk->descriptors) {
      {
        const std::lock_guard guard{descriptor.mutex};
        descriptor.letting_go = false;
        if (descriptor.waiting) {
          for (Waiting& one : *descriptor.waiting) one.cancelled = true;
        }
      }
      try {
        begin_all(descriptor);
      } catch (...) {
        // Dropped, like every exception of a handler at the end of a proactor.
      }
    }
  }
}

// -- ending ---------------------------------------------------------------------------------------

int Descriptors::cancel(int fildes) noexcept {
  Descriptor* const descriptor = find(fildes);
  if (descriptor != nullptr) {
    const std::lock_guard guard{descriptor->mutex};
    int answer = ask_for_end(*descriptor);
    if (descriptor->waiting) {
      for (Waiting& each : *descriptor->waiting) {
        each.cancelled = true;
        answer = 0;
      }
    }
    if (answer == 0) return 0;
  }
  return ::fcntl(fildes, F_GETFD) >= 0 ? 1 : -1;
}

/// Cancels the operations that Baton has. 0: requested; 1: nothing is pending.
int Descriptors::ask_for_end(Descriptor& descriptor) noexcept {
  if (descriptor.handle == nullptr || descriptor.pending.load(std::memory_order_relaxed) == 0) {
    return 1;
  }
  return native_.cancel(*descriptor.handle) == CancelResult::requested ? 0 : 1;
}

int Descriptors::opened(int fildes) noexcept {
  Descriptor* const descriptor = find(fildes);
  if (descriptor == nullptr) return 0;
  const std::lock_guard guard{descriptor->mutex};
  if (descriptor->handle == nullptr) return 0;  // starts that wait are compared when they begin
  const int error = let_go_of_earlier(*descriptor, fildes);
  return error != ECANCELED ? error : 0;
}

/// 0: the number names the file of the handle and of the starts that wait. ECANCELED: it does not,
/// and they are let go. Otherwise the file cannot be examined.
int Descriptors::let_go_of_earlier(Descriptor& descriptor, int fildes) noexcept {
  native::OpenFile now;
  const int error = native::look_at(fildes, now);
  if (error != 0 && error != EBADF) return error;
  if (error == 0 && is_same(descriptor, fildes, now)) return 0;
  let_go(descriptor);
  return ECANCELED;
}

void Descriptors::let_go(int fildes) noexcept {
  Descriptor* const descriptor = find(fildes);
  if (descriptor == nullptr) return;
  const std::lock_guard guard{descriptor->mutex};
  let_go(*descriptor);
}

void Descriptors::let_go(Descriptor& descriptor) noexcept {
  if (descriptor.waiting) {
    // They were for the earlier file.
    for (Waiting& each : *descriptor.waiting) each.cancelled = true;
  }
  if (descriptor.handle != nullptr) close_handle(descriptor);
}

/// Starts wait until the engine has detached it.
void Descriptors::close_handle(Descriptor& descriptor) noexcept {
  descriptor.plain = false;
  Handle& handle = *std::exchange(descriptor.handle, nullptr);
  // The close is queued behind starts that have not reached the lane yet; a cancel overtakes them.
  if (per_thread_) native_.cancel(handle);
  CachedOperation* const closing = native_.take_cached();
  if (closing == nullptr) return native_.close_detached(handle);
  closing->prepare(OperationKind::close, &handle, Operation::cached);
  closing->emplace_handler([this, &descriptor](Operation&) {
    bridge_.count_own();
    {
      const std::lock_guard guard{descriptor.mutex};
      descriptor.letting_go = false;
    }
    begin_all(descriptor);
  });
  const std::error_code error = native_.start_cached(
      *closing, [this, &handle](Operation& filled) { return native_.close(handle, filled); });
  descriptor.letting_go = !error;
}

}  // namespace baton::ace
