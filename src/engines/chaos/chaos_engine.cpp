// Injects faults and keeps the order that they must not disturb.
#include "engines/chaos/chaos_engine.hpp"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/assert.hpp"
#include "baton/handle.hpp"
#include "engines/common/records.hpp"

namespace baton::engines::chaos {
namespace {

constexpr Duration busy_rest =
    std::chrono::milliseconds{1};  // pause before an engine that answered busy is asked again

bool is_stream(OperationKind kind) noexcept {
  return kind == OperationKind::read_stream || kind == OperationKind::write_stream;
}
bool is_file(OperationKind kind) noexcept {
  return kind == OperationKind::read_file || kind == OperationKind::write_file;
}

/// The queue of its handle that orders this operation; null if it needs no order.
std::deque<Job*>* line_of(Record& record, const Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_stream:
      return &record.in;
    case OperationKind::write_stream:
    case OperationKind::shutdown:
    case OperationKind::connect:
      return &record.out;
    case OperationKind::read_file:
      return operation.has(Operation::append) ? &record.in : nullptr;
    case OperationKind::write_file:
      return operation.has(Operation::append) ? &record.out : nullptr;
    default:
      return nullptr;
  }
}

bool writes_to_file(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::write_file ||
         (operation.kind() == OperationKind::write_stream && operation.handle()->is_file());
}

/// A sync for which an earlier write is not reported yet.
bool is_behind_a_write(const Job& job) noexcept {
  if (job.kind() != OperationKind::sync_file || job.of_file == nullptr) return false;
  const auto end = std::find(job.of_file->begin(), job.of_file->end(), &job);
  return std::any_of(job.of_file->begin(), end,
                     [](const Job* earlier) { return writes_to_file(*earlier->original); });
}

std::size_t total(const Operation& operation) noexcept {
  if (!operation.has(Operation::vectored)) return operation.buffer().size;
  std::size_t sum = 0;
  for (const MutableBuffer& one : operation.buffers()) sum += one.size;
  return sum;
}

// A record cannot be split: a part of a read would lose the rest of it. A short write to a pipe is
// made whole (contract.md, rule 10).
bool can_go_in_parts(const os::System& system, const Operation& operation) noexcept {
  if (!is_stream(operation.kind()) && !is_file(operation.kind())) return false;
  if (is_stream(operation.kind()) && moves_records(system, operation)) return false;
  if (operation.kind() == OperationKind::write_stream &&
      operation.handle()->kind() == HandleKind::pipe && total(operation) <= PIPE_BUF) {
    return false;
  }
  return !operation.has(Operation::until) && !operation.has(Operation::pooled);
}

/// The buffers of `size` bytes from byte `from` on.
void slice(const Operation& operation, std::size_t from, std::size_t size,
           std::vector<MutableBuffer>& out) {
  out.clear();
  const auto add = [&](const MutableBuffer& one) {
    const std::size_t skipped = std::min(from, one.size);
    from -= skipped;
    const std::size_t taken = std::min(size, one.size - skipped);
    size -= taken;
    if (taken > 0) out.emplace_back(static_cast<std::byte*>(one.data) + skipped, taken);
  };
  if (operation.has(Operation::vectored)) {
    for (const MutableBuffer& one : operation.buffers()) add(one);
  } else {
    add(operation.buffer());
  }
}

}  // namespace

ChaosEngine::ChaosEngine(std::unique_ptr<Engine> inner, const EngineOptions& options)
    : WrappingEngine(std::move(inner)),
      system_(os::or_real(options.system)),
      info_(this->inner().info()),
      draws_(*options.config) {
  info_.name = "chaos";
}

std::error_code ChaosEngine::attach(Handle& handle) noexcept {
  try {
    const os::LockGuard lock{mutex_, system_};
    records_[handle.index()] = Record{};
  } catch (const std::bad_alloc&) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
  return inner().attach(handle);
}

void ChaosEngine::detach(Handle& handle) noexcept {
  inner().detach(handle);
  const os::LockGuard lock{mutex_, system_};
  records_.erase(handle.index());
}

