#include "calls.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "at_once.hpp"
#include "block.hpp"
#include "library.hpp"
#include "uaio.h"

namespace uaio {
namespace {

constexpr int priority_max = 20;  // sysconf(_SC_AIO_PRIO_DELTA_MAX)

int fail(int error) noexcept {
  errno = error;
  return -1;
}

/// The bytes of a request, or -1: no such size.
ssize_t bytes_of(const aiocb& block, Action action) noexcept {
  if (!is_vectored(action)) {
    return block.aio_nbytes <= SSIZE_MAX ? static_cast<ssize_t>(block.aio_nbytes) : -1;
  }
  if (block.aio_nbytes > IOV_MAX) return -1;
  const auto* const list = static_cast<const iovec*>(const_cast<const void*>(block.aio_buf));
  std::size_t sum = 0;
  for (std::size_t i = 0; i < block.aio_nbytes; ++i) {
    if (__builtin_add_overflow(sum, list[i].iov_len, &sum) || sum > SSIZE_MAX) return -1;
  }
  return static_cast<ssize_t>(sum);
}

bool access_allows(int flags, Action action) noexcept {
  if ((flags & O_PATH) != 0) return false;
  const int access = flags & O_ACCMODE;
  return reads(action) ? access != O_WRONLY : access != O_RDONLY;
}

/// Files with a position cannot begin before it.
bool is_bad_offset(int fildes, int flags, Action action, off_t offset) noexcept {
  if (offset >= 0 || syncs(action)) return false;
  if (writes(action) && (flags & O_APPEND) != 0) return false;  // is not looked at
  struct stat status{};
  if (::fstat(fildes, &status) != 0) return true;
  return S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) || S_ISDIR(status.st_mode);
}

/// 0 or an errno; what is right goes to `transfer`.
int check(const aiocb& block, Action action, Transfer& transfer) noexcept {
  const int flags = ::fcntl(block.aio_fildes, F_GETFL);
  if (flags < 0 || !access_allows(flags, action)) return EBADF;
  if (block.aio_reqprio < 0 || block.aio_reqprio > priority_max) return EINVAL;
  const ssize_t bytes = syncs(action) ? 0 : bytes_of(block, action);
  if (bytes < 0) return EINVAL;
  if (is_bad_offset(block.aio_fildes, flags, action, block.aio_offset)) return EINVAL;
  transfer = {block.aio_fildes,
              flags,
              action,
              const_cast<void*>(block.aio_buf),
              block.aio_nbytes,
              block.aio_offset,
              static_cast<std::size_t>(bytes)};
  return 0;
}

// Which descriptors were, a moment ago, open for plain buffered transfers: neither O_DIRECT nor a
// kind of O_SYNC nor O_APPEND. The kernel's own answer is trusted for so many requests. Should the
// program change the file behind the number meanwhile, the transfer is right all the same; only
// its caller may have to wait for the device.
class PlainFiles {
 public:
  [[nodiscard]] bool take(int fildes) noexcept {
    if (fildes < 0 || fildes >= count) return false;
    std::atomic<std::uint8_t>& left = left_[fildes];
    // relaxed, and no read-modify-write: a hint, whose loss costs a system call.
    const std::uint8_t now = left.load(std::memory_order_relaxed);
    if (now == 0) return false;
    left.store(static_cast<std::uint8_t>(now - 1), std::memory_order_relaxed);
    return true;
  }
  void note(int fildes, int flags) noexcept {
    if (fildes < 0 || fildes >= count) return;
    constexpr int special = O_DIRECT | O_SYNC | O_DSYNC | O_APPEND | O_NONBLOCK;
    left_[fildes].store((flags & special) == 0 ? trust : 0, std::memory_order_relaxed);
  }

