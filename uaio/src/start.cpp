#include "start.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>

#include "at_once.hpp"
#include "block.hpp"
#include "library.hpp"
#include "size_limit.hpp"

namespace uaio {
namespace {

/// A caller that waits for a list waits anyway, so it also carries out longer transfers itself.
constexpr std::size_t list_patience = 16;
constexpr int priority_max = 20;  // sysconf(_SC_AIO_PRIO_DELTA_MAX)

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
  if (syncs(action)) return true;  // as fsync: also a directory, which cannot be open for writing
  const int access = flags & O_ACCMODE;
  return reads(action) ? access != O_WRONLY : access != O_RDONLY;
}

/// A file with a position cannot have a negative offset. `flags` < 0: there is no such file.
bool is_bad_offset(int fildes, int flags, Action action, off_t offset) noexcept {
  if (offset >= 0 || syncs(action)) return false;
  // An append ignores the offset. A device has no end to append to.
  const bool appends = flags >= 0 && writes(action) && (flags & O_APPEND) != 0;
  struct stat status{};
  if (appends && ::fstat(fildes, &status) == 0 && S_ISREG(status.st_mode)) return false;
  return !is_stream(fildes);
}

/// As in the system's library, this is the only error of the call itself.
bool has_valid_priority(const aiocb& block, Action action) noexcept {
  // A sync uses only the descriptor and the notification.
  return syncs(action) || (block.aio_reqprio >= 0 && block.aio_reqprio <= priority_max);
}

/// 0 or an errno; on success `transfer` is filled in.
int check(const aiocb& block, Action action, Transfer& transfer) noexcept {
  const int flags = ::fcntl(block.aio_fildes, F_GETFL);
  // As in pread, the offset first.
  if (is_bad_offset(block.aio_fildes, flags, action, block.aio_offset)) return EINVAL;
  if (flags < 0 || !access_allows(flags, action)) return EBADF;
  const ssize_t bytes = syncs(action) ? 0 : bytes_of(block, action);
  if (bytes < 0) return EINVAL;
  transfer = {block.aio_fildes,
              flags,
              action,
              const_cast<void*>(block.aio_buf),
              block.aio_nbytes,
              block.aio_offset,
              static_cast<std::size_t>(bytes)};
  return 0;
}

// Recent findings about descriptors, so that the usual request need not check again.
// They are hints: a request that relies on one is correct even if the program has changed the file
// since.
//
// `plain`: open for buffered transfers, without O_DIRECT, a kind of O_SYNC, O_APPEND or O_NONBLOCK.
// `direct`: a file open with O_DIRECT, and none of the others. A hint holds for `trust` requests. A
// number may be reused, and O_DIRECT can be cleared: a read that reaches another file is detected
// by its result (Direct). A pipe or a socket would take a part of a write or raise SIGPIPE; so
// would a pipe of packets, whose flags also have O_DIRECT. If the kernel cannot be told to refuse
// those (Direct::refuses_streams), a write checks.
class Hints {
 public:
  [[nodiscard]] bool take_plain(int fildes) noexcept { return take(fildes, plain); }
  [[nodiscard]] bool take_direct(int fildes) noexcept { return take(fildes, direct); }
  void note_plain(int fildes, int flags) noexcept {
    if (has_room(fildes)) set(fildes, (flags & (special | O_DIRECT)) == 0 ? plain + trust : 0);
  }
  void note_direct(int fildes) noexcept {
    if (has_room(fildes)) set(fildes, direct + trust);
  }
  void forget(int fildes) noexcept {
    if (has_room(fildes)) set(fildes, 0);
  }
  static constexpr int special = O_SYNC | O_DSYNC | O_APPEND | O_NONBLOCK;