Record* ChaosEngine::record_of(const Job& job) noexcept {
  const Handle* handle = job.handle();
  if (handle == nullptr) return nullptr;
  const auto found = records_.find(handle->index());
  return found != records_.end() ? &found->second : nullptr;
}

// -- start ----------------------------------------------------------------------------------------

// Null: no memory.
Job* ChaosEngine::take_in(Operation& operation) noexcept {
  try {
    auto fresh = std::make_unique<Job>(operation);
    Job& job = *fresh;
    job.fate = draws_.fate(operation);
    job.fate.in_parts = job.fate.in_parts && can_go_in_parts(system_, operation);
    if (operation.kind() == OperationKind::close) job.fate = {};
    if (Record* record = record_of(job)) {
      job.line = line_of(*record, operation);
      if (writes_to_file(operation) || operation.kind() == OperationKind::sync_file) {
        job.of_file = &record->writes_and_syncs;
      }
    }
    jobs_.emplace(&operation, std::move(fresh));
    for (auto* const queue : {job.line, job.of_file}) {
      if (queue != nullptr) queue->push_back(&job);
    }
    return &job;
  } catch (const std::bad_alloc&) {
    forget(operation);
    return nullptr;
  }
}

void ChaosEngine::forget(const Operation& operation) noexcept {
  const auto found = jobs_.find(&operation);
  if (found == jobs_.end()) return;
  for (auto* const queue : {found->second->line, found->second->of_file}) {
    if (queue != nullptr) std::erase(*queue, found->second.get());
  }
  jobs_.erase(found);
}

Submission ChaosEngine::submit(Operation& operation, void*) noexcept {
  const os::LockGuard lock{mutex_, system_};
  // A cancel that came earlier has set the mark; one that comes later finds the job.
  if (operation.cancel_asked()) {
    operation.finish(ECANCELED);
    return Submission::completed;
  }
  Job* job = take_in(operation);
  if (job == nullptr) return without_memory(operation);
  const bool was_looking = std::exchange(leader_looks_, true);  // no wake-up needed
  const bool has_turn = job->line == nullptr || job->line->front() == job;
  if (has_turn && !is_behind_a_write(*job)) begin(*job);
  leader_looks_ = was_looking;
  if (jobs_.find(&operation) == jobs_.end()) {
    told_.erase(operation);
    return Submission::completed;
  }
  if (job->timed) wake();
  return Submission::pending;
}

// The job is the first of its queue, or needs no order.
void ChaosEngine::begin(Job& job) noexcept {
  if (job.fate.before > Duration{0}) {
    rest(job, Stage::before, job.fate.before);
  } else {
    enter(job);
  }
}

void ChaosEngine::enter(Job& job) noexcept {
  const Record* record = record_of(job);
  if (record != nullptr && record->reset && is_stream(job.kind())) {
    finished(job, job.kind() == OperationKind::read_stream ? ECONNRESET : EPIPE);
    return;
  }
  if (const int error = std::exchange(job.fate.error, 0); error != 0) {
    if (error == ECONNRESET) reset(job);
    finished(job, error);
    return;
  }
  if (job.fate.in_parts && !give_part(job)) {
    finished(job, ENOMEM);
    return;
  }
  job.stage = Stage::inside;
  switch (inner().submit(job, nullptr)) {
    case Submission::pending:
      break;
    case Submission::completed:
      came_out(job);
      break;
    case Submission::busy:
      rest(job, Stage::before, busy_rest);
      break;
  }
}

// The double becomes the next part of the request. False: no memory for the list.
bool ChaosEngine::give_part(Job& job) noexcept {
  const Operation& whole = *job.original;
  const std::size_t left = total(whole) - job.moved;
  if (left == 0) return true;
  try {
    slice(whole, job.moved, draws_.part(left, is_file(whole.kind())), job.list);
  } catch (const std::bad_alloc&) {
    return false;
  }
  job.stand_for(whole);
  job.clear_flag(Operation::vectored);
  job.set_bytes(0);
  if (job.list.size() == 1) {
    job.set_buffer(job.list.front());
  } else {
    job.set_buffers(MutableBuffers{job.list});
  }
  if (is_file(whole.kind()) && !whole.has(Operation::append)) {
    job.set_offset(whole.offset() + job.moved);
  }
  return true;
}