 private:
  static constexpr int count = 1'024;
  static constexpr std::uint8_t trust = 255;
  std::atomic<std::uint8_t> left_[count] = {};
};
PlainFiles plain_files;

/// The short way: a valid request that is served from, or into, the page cache.
AtOnce try_plain(const aiocb& block, Action action) noexcept {
  Library& library = Library::get();
  const bool valid = !is_vectored(action) && !syncs(action) && block.aio_reqprio >= 0 &&
                     block.aio_reqprio <= priority_max && block.aio_nbytes <= SSIZE_MAX;
  if (!valid || !plain_files.take(block.aio_fildes)) return {};
  const Transfer transfer{block.aio_fildes, 0,
                          action,           const_cast<void*>(block.aio_buf),
                          block.aio_nbytes, block.aio_offset,
                          block.aio_nbytes};
  if (writes(action) && (library.busy() || is_beyond_limit(transfer))) return {};
  const AtOnce done = try_at_once(transfer, library.options(), false);
  // What is wrong, the long way tells.
  return done.answer == AtOnce::Answer::done ? done : AtOnce{};
}

int start_at_engine(aiocb& block, const Transfer& transfer, std::size_t moved,
                    const Notification& note, Group* group) noexcept {
  Library& library = Library::get();
  struct stat status{};
  if (::fstat(transfer.fildes, &status) != 0) return EBADF;
  Shard& shard = library.shard_of(status);
  const Locked locked{shard.mutex()};
  Request* const request = take_request();
  if (request == nullptr) return EAGAIN;
  request->block = &block;
  request->fildes = transfer.fildes;
  request->action = transfer.action;
  request->data = transfer.data;
  request->size = transfer.size;
  request->offset = static_cast<std::uint64_t>(transfer.offset);
  request->moved_before = moved;
  request->priority = block.aio_reqprio;
  request->note = note;
  request->group = group;
  if (group != nullptr) {
    group->left.fetch_add(1, std::memory_order_relaxed);
    group->users.fetch_add(1, std::memory_order_relaxed);
  }
  Block{block}.set_pending();
  // The request may be complete, and its aiocb gone, before this returns.
  const int error = shard.start(*request, transfer.flags, status);
  if (error == 0) return 0;
  if (group != nullptr) {
    group->left.fetch_sub(1, std::memory_order_relaxed);
    group->users.fetch_sub(1, std::memory_order_relaxed);
  }
  give_request(*request);
  return error;
}

/// 0 or an errno; then the aiocb says so, too.
int begin(aiocb& block, Action action, const Notification& note, Group* group) noexcept {
  Library& library = Library::get();
  if (library.options().trace) {
    library.trace("start", &block, static_cast<long>(action), block.aio_fildes);
  }
  AtOnce done = try_plain(block, action);
  if (done.answer == AtOnce::Answer::done) {
    library.complete_at_once(block, 0, static_cast<ssize_t>(done.moved), note);
    return 0;
  }
  Transfer transfer{};
  int error = check(block, action, transfer);
  if (error == 0 && !syncs(action)) {
    if (writes(action) && is_beyond_limit(transfer)) {
      done = {AtOnce::Answer::failed, EFBIG, 0};
    } else {
      done = try_at_once(transfer, library.options(), library.busy());
    }
    if (done.answer != AtOnce::Answer::engine) {
      const bool failed = done.answer == AtOnce::Answer::failed;
      if (!failed) plain_files.note(transfer.fildes, transfer.flags);
      if (failed && group != nullptr) group->failed.store(true, std::memory_order_relaxed);
      library.complete_at_once(block, done.error, failed ? -1 : static_cast<ssize_t>(done.moved),
                               note);
      return 0;
    }
    if (reads(action) && (transfer.flags & O_DIRECT) == 0) library.count(Library::not_cached);
  }
  if (error == 0) {
    library.count(Library::at_engine);
    error = start_at_engine(block, transfer, done.moved, note, group);
  }
  if (error != 0) library.refuse(block, error);
  return error;
}

Action action_of(int opcode) noexcept { return opcode == LIO_READ ? Action::read : Action::write; }

/// Whether it is over. Signal handlers, too.
bool is_done(const aiocb& block) noexcept { return Block{block}.error() != EINPROGRESS; }

bool is_time(const timespec& time) noexcept {
  return time.tv_nsec >= 0 && time.tv_nsec < 1'000'000'000;
}

}  // namespace

int start(aiocb* block, Action action) {
  const int error = begin(*block, action, Notification::from(block->aio_sigevent), nullptr);
  return error == 0 ? 0 : fail(error);
}

int sync(int operation, aiocb* block) {
  if (operation != O_SYNC && operation != O_DSYNC) return fail(EINVAL);
  return start(block, operation == O_SYNC ? Action::sync : Action::data_sync);
}

int start_list(int mode, aiocb* const list[], int count, const sigevent* event, Names names,
               bool tells_each) {
  if (mode != LIO_WAIT && mode != LIO_NOWAIT) return fail(EINVAL);
  if (count < 0 || (names == Names::thesis && count > UAIO_LISTIO_MAX)) return fail(EINVAL);
  Library& library = Library::get();
  library.count(Library::lists);
  Group* group = nullptr;
  {
    const SignalsBlocked blocked;
    group = take_group();
  }
  if (group == nullptr) return fail(EAGAIN);
  if (mode == LIO_NOWAIT && event != nullptr) group->note = Notification::from(*event);
  bool wrong = false;
  bool no_room = false;
  for (int i = 0; i < count; ++i) {
    aiocb* const block = list[i];
    if (block == nullptr || block->aio_lio_opcode == LIO_NOP) continue;
    int error = EINVAL;
    if (block->aio_lio_opcode == LIO_READ || block->aio_lio_opcode == LIO_WRITE) {
      const Notification note =
          tells_each ? Notification::from(block->aio_sigevent) : Notification{};
      error = begin(*block, action_of(block->aio_lio_opcode), note, group);
    } else {
      library.refuse(*block, EINVAL);
    }
    wrong |= error != 0 && error != EAGAIN;
    no_room |= error == EAGAIN;
  }
  int answer = 0;
  if (mode == LIO_WAIT) {
    // The count is the starter's until it stops waiting: the group outlives an interruption.
    group->left.fetch_sub(1, std::memory_order_acq_rel);
    answer =
        library.wait([group] { return group->left.load(std::memory_order_acquire) == 0; }, nullptr);
    if (answer == 0 && group->failed.load(std::memory_order_relaxed)) wrong = true;
    const SignalsBlocked blocked;
    library.release(*group);
  } else {
    library.leave(*group, false);
  }
  if (answer != 0) return fail(answer);
  if (no_room) return fail(EAGAIN);
  return wrong ? fail(EIO) : 0;
}

