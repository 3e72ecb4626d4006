// The io_uring engine. The path of an operation:
//
//   submit -> begin -> [its lane, behind others] -> issue -> the ring -> reap -> settle -> judge
//                                                     ^                                     |
//                                                     +---- go_on: the rest, or a retry ----+
//                                                                                           |
//                                                           completed <- retire <- finished +
//
// submit.cpp has the way to the ring, reap.cpp the way back and the leader's wait.
//
// Either an operation has a slot in requests_ and will come out of wait, or it has none and the
// engine does not have it. cancel checks the slot, because the engine state of an operation that
// was never submitted is undefined.
#include "engines/io_uring/io_uring_engine.hpp"

#include <errno.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/assert.hpp"
#include "baton/limits.hpp"
#include "baton/log.hpp"
#include "engines/common/epoll_takes.hpp"

namespace baton::engines::uring {
namespace {

constexpr std::int64_t log_every_ns = 10'000'000'000;

EngineInfo make_info(bool pinned, bool concurrent, const KernelFacts& facts) noexcept {
  EngineInfo info;
  info.name = "io_uring";
  std::fill(std::begin(info.support), std::end(info.support), Support::native);
  const auto set = [&](OperationKind kind, Support support) {
    info.support[static_cast<std::size_t>(kind)] = support;
  };
  if (!facts.shutdown) set(OperationKind::shutdown, Support::assisted);
  set(OperationKind::timer, Support::unsupported);
  set(OperationKind::user, Support::unsupported);
  info.leader_rule = pinned ? LeaderRule::pinned : LeaderRule::any;
  info.start_from_any_thread = concurrent && !pinned;
  info.interrupt_name = facts.message ? "ring" : "eventfd";
  return info;
}

}  // namespace

IoUringEngine::IoUringEngine(const EngineOptions& options, Parts parts)
    : system_(os::or_real(options.system)),
      log_(options.log),
      locked_(options.concurrent && !parts.options.pinned),
      facts_(parts.facts),
      ring_options_(parts.options),
      may_unpin_(options.config == nullptr || options.config->profile != "pinned"),
      info_(make_info(parts.options.pinned, options.concurrent, parts.facts)),
      ring_(std::move(parts.ring)),
      event_(parts.event),
      message_target_(facts_.message ? ring_->descriptor() : -1),
      requests_(limits::operations_max),
      messages_(limits::operations_max),
      files_(options.handles_max),
      handles_(options.handles_max),
      room_(options),
      spare_(system_, locked_),
      pipes_(system_) {
  // So that one is free whenever none is in use, also where nothing may be allocated.
  if (const std::uint32_t first = messages_.take(); first != no_index) messages_.give(first);
}

IoUringEngine::~IoUringEngine() {
  BATON_ASSERT(in_flight_ == 0);
  ring_.reset();
  if (event_ >= 0) system_.close(event_);
}

void IoUringEngine::after_fork_in_child() noexcept {
  // The child has not inherited the ring's pages (MADV_DONTFORK), and closing its copies of the
  // descriptors leaves the parent's requests alone. The mutex may be locked by a thread that does
  // not exist here.
  mutex_.assume_held();
  ring_->abandon_in_child();
  if (retired_ != nullptr) retired_->abandon_in_child();
  message_target_.store(-1, std::memory_order_relaxed);
  system_.close(event_);
  event_ = -1;
  spare_.abandon();
  in_flight_ = 0;
}

EngineCounters IoUringEngine::counters() const noexcept {
  EngineCounters counters;
  counters.stale_events = stale_events_.load(std::memory_order_relaxed);
  counters.accept_backoffs = accept_backoffs_.load(std::memory_order_relaxed);
  return counters;
}

// The kernel tries a file that can be polled in the thread that enters the ring: it polls the file,
// which is nearly always ready, and transfers there for as long as that takes, because the file
// system does not know the flag for not waiting. With FUSE both wait for the server.
std::error_code IoUringEngine::attach(Handle& handle) noexcept {
  const bool for_worker = handle.is_file() && epoll_takes(system_, handle.native());
  os::LockGuard guard{mutex_, system_, locked_};
  if (!handles_.ensure(handle.index())) return std::make_error_code(std::errc::not_enough_memory);
  HandleRecord& record = handles_[handle.index()];
  BATON_ASSERT(record.reads.queue.empty());
  BATON_ASSERT(record.writes.queue.empty());
  if (handle.is_file()) record.writes.file = files_.take();
  if (handle.is_file() && record.writes.file == no_index) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
  record.reads.for_worker = for_worker;
  return {};
}

void IoUringEngine::detach(Handle& handle) noexcept {
  // No registration outlives its request.
  os::LockGuard guard{mutex_, system_, locked_};
  HandleRecord& record = handles_[handle.index()];
  BATON_ASSERT(record.reads.queue.empty());
  BATON_ASSERT(record.writes.queue.empty());
  std::uint32_t& file = record.writes.file;
  if (file == no_index) return;
  BATON_ASSERT(files_[file].held_syncs.empty() && files_[file].open_writes == 0);
  files_.give(file);
  file = no_index;
}

// For merged waits. A pinned ring works only inside its owner's wait, so its descriptor stays
// silent while the owner polls. A lost ring has two descriptors to wait for.
NativeHandle IoUringEngine::descriptor() const noexcept {
  return ring_options_.pinned || is_lost() ? invalid_handle : ring_->descriptor();
}

// Only the owner may take the completions of a pinned ring.
Glance IoUringEngine::glance() const noexcept {
  if (ring_options_.pinned || is_lost()) return Glance::cannot_tell;
  const bool some = ring_->has_completions() || ring_->needs_kernel();
  return some ? Glance::something : Glance::nothing;
}

void IoUringEngine::interrupt() noexcept {
  // acquire and release: the caller's earlier writes are visible to the leader that clears the
  // flag. A thread that finds the flag set relies on the write of the thread that set it. seq_cst:
  // see stop_messages().
  if (wake_pending_.exchange(true, std::memory_order_seq_cst)) return;
  const int saved = errno;  // the caller may be a signal handler
  // A pinned ring takes no message before a thread has entered it (EBADFD), nor after its owner has
  // ended (EOWNERDEAD). ENOMEM, EOVERFLOW: the kernel is out of memory.
  const int target = message_target_.load(std::memory_order_seq_cst);
  if (target < 0 || Ring::send_message(system_, target, message_tag) != 0) write_event();
  errno = saved;
}

void IoUringEngine::write_event() noexcept {
  const std::uint64_t one = 1;
  while (system_.write(event_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void IoUringEngine::log(LogLevel level, std::string_view text) noexcept {
  if (log_ == nullptr) return;
  try {
    log_->write(level, iso_8601(system_.realtime_us()), text);
  } catch (const std::bad_alloc&) {
    // No memory for a line of the log: drop it.
  }
}

void IoUringEngine::warn_now_and_then(const char* text) noexcept {
  const std::int64_t now = system_.monotonic_ns();
  if (log_ == nullptr || now < log_again_ns_) return;
  log_again_ns_ = now + log_every_ns;
  log(LogLevel::warning, text);
}

}  // namespace baton::engines::uring