// Ends the connection, for the peer as well.
void ChaosEngine::reset(Job& job) noexcept {
  if (Record* record = record_of(job)) record->reset = true;
  system_.shutdown(job.handle()->native(), SHUT_RDWR);
}

// -- end ------------------------------------------------------------------------------------------

// The inner engine has completed the job.
void ChaosEngine::came_out(Job& job) noexcept {
  int error = job.error_value();
  if (!job.fate.in_parts) {
    const Record* record = record_of(job);
    if (record != nullptr && record->reset && is_stream(job.kind()) && error != ECANCELED) {
      error = job.kind() == OperationKind::read_stream ? ECONNRESET : EPIPE;
    }
    finished(job, error);
    return;
  }
  job.moved += job.bytes();
  const bool more = error == 0 && job.bytes() > 0 && job.has(Operation::exactly) &&
                    job.moved < total(*job.original);
  if (more && job.cancelled) error = ECANCELED;
  if (more && error == 0) {
    enter(job);
    return;
  }
  job.set_bytes(job.moved);
  finished(job, error);
}

void ChaosEngine::finished(Job& job, int error) noexcept {
  if (job.fate.in_parts) job.set_bytes(job.moved);
  job.finish(error);
  job.cancel_due = Deadline::never();
  if (error != ECANCELED && job.fate.afterwards > Duration{0}) {
    rest(job, Stage::afterwards, job.fate.afterwards);
  } else {
    tell(job);
  }
}

void ChaosEngine::tell(Job& job) noexcept {
  forget_time(job);
  Operation& operation = *job.original;
  job.report_to(operation);
  std::deque<Job*>* const line = job.line;
  std::deque<Job*>* const of_file = job.of_file;
  const bool had_turn = line != nullptr && line->front() == &job;
  forget(operation);
  told_.push_back(operation);
  wake();
  if (had_turn && !line->empty()) give_turn(*line->front());
  if (of_file == nullptr) return;
  for (Job* const next : *of_file) {
    if (writes_to_file(*next->original)) break;
    give_turn(*next);
  }
}

// The leader begins it from the timed list. To begin it here would recurse once for each queued
// job.
void ChaosEngine::give_turn(Job& job) noexcept {
  if (job.stage != Stage::queued) return;
  job.due = Deadline::immediately();
  add_time(job);
}

// -- cancel ---------------------------------------------------------------------------------------

CancelAnswer ChaosEngine::cancel(Operation& operation) noexcept {
  const os::LockGuard lock{mutex_, system_};
  const auto found = jobs_.find(&operation);
  if (found == jobs_.end()) return CancelAnswer::too_late;
  Job& job = *found->second;
  if (job.stage == Stage::afterwards) return CancelAnswer::too_late;
  if (!job.cancel_due.is_never()) return CancelAnswer::requested;
  if (const Duration late = draws_.late_cancel(); late > Duration{0}) {
    job.cancel_due = Deadline::after(late, now());
    add_time(job);
    wake();
    return CancelAnswer::requested;
  }
  const bool was_looking = std::exchange(leader_looks_, true);
  const CancelAnswer answer = cancel_now(job);
  leader_looks_ = was_looking;
  if (answer == CancelAnswer::completed) told_.erase(operation);
  if (!told_.empty() || timed_ != nullptr) wake();
  return answer;
}

// `completed`: the operation is in told_.
CancelAnswer ChaosEngine::cancel_now(Job& job) noexcept {
  job.cancelled = true;
  job.cancel_due = Deadline::never();
  switch (job.stage) {
    case Stage::queued:
    case Stage::before:
      finished(job, ECANCELED);
      return CancelAnswer::completed;
    case Stage::inside: {
      job.ask_cancel();
      if (inner().cancel(job) != CancelAnswer::completed) return CancelAnswer::requested;
      const Operation* original = job.original;
      job.fate.afterwards = Duration{0};
      came_out(job);
      BATON_ASSERT(!jobs_.contains(original));
      return CancelAnswer::completed;
    }
    case Stage::afterwards:
      break;
  }
  return CancelAnswer::too_late;
}