int error(const aiocb* block, Names names) {
  const Block state{*block};
  const Block::Mark mark = state.mark();
  if (mark != Block::Mark::submitted) {
    return names == Names::thesis ? fail(EINVAL) : state.error();
  }
  const int now = state.error();
  if (now != EINPROGRESS) return now;
  Library::get().look();
  return state.error();
}

ssize_t result(aiocb* block, Names names) {
  Block state{*block};
  if (state.mark() != Block::Mark::submitted) {
    return names == Names::thesis ? fail(EINVAL) : state.result();
  }
  const int error = state.error();
  if (error == EINPROGRESS) return fail(EINPROGRESS);
  const ssize_t result = state.result();
  if (!state.fetch()) return fail(EINVAL);
  Library::get().fetched(*block);
  if (result < 0) errno = error;
  return result;
}

int suspend(const aiocb* const list[], int count, const timespec* timeout) {
  if (count < 0 || (timeout != nullptr && !is_time(*timeout))) return fail(EINVAL);
  bool empty = true;
  const auto done = [&] {
    for (int i = 0; i < count; ++i) {
      if (list[i] == nullptr) continue;
      empty = false;
      if (is_done(*list[i])) return true;
    }
    return empty;
  };
  if (done()) return 0;
  Library& library = Library::get();
  library.look();
  if (done()) return 0;
  timespec until{};
  if (timeout != nullptr) until = after(monotonic_now(), *timeout);
  const int answer = library.wait(done, timeout != nullptr ? &until : nullptr);
  return answer == 0 ? 0 : fail(answer);
}

ssize_t wait_complete(aiocb** block, const timespec* timeout) {
  *block = nullptr;
  if (timeout != nullptr && !is_time(*timeout)) return fail(EINVAL);
  Library& library = Library::get();
  timespec until{};
  if (timeout != nullptr) until = after(monotonic_now(), *timeout);
  for (;;) {
    library.look();
    if (aiocb* const first = library.first_done(); first != nullptr) {
      Block state{*first};
      const int error = state.error();
      const ssize_t result = state.result();
      // Another thread may have fetched it in between.
      if (!state.fetch()) continue;
      library.fetched(*first);
      *block = first;
      if (result < 0) errno = error;
      return result;
    }
    if (!library.busy() && !library.has_done()) return fail(EINVAL);
    const int answer = library.wait([&library] { return library.has_done() || !library.busy(); },
                                    timeout != nullptr ? &until : nullptr);
    if (answer != 0) return fail(answer);
  }
}

int cancel(int fildes, aiocb* block) {
  if (::fcntl(fildes, F_GETFL) < 0) return fail(EBADF);
  if (block != nullptr && block->aio_fildes != fildes) return fail(EINVAL);
  if (block != nullptr && is_done(*block)) return AIO_ALLDONE;
  Library& library = Library::get();
  Shard::Cancelled sum;
  for (const auto& shard : library.shards()) {
    if (!shard->busy()) continue;
    Shard::Cancelled tally;
    {
      const Locked locked{shard->mutex()};
      shard->cancel(fildes, block, tally);
    }
    // What waits for a peer ends as soon as the kernel has heard of it; what a device is at work on
    // does not.
    for (bool waits = tally.found != 0; waits;) {
      constexpr timespec moment{0, 1'000'000};
      bool streams = false;
      {
        const Locked locked{shard->mutex()};
        shard->collect();
        streams = tally.streams != 0;
        if (!streams) shard->forget(tally);
      }
      waits = streams;
      if (waits) shard->sleep(&moment);
    }
    sum.found += tally.found;
    sum.cancelled += tally.cancelled;
    sum.pending += tally.pending;
  }
  if (sum.found == 0) return AIO_ALLDONE;
  if (sum.cancelled == sum.found) return AIO_CANCELED;
  return sum.pending == 0 && sum.cancelled == 0 ? AIO_ALLDONE : AIO_NOTCANCELED;
}

void initialise(const aioinit* parameters) {
  Library::get();
  if (parameters == nullptr) return;
  const SignalsBlocked blocked;
  reserve_requests(static_cast<std::size_t>(std::clamp(parameters->aio_num, 0, 1 << 20)));
}

}  // namespace uaio
