// Request: one asynchronous request from its start until its notification is sent; Group: the
// requests of one list. Requests come from memory that is never returned. Taking and giving one
// back needs no lock, so that signal handlers may do both.
#pragma once

#include <aio.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "baton/operation.hpp"

namespace uaio {

class Shard;
struct Descriptor;
struct Request;
struct Row;

enum class Action : std::uint8_t { read, write, readv, writev, sync, data_sync };

[[nodiscard]] constexpr bool reads(Action action) noexcept {
  return action == Action::read || action == Action::readv;
}
[[nodiscard]] constexpr bool writes(Action action) noexcept {
  return action == Action::write || action == Action::writev;
}
[[nodiscard]] constexpr bool syncs(Action action) noexcept {
  return action == Action::sync || action == Action::data_sync;
}
[[nodiscard]] constexpr bool is_vectored(Action action) noexcept {
  return action == Action::readv || action == Action::writev;
}

/// REQUIRES: LIO_READ or LIO_WRITE.
[[nodiscard]] constexpr Action action_of(int opcode) noexcept {
  return opcode == LIO_READ ? Action::read : Action::write;
}

/// How the program wants to be notified: copied from its sigevent, which it may change after the
/// start.
struct Notification {
  int kind = SIGEV_NONE;
  int signal = 0;
  sigval value{};
  void (*function)(sigval) = nullptr;
  pthread_attr_t* attributes = nullptr;

  [[nodiscard]] static Notification from(const sigevent& event) noexcept {
    Notification note;
    note.kind = event.sigev_notify;
    note.value = event.sigev_value;
    if (note.kind == SIGEV_SIGNAL) note.signal = event.sigev_signo;
    if (note.kind == SIGEV_THREAD) {
      note.function = event.sigev_notify_function;
      note.attributes = event.sigev_notify_attributes;
    }
    return note;
  }
  [[nodiscard]] bool silent() const noexcept {
    // A zeroed sigevent is SIGEV_SIGNAL with signal 0, which is no signal.
    return kind == SIGEV_SIGNAL ? signal == 0 : kind != SIGEV_THREAD;
  }
};

/// The requests of one lio_listio. It lives until the last of them is complete and its starter has
/// left, so that an interrupted starter leaves no pointer into its frame.
struct Group {
  std::atomic<std::uint32_t> left{1};  // requests, and the starter until all are started
  std::atomic<std::uint32_t> users{1};
  std::atomic<bool> failed{false};
  bool waited_for = false;  // its starter does nothing else until the last is complete
  Notification note;
  Request* holder = nullptr;  // whose memory this is
};

/// The state of a request's memory. A forked child reads it, because no request belongs to the
/// child.
enum class Stage : std::uint8_t {
  free,        ///< on the free list, or used as a node that carries a notification
  pending,     ///< the kernel or a keeper works on it; its aiocb is the library's
  publishing,  ///< its aiocb may be the program's again
};

/// How a direct request ends. The starter and the collector each store a value; the second of them
/// frees the request. `starter_took`: the starter continues with a twin of it.
enum class Handover : std::uint8_t { none, starter_left, starter_took, done, refused };

inline constexpr int native_none = -1;    ///< only the program's number is known
inline constexpr int native_direct = -2;  ///< the kernel holds the file of a direct request

struct Request {
  baton::Operation operation;
  iocb control{};  // of a direct request
  std::atomic<Stage> stage{Stage::free};
  std::atomic<Handover> handover{Handover::none};
  std::uint32_t index = 0;                  // its place in the table of all requests
  std::atomic<std::uint32_t> free_next{0};  // the free list, by index + 1
  aiocb* block = nullptr;
  Descriptor* descriptor = nullptr;
  Shard* shard = nullptr;
  Group* group = nullptr;
  Notification note;
  // Order of starts of direct requests. Other threads read it while it is written, and may take an
  // earlier use of this memory for a pending request until they look again.
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::uint64_t> number_done{0};  // a direct request of this number the kernel has done
  // A direct request that the kernel gave back late: the shard that gets it.
  std::atomic<const Shard*> handed_to{nullptr};
  // For a direct request that goes back to its starter: the number of bytes, or an error of the
  // kernel.
  std::atomic<std::int64_t> result{0};
  std::uint64_t after_direct = 0;  // a sync: direct requests below this number come first
  std::uint64_t offset = 0;
  std::size_t moved_before = 0;  // by the caller, at the start
  void* data = nullptr;
  std::size_t size = 0;   // bytes, or buffers of a vectored one
  std::size_t bytes = 0;  // in all
  int fildes = -1;        // the program's number
  /// The same file: a descriptor in the keeper's own table, or one of the two constants above.
  /// Atomic: a snapshot (for_each_pending) reads it while its holder changes it.
  std::atomic<int> native{native_none};
  int priority = 0;  // aio_reqprio: 0 is the most urgent
  Action action = Action::read;
  bool started = false;   // at the engine; else in the run list or held
  bool held = false;      // a sync: waits for the earlier requests of its file
  bool awaited = false;   // the call that cancels it waits for it
  void* tally = nullptr;  // of that call
  // Its file's list, in order of starts; those of the same number, and those whose aiocb has a
  // similar address (Files); the row that it waits in; free list or notifier.
  Request* file_next = nullptr;
  Request* file_previous = nullptr;
  Request* fildes_next = nullptr;
  Request* fildes_previous = nullptr;
  Request* block_next = nullptr;
  Row* row = nullptr;  // of one that waits
  Request* row_next = nullptr;
  Request* row_previous = nullptr;
  Request* next = nullptr;
  Group list;  // of one that is taken only for this

  void set_target(aiocb& its_block, int its_number) noexcept {
    std::atomic_ref{block}.store(&its_block, std::memory_order_relaxed);
    std::atomic_ref{fildes}.store(its_number, std::memory_order_relaxed);
  }
  /// Of this descriptor, or this aiocb alone. Atomic, as in a snapshot (for_each_pending).
  [[nodiscard]] bool concerns(int its_number, const aiocb* its_block) const noexcept {
    auto& self = const_cast<Request&>(*this);
    return std::atomic_ref{self.fildes}.load(std::memory_order_relaxed) == its_number &&
           (its_block == nullptr ||
            std::atomic_ref{self.block}.load(std::memory_order_relaxed) == its_block);
  }
};

/// Takes one from the free list; null when there is no memory. Any thread, and signal handlers.
Request* take_request() noexcept;
void give_request(Request& request) noexcept;
/// Another one for the same transfer, whose list is now the twin's; null when there is no memory.
Request* take_twin(const Request& request) noexcept;
/// A group that holds only its starter so far; null when there is no memory.
Group* take_group() noexcept;
/// Allocates memory for this many in all. False: no memory.
bool reserve_requests(std::size_t count) noexcept;
/// Every request that was ever created, by index; a gap is null.
std::size_t requests_made() noexcept;
Request* request_at(std::size_t index) noexcept;
/// Calls visit(request) for each that is in flight. A snapshot: it may be complete by then.
template <class Visit>
void for_each_pending(Visit&& visit) {
  for (std::size_t i = 0, end = requests_made(); i < end; ++i) {
    Request* const each = request_at(i);
    if (each != nullptr && each->stage.load(std::memory_order_acquire) != Stage::free) {
      visit(*each);
    }
  }
}

}  // namespace uaio