// -- the wait -------------------------------------------------------------------------------------

void ChaosEngine::wait(OperationQueue& completed, Deadline deadline) noexcept {
  {
    const os::LockGuard lock{mutex_, system_};
    leader_looks_ = true;
    serve_times();
    leader_looks_ = false;
    deadline = told_.empty() ? std::min(deadline, next_time()) : Deadline::immediately();
  }
  OperationQueue doubles;
  inner().wait(doubles, deadline);
  all_came_out(doubles, completed);
}

bool ChaosEngine::unpin(OperationQueue& completed) noexcept {
  OperationQueue doubles;
  const bool done = inner().unpin(doubles);
  info_.leader_rule = inner().info().leader_rule;
  all_came_out(doubles, completed);
  return done;
}

void ChaosEngine::all_came_out(OperationQueue& doubles, OperationQueue& completed) noexcept {
  const os::LockGuard lock{mutex_, system_};
  leader_looks_ = true;
  while (!doubles.empty()) came_out(static_cast<Job&>(doubles.pop_front()));
  serve_times();
  leader_looks_ = false;
  completed.splice_back(told_);
}

Deadline ChaosEngine::due() noexcept {
  const Deadline inside = inner().due();
  const os::LockGuard lock{mutex_, system_};
  return told_.empty() ? std::min(inside, next_time()) : Deadline::immediately();
}

// A waiting leader does not see changes made here.
void ChaosEngine::wake() noexcept {
  if (!leader_looks_) inner().interrupt();
}

// -- times ----------------------------------------------------------------------------------------

// Serving one job may end others, so the search restarts at the head of the list each time.
void ChaosEngine::serve_times() noexcept {
  const Deadline time = now();
  for (;;) {
    Job* job = timed_;
    while (job != nullptr && job->due > time && job->cancel_due > time) job = job->timed_next;
    if (job == nullptr) return;
    if (job->cancel_due <= time) {
      static_cast<void>(cancel_now(*job));  // ended, or left to the inner engine
      // Either way cancel_due is cleared, so the loop makes progress.
      continue;
    }
    const Stage stage = job->stage;
    forget_time(*job);
    switch (stage) {
      case Stage::queued:
        begin(*job);
        break;
      case Stage::before:
        enter(*job);
        break;
      case Stage::inside:
        BATON_UNREACHABLE("what is inside has no time of its own");
      case Stage::afterwards:
        tell(*job);
        break;
    }
  }
}

void ChaosEngine::rest(Job& job, Stage stage, Duration span) noexcept {
  job.stage = stage;
  job.due = Deadline::after(span, now());
  add_time(job);
  wake();
}

void ChaosEngine::add_time(Job& job) noexcept {
  if (job.timed) return;
  job.timed = true;
  job.timed_previous = nullptr;
  job.timed_next = timed_;
  if (timed_ != nullptr) timed_->timed_previous = &job;
  timed_ = &job;
}

/// Ends the job's own delay. A postponed cancel keeps the job in the list.
void ChaosEngine::forget_time(Job& job) noexcept {
  job.due = Deadline::never();
  if (!job.timed || !job.cancel_due.is_never()) return;
  job.timed = false;
  (job.timed_previous != nullptr ? job.timed_previous->timed_next : timed_) = job.timed_next;
  if (job.timed_next != nullptr) job.timed_next->timed_previous = job.timed_previous;
}

Deadline ChaosEngine::next_time() const noexcept {
  Deadline first = Deadline::never();
  for (const Job* job = timed_; job != nullptr; job = job->timed_next) {
    first = std::min({first, job->due, job->cancel_due});
  }
  return first;
}

}  // namespace baton::engines::chaos
