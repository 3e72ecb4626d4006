#include "calls.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "block.hpp"
#include "library.hpp"
#include "size_limit.hpp"
#include "start.hpp"
#include "uaio.h"

namespace uaio {
namespace {

int fail(int error) noexcept {
  errno = error;
  return -1;
}

/// Whether there is nothing to wait for. A copy of an aiocb is not a request, and never completes.
/// This process cannot see when a request of another process completes, so it does not wait for it.
/// Also in signal handlers.
bool is_done(const aiocb& block) noexcept {
  const Block state{block};
  return state.error() != EINPROGRESS || state.mark() != Block::Mark::submitted || !state.is_own();
}

bool is_time(const timespec& time) noexcept {
  return time.tv_nsec >= 0 && time.tv_nsec < 1'000'000'000;
}

/// What aio_init allocates at most. A program may ask for any number.
constexpr int reserved_max = 1 << 14;

/// The end of a wait that begins now. A time that is too large for the clock never comes.
timespec end_of(const timespec& timeout) noexcept {
  constexpr auto seconds_max = std::numeric_limits<time_t>::max();
  const timespec now = monotonic_now();
  if (timeout.tv_sec < 0) return now;
  if (timeout.tv_sec >= seconds_max - now.tv_sec) return {seconds_max, 0};
  return after(now, timeout);
}

}  // namespace

int start(aiocb* block, Action action, Names names) {
  const int before = errno;
  const MayWrite may_write{writes(action)};
  const int error = begin(*block, action, Notification::from(block->aio_sigevent), nullptr, names);
  if (error != 0) return fail(error);
  errno = before;  // it is not touched without an error
  return 0;
}

int sync(int operation, aiocb* block, Names names) {
  if (operation != O_SYNC && operation != O_DSYNC) return fail(EINVAL);
  return start(block, operation == O_SYNC ? Action::sync : Action::data_sync, names);
}

int start_list(int mode, aiocb* const list[], int count, const sigevent* event, Names names,
               bool tells_each) {
  const int before = errno;
  if (mode != LIO_WAIT && mode != LIO_NOWAIT) return fail(EINVAL);
  if (count < 0 || (names == Names::thesis && count > UAIO_LISTIO_MAX)) return fail(EINVAL);
  Library& library = Library::get();
  library.count(Library::lists);
  if (mode == LIO_NOWAIT && event != nullptr &&
      library.notifier().prepare(Notification::from(*event)) != 0) {
    return fail(EAGAIN);
  }
  Batch batch{names};
  // For what is not complete at once.
  Group* group = nullptr;
  const auto need_group = [&] {
    if (group != nullptr) return true;
    group = take_group();
    if (group == nullptr) return false;
    group->waited_for = mode == LIO_WAIT;
    if (mode == LIO_NOWAIT && event != nullptr) group->note = Notification::from(*event);
    return true;
  };
  bool wrong = false;
  bool no_room = false;
  const auto length = static_cast<std::size_t>(count);
  std::size_t next_run = 0;
  std::optional<MayWrite> may_write{std::in_place, true};
  for (std::size_t i = 0; i < length; ++i) {
    if (i >= next_run) {
      std::size_t asked = 0;
      const std::size_t done = begin_run(list + i, length - i, tells_each, asked);
      if (done < asked) next_run = i + asked;  // not now: the next requests will not do better
      i += done;
      if (i == length) break;
    }
    aiocb* const block = list[i];
    if (block == nullptr || block->aio_lio_opcode == LIO_NOP) continue;
    const Notification note = tells_each ? Notification::from(block->aio_sigevent) : Notification{};
    int error = 0;
    if (!need_group()) {
      error = EAGAIN;
      library.refuse(*block, error);
    } else if (block->aio_lio_opcode == LIO_READ || block->aio_lio_opcode == LIO_WRITE) {
      error = begin(*block, action_of(block->aio_lio_opcode), note, group, names, &batch);
    } else if (names == Names::system) {
      library.complete_at_once(*block, EINVAL, -1, note, group);
    } else {
      error = EINVAL;
      library.refuse(*block, error);
    }
    wrong |= error != 0 && error != EAGAIN;
    no_room |= error == EAGAIN;
  }
  if (const int error = flush(batch); error != 0) (error == EAGAIN ? no_room : wrong) = true;
  may_write.reset();
  int answer = 0;
  if (mode == LIO_WAIT && group != nullptr) {
    // The starter holds one count until it stops waiting, so the group outlives an interruption.
    // This is not a cancellation point, as in the system's library.
    const NoCancel no_cancel;
    group->left.fetch_sub(1, std::memory_order_acq_rel);
    const auto left = [group] { return group->left.load(std::memory_order_acquire); };
    answer = library.wait([left] { return left() == 0; }, nullptr, false, left);
    if (answer == 0 && group->failed.load(std::memory_order_relaxed)) wrong = true;
    library.release(*group);
  }
  if (mode == LIO_NOWAIT && (group != nullptr || event != nullptr)) {
    if (!need_group()) return fail(EAGAIN);
    library.leave(*group, false);
  }
  if (answer != 0) return fail(answer);
  if (no_room) return fail(EAGAIN);
  if (wrong) return fail(EIO);
  errno = before;
  return 0;
}

int error(const aiocb* block, Names names) {
  const Block state{*block};
  if (state.mark() != Block::Mark::submitted && names == Names::thesis) return fail(EINVAL);
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
  // The system's library returns the 0 that is there meanwhile, and sets no errno.
  if (error == EINPROGRESS) return names == Names::thesis ? fail(EINPROGRESS) : 0;
  const ssize_t result = state.result();
  // The memory may be read-only by now, and the system's library only reads it.
  if (names == Names::thesis && !Library::get().fetch(*block)) return fail(EINVAL);
  if (result < 0) errno = error;
  return result;
}

int suspend(const aiocb* const list[], int count, const timespec* timeout) {
  if (count < 0 || (timeout != nullptr && !is_time(*timeout))) return fail(EINVAL);
  bool empty = true;
  const aiocb* found = nullptr;
  const auto done = [&] {
    for (int i = 0; i < count; ++i) {
      if (list[i] == nullptr) continue;
      empty = false;
      found = list[i];
      if (is_done(*found)) return true;
    }
    return empty;
  };
  Library& library = Library::get();
  const auto end_well = [&] {
    if (!empty) library.wait_for_signal(*found);
    return 0;
  };
  if (done()) return end_well();
  timespec until{};
  if (timeout != nullptr) until = end_of(*timeout);
  const int answer = library.wait(done, timeout != nullptr ? &until : nullptr);
  return answer == 0 ? end_well() : fail(answer);
}

ssize_t wait_complete(aiocb** block, const timespec* timeout) {
  *block = nullptr;
  if (timeout != nullptr && !is_time(*timeout)) return fail(EINVAL);
  Library& library = Library::get();
  timespec until{};
  if (timeout != nullptr) until = end_of(*timeout);
  for (;;) {
    library.look();
    int error = 0;
    ssize_t result = 0;
    if (aiocb* const first = library.fetch_first(error, result); first != nullptr) {
      *block = first;
      if (result < 0) errno = error;
      return result;
    }
    if (!library.busy() && !library.has_done()) return fail(EINVAL);
    const int answer = library.wait([&library] { return library.has_done() || !library.busy(); },
                                    timeout != nullptr ? &until : nullptr, true);
    if (answer != 0) return fail(answer);
  }
}

int cancel(int fildes, aiocb* block, Names names) {
  if (::fcntl(fildes, F_GETFL) < 0) return fail(EBADF);
  if (block != nullptr && block->aio_fildes != fildes) return fail(EINVAL);
  Library& library = Library::get();
  // A program that hears that all is done may free what the signal's handler uses.
  const auto is_over = [&] {
    if (block != nullptr) library.wait_for_signal(*block);
    return AIO_ALLDONE;
  };
  if (block != nullptr && is_done(*block)) return is_over();
  const NoCancel no_cancel;
  library.look();
  // A transfer that a device is working on cannot be stopped. A single one is not looked for.
  const std::size_t direct = block == nullptr ? library.direct().count(fildes) : 0;
  std::size_t found = direct;
  std::size_t cancelled = 0;
  std::size_t pending = direct;
  for (const auto& shard : library.shards()) {
    Shard::Cancelled tally;
    tally.fildes = fildes;
    tally.block = block;
    tally.spares_datagrams = names == Names::system;
    shard->cancel(tally);
    found += tally.found;
    cancelled += tally.cancelled;
    pending += tally.pending;
  }
  // A device works on it, or the call that starts it, or that hands it on, is not over yet.
  if (found == 0 && block != nullptr && !is_done(*block)) return AIO_NOTCANCELED;
  if (found == 0) return is_over();
  if (cancelled == found) return AIO_CANCELED;
  return pending == 0 && cancelled == 0 ? AIO_ALLDONE : AIO_NOTCANCELED;
}

void initialise(const aioinit* parameters) {
  Library::get();
  if (parameters == nullptr) return;
  reserve_requests(static_cast<std::size_t>(std::clamp(parameters->aio_num, 0, reserved_max)));
}

}  // namespace uaio