 private:
  static constexpr int count = 1'024;
  static constexpr std::uint8_t trust = 127;
  static constexpr std::uint8_t plain = 0;
  static constexpr std::uint8_t direct = 128;
  bool take(int fildes, std::uint8_t kind) noexcept {
    if (!has_room(fildes)) return false;
    std::atomic<std::uint8_t>& hint = hints_[fildes];
    // relaxed, and no read-modify-write: losing a hint only costs a system call.
    const std::uint8_t now = hint.load(std::memory_order_relaxed);
    if ((now & direct) != kind || (now & trust) == 0) return false;
    hint.store(static_cast<std::uint8_t>(now - 1), std::memory_order_relaxed);
    return true;
  }
  void set(int fildes, std::uint8_t hint) noexcept {
    hints_[fildes].store(hint, std::memory_order_relaxed);
  }
  static bool has_room(int fildes) noexcept { return fildes >= 0 && fildes < count; }
  std::atomic<std::uint8_t> hints_[count] = {};
};
Hints hints;

bool is_simple(const aiocb& block, Action action) noexcept {
  return !is_vectored(action) && !syncs(action) && block.aio_reqprio >= 0 &&
         block.aio_reqprio <= priority_max && block.aio_nbytes <= SSIZE_MAX;
}

Transfer transfer_of(const aiocb& block, Action action, int flags, std::size_t bytes) noexcept {
  return {block.aio_fildes, flags, action, const_cast<void*>(block.aio_buf), block.aio_nbytes,
          block.aio_offset, bytes};
}

/// The fast path: a valid request that the page cache can serve.
AtOnce try_plain(const aiocb& block, Action action) noexcept {
  Library& library = Library::get();
  if (!is_simple(block, action) || !hints.take_plain(block.aio_fildes)) return {};
  const Transfer transfer = transfer_of(block, action, 0, block.aio_nbytes);
  if (writes(action) &&
      (library.shards_busy() || look_up_size_limit(transfer) >= SizeLimit::uncertain)) {
    return {};
  }
  const AtOnce done = try_at_once(transfer, library.options(), false, 1);
  // The slow path reports errors.
  return done.answer == AtOnce::Answer::done ? done : AtOnce{};
}

/// Fills in a request and counts it in its list; null: no memory.
Request* make_request(aiocb& block, const Transfer& transfer, std::size_t moved,
                      const Notification& note, Group* group) noexcept {
  Request* const request = take_request();
  if (request == nullptr) return nullptr;
  request->set_target(block, transfer.fildes);
  request->action = transfer.action;
  request->data = transfer.data;
  request->size = transfer.size;
  request->bytes = transfer.bytes;
  request->offset = static_cast<std::uint64_t>(transfer.offset);
  request->moved_before = moved;
  request->priority = syncs(transfer.action) ? 0 : block.aio_reqprio;
  request->note = note;
  request->group = group;
  if (group != nullptr) {
    group->left.fetch_add(1, std::memory_order_relaxed);
    group->users.fetch_add(1, std::memory_order_relaxed);
  }
  return request;
}

/// Undoes make_request: it was not started.
void unmake_request(Request& request) noexcept {
  if (request.group != nullptr) {
    request.group->left.fetch_sub(1, std::memory_order_relaxed);
    request.group->users.fetch_sub(1, std::memory_order_relaxed);
  }
  give_request(request);
}

/// Hands it to the keeper. 0 or an errno; the request is no longer the caller's either way.
int post(Request& request) noexcept {
  Library& library = Library::get();
  library.count(Library::at_engine);
  struct stat status{};
  // The file matters only with several shards.
  if (library.shards().size() > 1 && ::fstat(request.fildes, &status) != 0) {
    unmake_request(request);
    return EBADF;
  }
  const int error = library.shard_of(status).post(request);
  if (error != 0) unmake_request(request);
  return error;
}

/// Whether a thread has to collect even if the program does not ask.
bool needs_watcher(const Notification& note, const Group* group) noexcept {
  return !note.silent() || (group != nullptr && !group->note.silent()) ||
         Library::get().options().mode == Mode::helper;
}

/// Past the page cache, by the kernel's native AIO. 0 or an errno.
int start_direct(aiocb& block, const Transfer& transfer, const Notification& note, Group* group,
                 Batch& batch) noexcept {
  Library& library = Library::get();
  if (needs_watcher(note, group) && !library.need_watcher()) return EAGAIN;
  Request* request = make_request(block, transfer, 0, note, group);
  if (request == nullptr) return EAGAIN;
  batch.requests[batch.count++] = request;
  if (batch.count == Direct::batch_max) flush(batch);
  return 0;
}

bool takes_direct_road() noexcept {
  Library& library = Library::get();
  return library.options().direct && !library.options().depth_is_given && library.direct().open();
}

bool is_open_for_direct(int flags) noexcept {
  return (flags & O_DIRECT) != 0 && (flags & Hints::special) == 0;
}

/// The fast path past the page cache. False: no hint, or an error, which the slow path reports;
/// then nothing has happened. While the keeper has requests the hint is not used: the number may
/// belong to a pipe by now, whose earlier requests the keeper has.
bool try_direct(aiocb& block, Action action, const Notification& note, Group* group, Batch& batch,
                int& error) noexcept {
  Library& library = Library::get();
  if (!is_simple(block, action) || block.aio_offset < 0 || library.shards_busy() ||
      !hints.take_direct(block.aio_fildes) || !takes_direct_road()) {
    return false;
  }
  const Transfer transfer = transfer_of(block, action, O_DIRECT, block.aio_nbytes);
  if (writes(action) && batch.writes_to != block.aio_fildes) {
    if (!library.direct().refuses_streams() || look_up_size_limit(transfer) != SizeLimit::none) {
      return false;
    }
    batch.writes_to = block.aio_fildes;
  }
  error = start_direct(block, transfer, note, group, batch);
  return true;
}

bool is_on_device(int fildes) noexcept {
  struct stat status{};
  return ::fstat(fildes, &status) == 0 && (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
}

/// A sync waits for the direct requests that were started before it. 0 or an errno.
int start_at_keeper(aiocb& block, const Transfer& transfer, std::size_t moved,
                    const Notification& note, Group* group) noexcept {
  Library& library = Library::get();
  const bool after_direct = syncs(transfer.action) && library.direct().busy();
  if (after_direct && !library.need_watcher()) return EAGAIN;
  Request* const request = make_request(block, transfer, moved, note, group);
  if (request == nullptr) return EAGAIN;
  if (after_direct) request->after_direct = library.direct().next_number();
  return post(*request);
}

constexpr std::size_t run_max = 64;

/// Gathers the front of the list, whose requests are adjacent in one file, into one transfer.
std::size_t gather(aiocb* const list[], std::size_t count, std::size_t bytes_max,
                   std::array<iovec, run_max>& pieces) noexcept {
  const aiocb& first = *list[0];
  off_t next = first.aio_offset;
  std::size_t length = 0;
  for (; length < std::min(count, run_max); ++length) {
    const aiocb* const each = list[length];
    const bool continues = each != nullptr && each->aio_fildes == first.aio_fildes &&
                           each->aio_lio_opcode == first.aio_lio_opcode &&
                           each->aio_offset == next && each->aio_nbytes - 1 < bytes_max &&
                           is_simple(*each, Action::read);
    if (!continues || __builtin_add_overflow(next, each->aio_nbytes, &next)) break;
    pieces[length] = {const_cast<void*>(each->aio_buf), each->aio_nbytes};
  }
  return length;
}

}  // namespace

std::size_t begin_run(aiocb* const list[], std::size_t count, bool tells_each,
                      std::size_t& asked) noexcept {
  Library& library = Library::get();
  asked = 0;
  const aiocb* const first = list[0];
  if (first == nullptr || first->aio_offset < 0) return 0;
  if (first->aio_lio_opcode != LIO_READ && first->aio_lio_opcode != LIO_WRITE) return 0;
  const Action action = action_of(first->aio_lio_opcode);
  if (writes(action) && library.shards_busy()) return 0;
  const Options& options = library.options();
  std::array<iovec, run_max> pieces;
  const std::size_t length =
      gather(list, count, reads(action) ? options.inline_read : options.inline_write, pieces);
  if (length < 2 || !hints.take_plain(first->aio_fildes)) return 0;
  if (writes(action) && look_up_size_limit(transfer_of(*first, action, 0, first->aio_nbytes)) >=
                            SizeLimit::uncertain) {
    return 0;
  }
  // A callback without a thread is refused before anything is moved, one request at a time.
  const auto can_be_told = [&](const aiocb* each) {
    return library.notifier().prepare(Notification::from(each->aio_sigevent)) == 0;
  };
  if (tells_each && !std::all_of(list, list + length, can_be_told)) return 0;
  asked = length;
  std::size_t moved = move_run(first->aio_fildes, action, pieces.data(), length, first->aio_offset);
  std::size_t done = 0;
  // A read that was moved in part is started again as a whole. A write that was is complete: an
  // append would be made twice.
  const std::size_t least = writes(action) ? 1 : std::numeric_limits<std::size_t>::max();
  for (; done < length && moved >= std::min(pieces[done].iov_len, least); ++done) {
    aiocb& block = *list[done];
    const std::size_t its_own = std::min(pieces[done].iov_len, moved);
    if (options.trace) {
      library.trace("start", &block, static_cast<long>(action), block.aio_fildes);
    }
    moved -= its_own;
    library.complete_at_once(block, 0, static_cast<ssize_t>(its_own),
                             tells_each ? Notification::from(block.aio_sigevent) : Notification{},
                             nullptr);
  }
  return done;
}

namespace {

/// Whether the kernel refused a direct write only because it has to drop clean pages from the cache
/// first, which does not wait for the device (cachestat: since Linux 6.5).
bool has_clean_pages(const Request* request) noexcept {
  const bool small = request->size <= Library::get().options().inline_write;
  const bool refused = request->result.load(std::memory_order_relaxed) == -EAGAIN;
  if (request->action != Action::write || !small || !refused) return false;
  constexpr long sys_cachestat = 451;  // the same on all architectures
  const std::uint64_t range[2] = {request->offset, request->size};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages{};
  return ::syscall(sys_cachestat, request->fildes, range, &pages, 0U) == 0 && pages.cached != 0 &&
         pages.dirty == 0 && pages.writeback == 0;
}

void take_from_kernel(Request& request) noexcept {
  request.native.store(native_none, std::memory_order_relaxed);
  request.handover.store(Handover::none, std::memory_order_relaxed);
}

/// Submits the batch to the kernel, and once more the requests that it can do without waiting for
/// the device. Returns how many it refused: they are at the front.
std::size_t submit(Batch& batch, bool watched) noexcept {
  Direct& direct = Library::get().direct();
  Request** const list = batch.requests;
  std::size_t refused = direct.start(list, batch.count, watched, false);
  std::for_each(list, list + refused, [](Request* each) { take_from_kernel(*each); });
  Request** others = list;  // in their order, which matters for a stream
  for (Request** each = list; each != list + refused; ++each) {
    if (has_clean_pages(*each)) std::rotate(others++, each, each + 1);
  }
  if (others == list) return refused;
  std::size_t again = direct.start(list, static_cast<std::size_t>(others - list), watched, true);
  std::for_each(list, list + again, [](Request* each) { take_from_kernel(*each); });
  std::copy(others, list + refused, list + again);
  return again + static_cast<std::size_t>(list + refused - others);
}

/// Whether a short read ended where its file ends.
bool ends_with_its_file(const Request& request, std::int64_t moved) noexcept {
  struct stat status{};
  return ::fstat(request.fildes, &status) == 0 && S_ISREG(status.st_mode) &&
         static_cast<std::int64_t>(request.offset) + moved >= status.st_size;
}

/// A direct request came back: its number may belong to another file by now, or the file system
/// reads this file through the page cache. Such a read ends where the cached part ends. So a short
/// read is repeated unless it ends at the end of the file. A short write continues. A non-blocking
/// stream is read or written now.
AtOnce look_again_at(Request& request) noexcept {
  const std::int64_t result = request.result.load(std::memory_order_relaxed);
  if (writes(request.action) && (result > 0 || result == -EAGAIN)) {
    request.moved_before = result > 0 ? static_cast<std::size_t>(result) : 0;
    return {};
  }
  const int flags = ::fcntl(request.fildes, F_GETFL);
  const bool by_device = flags >= 0 && is_on_device(request.fildes);
  if (!by_device || !is_open_for_direct(flags)) {
    hints.forget(request.fildes);
  } else if (writes(request.action) && result == -EOPNOTSUPP) {
    Library::get().direct().stop_refusing_streams();
  }
  if (result > 0) {
    if (by_device && !ends_with_its_file(request, result)) return {};
    return {AtOnce::Answer::done, 0, static_cast<std::size_t>(result)};
  }
  if (flags < 0 || by_device || (flags & O_NONBLOCK) == 0) return {};
  const Transfer transfer{request.fildes, flags,        request.action,
                          request.data,   request.size, static_cast<std::int64_t>(request.offset),
                          request.size};
  return try_at_once(transfer, Library::get().options(), false, 0);
}

/// Ends a transfer that could not be started. In the system's library its thread meets the error,
/// which is then the request's; a shortage is the call's. 0 or the errno of the call.
int fail(aiocb& block, int error, const Notification& note, Group* group, Names names) noexcept {
  Library& library = Library::get();
  if (error != EAGAIN && names == Names::system) {
    library.complete_at_once(block, error, -1, note, group);
    return 0;
  }
  library.refuse(block, error);
  return error;
}

}  // namespace

int flush(Batch& batch) noexcept {
  Library& library = Library::get();
  if (batch.count == 0) return batch.error;
  const bool watched =
      std::any_of(batch.requests, batch.requests + batch.count,
                  [](const Request* each) { return needs_watcher(each->note, each->group); });
  const std::size_t refused = submit(batch, watched);
  for (std::size_t i = refused; i < batch.count; ++i) library.count(Library::direct_starts);
  batch.count = 0;
  if (refused == 0) return batch.error;
  const NoCancel no_cancel;
  for (std::size_t i = 0; i < refused; ++i) {
    Request& request = *batch.requests[i];
    if (const AtOnce done = look_again_at(request); done.answer != AtOnce::Answer::engine) {
      const bool failed = done.answer == AtOnce::Answer::failed;
      library.publish(request, done.error, failed ? -1 : static_cast<ssize_t>(done.moved));
      give_request(request);
      continue;
    }
    aiocb& block = *request.block;
    const Notification note = request.note;
    Group* const group = request.group;
    if (int error = post(request); error != 0) {
      error = fail(block, error, note, group, batch.names);
      if (error != 0) batch.error = error;
    }
  }
  return batch.error;
}

namespace {

/// The slow path: checks the descriptor. 0 or an errno, which is the request's.
int begin_checked(aiocb& block, Action action, const Notification& note, Group* group,
                  Batch& batch) noexcept {
  Library& library = Library::get();
  Transfer transfer{};
  if (const int error = check(block, action, transfer); error != 0) return error;
  AtOnce done;
  if (!syncs(action)) {
    const SizeLimit limit = writes(action) ? look_up_size_limit(transfer) : SizeLimit::kept;
    if (limit == SizeLimit::exceeded) {
      library.complete_at_once(block, EFBIG, -1, note, group);
      return 0;
    }
    // A thread that blocks SIGXFSZ makes an uncertain one.
    const bool is_uncertain = limit == SizeLimit::uncertain;
    if (!is_uncertain && is_open_for_direct(transfer.flags) && takes_direct_road() &&
        transfer.offset >= 0 && is_on_device(transfer.fildes)) {
      hints.note_direct(transfer.fildes);
      if (limit == SizeLimit::none) batch.writes_to = transfer.fildes;
      return start_direct(block, transfer, note, group, batch);
    }
    // The keeper knows whether an earlier request of a stream comes first, which the program has
    // made non-blocking since.
    const bool in_turn = (transfer.flags & O_NONBLOCK) != 0 &&
                         library.shards_may_have(transfer.fildes) && is_stream(transfer.fildes);
    if (!is_uncertain && !in_turn) {
      done = try_at_once(transfer, library.options(), library.shards_busy(),
                         group != nullptr && group->waited_for ? list_patience : 1);
    }
    if (done.answer != AtOnce::Answer::engine) {
      const bool failed = done.answer == AtOnce::Answer::failed;
      if (!failed) hints.note_plain(transfer.fildes, transfer.flags);
      library.complete_at_once(block, done.error, failed ? -1 : static_cast<ssize_t>(done.moved),
                               note, group);
      return 0;
    }
    if (reads(action) && (transfer.flags & O_DIRECT) == 0) library.count(Library::not_cached);
  }
  return start_at_keeper(block, transfer, done.moved, note, group);
}

}  // namespace

int begin(aiocb& block, Action action, const Notification& note, Group* group, Names names,
          Batch* batch) noexcept {
  Library& library = Library::get();
  if (library.options().trace) {
    library.trace("start", &block, static_cast<long>(action), block.aio_fildes);
  }
  int error = library.notifier().prepare(note);
  if (error == 0) {
    const AtOnce done = try_plain(block, action);
    if (done.answer == AtOnce::Answer::done) {
      library.complete_at_once(block, 0, static_cast<ssize_t>(done.moved), note, group);
      return 0;
    }
    if (has_valid_priority(block, action)) {
      Batch alone{names};
      Batch& its_own = batch != nullptr ? *batch : alone;
      if (!try_direct(block, action, note, group, its_own, error)) {
        const NoCancel no_cancel;
        error = begin_checked(block, action, note, group, its_own);
      }
      if (error == 0) return batch != nullptr ? 0 : flush(alone);
      if (!syncs(action)) return fail(block, error, note, group, names);
    } else {
      error = EINVAL;
    }
  }
  if (error != 0) library.refuse(block, error);
  return error;
}

}  // namespace uaio
