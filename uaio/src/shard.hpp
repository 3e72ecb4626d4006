// Shard: a proactor, its files, and what drives it. There is one, unless files are distributed
// among several keepers (UAIO=threads=N).
//
// A keeper drives it: a thread of the library with its own table of descriptors, in which no signal
// is delivered. Requests reach it by the mailbox, with their files. So no thread of the program
// ever submits to a ring, whose completions would interrupt that thread's own system calls. No
// descriptor of the program is duplicated or closed. And what the program does to its descriptors
// affects neither those of the library nor requests that were started before.
//
// In mode=single there is no thread: the callers and the timer's signal drive it, with the lock
// held and signals blocked. The same happens where the system refuses a keeper; then a helper
// thread that shares the program's table of descriptors waits, and the callers submit.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "baton/proactor.hpp"
#include "files.hpp"
#include "mailbox.hpp"
#include "request.hpp"

namespace uaio {

class Library;

class Shard {
 public:
  Shard(Library& library, std::uint32_t depth, bool single) noexcept
      : library_(library), depth_(depth), single_(single) {}

  /// Starts a filled-in request. 0, or EBADF or EAGAIN and nothing has happened. The request may be
  /// complete, and its aiocb gone, before this returns. Any thread, and signal handlers.
  int post(Request& request) noexcept;

  struct Cancelled {
    std::uint32_t found = 0;
    std::uint32_t cancelled = 0;  // complete as cancelled
    std::uint32_t pending = 0;    // asked for, and not complete yet
    std::uint32_t streams = 0;    // of those: may wait for ever, and end soon when cancelled
    int fildes = -1;
    const aiocb* block = nullptr;   // null: all of the descriptor
    bool spares_datagrams = false;  // a datagram that is being written is left alone
    Cancelled* after = nullptr;     // calls that wait for what this one cancels, by next
    Cancelled* next = nullptr;
    std::atomic<std::uint32_t> answered{0};  // futex
  };
  /// Cancels what is pending on the descriptor and waits until what ends soon has ended.
  void cancel(Cancelled& tally) noexcept;
  /// A direct request is complete: syncs may have waited for it.
  void look_at_direct() noexcept;

  /// Whether anything is pending, until its result is published. Any thread, and signal handlers.
  [[nodiscard]] bool busy() const noexcept {
    return outstanding_.load(std::memory_order_acquire) != 0;
  }

  /// Whether a request of this number may be pending; another number may have the same counter.
  [[nodiscard]] bool may_have(int fildes) const noexcept {
    return of_number_[place_of(fildes)].load(std::memory_order_relaxed) != 0;
  }

  // -- where callers drive ------------------------------------------------------------------------

  [[nodiscard]] bool driven_by_callers() const noexcept {
    return drive_.load(std::memory_order_acquire) == Drive::callers;
  }
  [[nodiscard]] pthread_mutex_t& mutex() noexcept { return mutex_; }
  /// Finishes what the engine has completed, and starts requests that waited for it. With the lock
  /// held.
  void collect() noexcept;
  /// collect() would find something, as far as this is visible without a system call.
  [[nodiscard]] bool has_something() const noexcept {
    return proactor_->glance() != baton::Glance::nothing;
  }
  /// Sleeps until the engine may have something: 0, EAGAIN at the time, or EINTR. A cancellation
  /// point.
  int wait_as_caller(const timespec* until);

  // -- fork ---------------------------------------------------------------------------------------

  void lock_for_fork() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock_after_fork() noexcept { pthread_mutex_unlock(&mutex_); }
  void after_fork_in_child() noexcept;

 private:
  enum class Drive : std::uint8_t { undecided, keeper, callers };
  /// A socket by which messages or connections arrive.
  struct Inlet {
    baton::Operation ready;
    Shard* shard = nullptr;
    baton::Handle* handle = nullptr;
    int native = -1;
  };
  // Requests of streams leave room for those of files (limits::operations_max).
  static constexpr std::uint32_t in_flight_max = 1U << 19;
  static constexpr int priorities = 21;  // 0 to sysconf(_SC_AIO_PRIO_DELTA_MAX)

  static constexpr std::size_t places = 256;

  static std::size_t place_of(int fildes) noexcept {
    return static_cast<std::size_t>(fildes) % places;
  }
  /// A request of this number is pending, or no longer.
  void enter(int fildes) noexcept;
  void leave(int fildes) noexcept;

  // The program's side.
  int ensure_drive() noexcept;
  int send(void* pointer, unsigned kind, int fildes) noexcept;
  int post_as_caller(Request& request) noexcept;
  void count_pending(Cancelled& tally) const noexcept;
  void cancel_as_caller(Cancelled& tally) noexcept;
  int open(bool keeper) noexcept;

  // The keeper's.
  static void* keep(void* self);
  static void* help(void* self);
  int become_keeper() noexcept;
  void run_keeper() noexcept;
  bool retire() noexcept;
  void renew() noexcept;
  void run_helper() noexcept;
  bool ended_by_loss(const baton::Operation& operation) noexcept;
  bool listen_by(Inlet& inlet, int native, baton::CompletionFunction function) noexcept;
  bool listen_again(Inlet& inlet, baton::CompletionFunction function) noexcept;
  static void on_connection(baton::Operation& operation);
  static void on_mail(baton::Operation& operation);
  [[nodiscard]] std::size_t room_for_files() const noexcept;
  void close_receiver(int receiver) noexcept;
  void take_message(std::uintptr_t word, int native) noexcept;
  void take_request_in(Request& request, int native) noexcept;

  // For the thread that drives.
  int start(Request& request, int fildes) noexcept;
  int start_in_turn(Request& request, int fildes, bool late) noexcept;
  [[nodiscard]] bool is_first_of_stream(const Request& request) const noexcept;
  bool ensure_handle(Descriptor& descriptor) noexcept;
  void launch(Request& request) noexcept;
  [[nodiscard]] Line* line_of(const Request& request) const noexcept;
  void leave_line(Line& line) noexcept;
  [[nodiscard]] bool is_bounded(const Request& request) const noexcept;
  Row& row_of(const Request& request) noexcept;
  void count_in_engine(const Request& request, int more) noexcept;
  void queue(Request& request) noexcept;
  void unqueue(Request& request) noexcept;
  void start_waiting() noexcept;
  void submit(Request& request) noexcept;
  void do_here(Request& request) noexcept;
  void fill(Request& request) noexcept;
  static void completed(baton::Operation& operation);
  void finish(Request& request, int error, ssize_t result) noexcept;
  void let_go(Descriptor& descriptor) noexcept;
  void release_held(const Inode& inode) noexcept;
  void release_after_direct() noexcept;
  Cancelled* cancel_under_way(const Cancelled& tally) noexcept;
  void ask_to_cancel(Cancelled& tally) noexcept;
  void answer(Cancelled& tally) noexcept;

  Library& library_;
  const std::uint32_t depth_;
  const bool single_;
  std::atomic<Drive> drive_{Drive::undecided};
  std::atomic<std::uint32_t> outstanding_{0};
  std::array<std::atomic<std::uint32_t>, places> of_number_{};  // of those, requests by number
  // Held while a drive is chosen or a sender is replaced; where callers drive, around everything.
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Mailbox mailbox_;
  std::atomic<std::uint32_t> keeper_answer_{0};  // futex: 1 + errno, once the keeper has tried

  // The keeper's, or guarded by the lock. The pointer is constant once drive_ is set.
  std::unique_ptr<baton::Proactor> proactor_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<Inlet> connections_;
  Row run_[priorities];
  std::uint32_t queued_ = 0;  // in those
  Row streams_;               // of streams that the depth does not bound
  Row after_direct_;          // syncs that wait for direct requests
  std::uint32_t in_flight_ = 0;
  std::uint32_t bounded_ = 0;  // of those, how many the depth bounds
  bool collecting_ = false;
  bool look_again_ = false;
  bool retiring_ = false;  // the keeper ends: its proactor is being closed
  // The keeper's engine was taken away and is ending its operations; other requests wait for
  // another engine.
  bool lost_ = false;
  std::uint32_t listening_ = 0;  // inlets whose operation is pending
  bool forked_ = false;          // callers: the proactor is the parent's, and to be opened again
};

}  // namespace uaio
