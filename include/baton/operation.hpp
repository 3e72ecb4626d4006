// Operation: one activation of one asynchronous request - what to do, on which handle, with which
// memory, the handler to call, and the outcome (the papers' asynchronous result, paper 000 section
// 5.1).
//
// An operation is an intrusive, stateful object. The owner of its memory (the caller, a coroutine
// frame, the proactor's cache) keeps it alive from start until its completion handler is entered.
// From then on it may be started again, freed or kept. It never moves and allocates nothing:
// passing it from one collection to the next only relinks two pointers (P-21).
//
// States (paper 000 section 5.1, P-20). Every transition is asserted.
//
//   INITIALIZED --start--> STARTED --engine finished--> RESULT_READY --handler entered--> COMPLETED
//        |                  ^  |                             ^
//        |                  |  +--engine refused-> START_ERROR (left at once: the error becomes
//        |                  |                        the result, RESULT_READY)
//        +--start-----> DEFERRED --cancelled-----------------+
//        +--post------> POSTED --handler entered--> COMPLETED
//   COMPLETED --prepare--> INITIALIZED (an operation is reusable at once)
//   COMPLETED --post-----> as from INITIALIZED
//
// An operation is in exactly one collection at a time: deferred (of its processor), started (inside
// the engine), completed (of the dispatcher).
//
// Thread rules: the setters and the start belong to one thread at a time, before the start.
// state(), is_pending(), activation(), and - once state() is RESULT_READY or COMPLETED - error(),
// bytes() may be read from any thread and from a signal handler without entering the library: the
// state is published by a release store after the result. Everything under "For engines" belongs to
// the holder of the operation at that moment.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "baton/buffer.hpp"
#include "baton/deadline.hpp"
#include "baton/endpoint.hpp"
#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/limits.hpp"
#include "baton/result.hpp"

namespace baton {

class HandlerRunner;  // src/core

/// In the order of an operation's life. Pending states have odd numbers, so that one bit shows
/// whether an operation is pending.
enum class OperationState : std::uint8_t {
  initialized = 0,
  started = 1,
  deferred = 3,
  result_ready = 5,
  start_error = 7,
  posted = 9,
  completed = 10,
};

/// The kinds of operations. The first eight are the paper's codes (000 section 5.1).
enum class OperationKind : std::uint8_t {
  read_stream,
  write_stream,
  read_file,
  write_file,
  read_datagram,
  write_datagram,
  accept,
  connect,
  sync_file,   ///< fsync, or fdatasync with Flag::data_only
  wait_ready,  ///< until readable and/or writable; moves no bytes
  shutdown,    ///< half close of the sending side, queued behind earlier writes
  close,       ///< the last operation of a handle; driven by the proactor
  timer,       ///< served by the proactor, never seen by an engine
  user,        ///< posted work, never seen by an engine
};
inline constexpr std::size_t operation_kinds = 14;  ///< number of values of OperationKind

BATON_EXPORT const char* to_string(OperationKind kind) noexcept;
BATON_EXPORT const char* to_string(OperationState state) noexcept;

/// A set of operation kinds.
class OperationKinds {
 public:
  constexpr OperationKinds() noexcept = default;
  constexpr OperationKinds(std::initializer_list<OperationKind> kinds) noexcept {
    for (OperationKind kind : kinds) add(kind);
  }
  /// Adds a kind to the set.
  constexpr void add(OperationKind kind) noexcept { bits_ |= bit(kind); }
  /// Whether the set contains a kind.
  [[nodiscard]] constexpr bool has(OperationKind kind) const noexcept {
    return (bits_ & bit(kind)) != 0;
  }
  /// Whether the set has no kind.
  [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
  constexpr OperationKinds& operator|=(OperationKinds other) noexcept {
    bits_ |= other.bits_;
    return *this;
  }
  friend constexpr bool operator==(OperationKinds, OperationKinds) noexcept = default;

 private:
  static constexpr std::uint32_t bit(OperationKind kind) noexcept {
    return 1U << static_cast<unsigned>(kind);
  }
  std::uint32_t bits_ = 0;
};

namespace detail {

/// The kind whose processor also takes operations of `kind`: a half close is queued behind writes,
/// and a sync waits for them (contract.md, rule 3). `kind` itself for all others.
constexpr OperationKind ordered_with(OperationKind kind) noexcept {
  if (kind == OperationKind::shutdown) return OperationKind::write_stream;
  if (kind == OperationKind::sync_file) return OperationKind::write_file;
  return kind;
}

/// Refuses at compile time a handler that may throw while it is stored in an operation. The
/// exception could not be reported, and the resources of the start would be lost.
template <class Handler>
constexpr void check_that_storing_cannot_throw() noexcept {
  using Stored = std::decay_t<Handler>;
  static_assert(std::is_nothrow_constructible_v<Stored, Handler>,
                "storing this handler may throw: pass it by std::move, or capture what throws when "
                "it is copied by a std::unique_ptr");
  static_assert(std::is_nothrow_move_constructible_v<Stored>,
                "moving this handler may throw: capture what throws when it is moved by a "
                "std::unique_ptr");
}

}  // namespace detail

/// Called when an operation is complete; the operation may be restarted or destroyed inside.
using CompletionFunction = void (*)(Operation&);

class BATON_EXPORT Operation {
 public:
  /// How the transfer is to be done; a bit set.
  enum Flag : std::uint16_t {
    vectored = 1U << 0,   ///< buffers() is a list, else one buffer
    exactly = 1U << 1,    ///< read_exactly, write_all: complete only when all bytes are moved
    until = 1U << 2,      ///< read_until: complete when the delimiter is in the buffer
    pooled = 1U << 3,     ///< take the buffer from pool() only when data is there
    data_only = 1U << 4,  ///< sync_file: fdatasync
    readable = 1U << 5,   ///< wait_ready: wait for input
    writable = 1U << 6,   ///< wait_ready: wait for room
    append = 1U << 7,     ///< write_file at the end of a file opened with O_APPEND, in order
    internal = 1U << 8,   ///< belongs to the library itself; not counted, not delivered to users
    cached = 1U << 9,     ///< its memory goes back to the cache when the handler returns
  };

  Operation() noexcept = default;
  /// Constructs it with its request: like a new one after prepare(), but writes its memory only
  /// once.
  Operation(OperationKind kind, Handle* handle, std::uint16_t flags, ConstBuffer buffer,
            std::uint64_t extra) noexcept
      : kind_(kind),
        flags_(flags),
        handle_(handle),
        data_(const_cast<void*>(buffer.data)),
        size_(buffer.size),
        extra_(extra) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  /// REQUIRES: not pending. Destroying an operation that the kernel may still write through would
  /// corrupt memory later and elsewhere, so it ends the program here.
  ~Operation() {
    if (is_pending()) destroyed_while_pending();
  }

  // -- what a user reads --------------------------------------------------------------------------

  /// Its state, as in the diagram above. Any thread.
  [[nodiscard]] OperationState state() const noexcept {
    // acquire: pairs with the release store in publish(), so that the result is visible with it.
    return state_.load(std::memory_order_acquire);
  }
  /// Started, deferred, posted or queued: its memory belongs to Baton.
  [[nodiscard]] bool is_pending() const noexcept {
    return (static_cast<std::uint8_t>(state()) & pending_bit) != 0;
  }
  /// The number of this activation; raised by every start and post, so that a late cancel of an
  /// earlier use of the same object finds nothing (tests/model/op.pml).
  [[nodiscard]] std::uint32_t activation() const noexcept {
    return activation_.load(std::memory_order_relaxed);
  }
  /// As prepared.
  [[nodiscard]] OperationKind kind() const noexcept { return kind_; }
  /// Flag values, as prepared.
  [[nodiscard]] std::uint16_t flags() const noexcept { return flags_; }
  /// Whether a flag is set.
  [[nodiscard]] bool has(Flag flag) const noexcept { return (flags_ & flag) != 0; }
  /// The handle it works on; null for timers, posts and after a close.
  [[nodiscard]] Handle* handle() const noexcept {
    // acquire, release: only for a cancel from another thread; see Core::cancel.
    return handle_.load(std::memory_order_acquire);
  }

  /// Bytes moved so far, also when the operation failed, was cancelled or timed out.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return bytes_.load(std::memory_order_relaxed);
  }
  /// The error, or a default-constructed code.
  [[nodiscard]] std::error_code error() const noexcept;
  /// Whether error() is not 0.
  [[nodiscard]] bool failed() const noexcept { return error_value() != 0; }
  /// bytes(), or error() if there is one.
  [[nodiscard]] Result<std::size_t> result() const noexcept {
    if (failed()) return unexpected{error()};
    return bytes();
  }
  /// The buffer; after a pooled read: the block from the pool (empty if there is none).
  [[nodiscard]] MutableBuffer buffer() const noexcept { return {data_, size_}; }

  // -- what a user sets, before start -------------------------------------------------------------

  /// The operation completes with errc::timed_out if it is not done by then; never() by default.
  /// Kept for this activation only. A post has no deadline, and leaves it for the next start. While
  /// it is pending: errc::operation_in_use, and nothing changes; Proactor::move_deadline moves the
  /// deadline of a pending one.
  std::error_code set_deadline(Deadline deadline) noexcept {
    if (is_pending()) return make_error_code(errc::operation_in_use);
    deadline_ = deadline;
    return {};
  }
  /// The deadline; never() if there is none.
  [[nodiscard]] Deadline deadline() const noexcept { return deadline_; }

  /// Handlers with the same strand never overlap. Null: no strand.
  void set_strand(Strand* strand) noexcept { strand_ = strand; }
  /// Null if there is none.
  [[nodiscard]] Strand* strand() const noexcept { return strand_; }

  /// A word that Baton does not use. Reports of stuck operations (pending.hpp) print it, with the
  /// name that Proactor::name_tag gave it.
  void set_tag(std::uint32_t tag) noexcept { tag_ = tag; }
  /// 0 if there is none.
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }

  /// Sets a raw completion function and its context.
  void set_completion(CompletionFunction function, void* context = nullptr) noexcept {
    completion_ = function;
    std::memcpy(inline_handler_, &context, sizeof(context));
  }
  /// The context of set_completion().
  [[nodiscard]] void* context() const noexcept {
    void* context = nullptr;
    std::memcpy(&context, inline_handler_, sizeof(context));
    return context;
  }

  /// Sets a callable `void(Operation&)` as the handler. It is stored inside the operation: at most
  /// two pointers, trivially copyable. Capture a pointer to your session; larger handlers go with
  /// the overloads that take their operation from the cache.
  template <class Handler>
    requires std::invocable<Handler&, Operation&>
  void set_handler(Handler handler) noexcept {
    static_assert(sizeof(Handler) <= limits::inline_handler_size,
                  "a caller-owned operation stores two pointers of handler: capture a pointer to "
                  "your session object, or use the overload without an operation argument");
    static_assert(
        std::is_trivially_copyable_v<Handler> && std::is_trivially_destructible_v<Handler>,
        "a caller-owned operation stores its handler by plain copy: capture pointers or "
        "references, or use the overload without an operation argument");
    ::new (static_cast<void*>(inline_handler_)) Handler(handler);
    completion_ = [](Operation& operation) {
      // Copied out first: the handler may start the operation again with another handler.
      Handler copy(*std::launder(reinterpret_cast<const Handler*>(operation.inline_handler_)));
      copy(operation);
    };
  }

  // -- what the I/O objects set: the request ------------------------------------------------------

  /// Begins a new request. Without it a start fails with errc::not_prepared. Clears the result of
  /// the last activation and keeps handler, strand and tag. Keeps the deadline only if it was set
  /// since the last completion. REQUIRES: not pending.
  void prepare(OperationKind kind, Handle* handle, std::uint16_t flags = 0) noexcept {
    state_.store(OperationState::initialized, std::memory_order_relaxed);
    kind_ = kind;
    handle_.store(handle, std::memory_order_release);
    flags_ = flags;
    set_bytes(0);
    finish(0);
    data_ = nullptr;
    size_ = 0;
    extra_ = 0;
    cancel_asked_.store(false, std::memory_order_relaxed);
  }
  /// A close is complete: its handle is free for others, so the operation no longer names it.
  void prepare_closed() noexcept { handle_.store(nullptr, std::memory_order_release); }
  /// The memory to read into or to write from.
  void set_buffer(MutableBuffer buffer) noexcept { data_ = buffer.data, size_ = buffer.size; }
  void set_buffer(ConstBuffer buffer) noexcept {
    // Only ever read through: write operations pass it on as const.
    data_ = const_cast<void*>(buffer.data), size_ = buffer.size;
  }
  /// The same with several buffers; the list must live until completion.
  void set_buffers(MutableBuffers list) noexcept {
    flags_ |= vectored;
    data_ = const_cast<MutableBuffer*>(list.data()), size_ = list.size();
  }
  void set_buffers(ConstBuffers list) noexcept {
    flags_ |= vectored;
    data_ = const_cast<ConstBuffer*>(list.data()), size_ = list.size();
  }
  /// A pooled read's pool.
  void set_pool(BufferPool* pool) noexcept { flags_ |= pooled, data_ = pool, size_ = 0; }
  /// Of a file operation.
  void set_offset(std::uint64_t offset) noexcept { extra_ = offset; }
  /// The peer's address: accept and read_datagram store it here, connect and write_datagram find it
  /// here.
  void set_endpoint(Endpoint* endpoint) noexcept {
    extra_ = reinterpret_cast<std::uintptr_t>(endpoint);
  }
  /// read_until: `delimiter` must live until completion; `filled` bytes of the buffer are already
  /// data.
  void set_until(const std::string_view* delimiter, std::size_t filled) noexcept {
    flags_ |= until;
    extra_ = reinterpret_cast<std::uintptr_t>(delimiter);
    set_bytes(filled);
  }

  /// Of a file operation.
  [[nodiscard]] std::uint64_t offset() const noexcept { return extra_; }
  /// Where the address is; see set_endpoint().
  [[nodiscard]] Endpoint* endpoint() const noexcept {
    return reinterpret_cast<Endpoint*>(static_cast<std::uintptr_t>(extra_));
  }
  /// Of read_until; see set_until().
  [[nodiscard]] const std::string_view* delimiter() const noexcept {
    return reinterpret_cast<const std::string_view*>(static_cast<std::uintptr_t>(extra_));
  }
  /// Of a pooled read.
  [[nodiscard]] BufferPool* pool() const noexcept { return static_cast<BufferPool*>(data_); }
  /// The list of a vectored operation (as the kernel's iovec).
  [[nodiscard]] std::span<const MutableBuffer> buffers() const noexcept {
    return {static_cast<const MutableBuffer*>(data_), size_};
  }
  /// accept: the descriptor of the new connection (REQUIRES: completed without error).
  [[nodiscard]] int accepted() const noexcept { return static_cast<int>(bytes()); }

  // -- for engines --------------------------------------------------------------------------------
  //
  // Between submit and completion an operation belongs to its engine, which may use the links and
  // the private state as it likes, records progress with add_bytes() and ends with finish().

  /// The engine's private state inside the operation; submit finds the bytes that the last engine
  /// has left (zeros at first).
  template <class State>
  [[nodiscard]] State& engine_state() noexcept {
    static_assert(
        sizeof(State) <= limits::engine_state_size && alignof(State) <= 8,
        "at most 40 bytes inside the operation; what is larger goes to the engine's slab");
    static_assert(std::is_trivially_destructible_v<State>);
    return *std::launder(reinterpret_cast<State*>(engine_state_));
  }
  /// Records progress.
  void add_bytes(std::size_t count) noexcept { set_bytes(bytes() + count); }
  /// Records progress from the beginning.
  void set_bytes(std::size_t count) noexcept { bytes_.store(count, std::memory_order_relaxed); }
  /// Records the outcome; 0 is success, a positive value an errno, a negative one an errc. Does not
  /// publish: the processor does, when it takes the operation back.
  void finish(int error_value) noexcept {
    error_.store(static_cast<std::int16_t>(error_value), std::memory_order_relaxed);
  }
  void finish(errc error) noexcept { finish(-static_cast<int>(error)); }
  /// The raw form of the error: errno, or -errc.
  [[nodiscard]] int error_value() const noexcept { return error_.load(std::memory_order_relaxed); }
  /// The program asked to cancel this activation. Ordered by the engine's own lock: see engine.hpp.
  [[nodiscard]] bool cancel_asked() const noexcept {
    return cancel_asked_.load(std::memory_order_relaxed);
  }
  /// For engines and the core.
  void set_flag(Flag flag) noexcept { flags_ = static_cast<std::uint16_t>(flags_ | flag); }
  /// For engines and the core.
  void clear_flag(Flag flag) noexcept { flags_ = static_cast<std::uint16_t>(flags_ & ~flag); }
  /// A pooled read found its buffer: from now on buffer() is that memory.
  void set_taken_buffer(void* data, std::size_t size) noexcept { data_ = data, size_ = size; }

 private:
  static constexpr std::uint8_t pending_bit = 1;

  /// Ends the program, unless this is a forked child in which nothing can be pending any more.
  [[gnu::cold]] void destroyed_while_pending() const noexcept;

  /// In a forked child: the parent has it, and its handler will never run here.
  void abandon() noexcept {
    finish(errc::after_fork);
    state_.store(OperationState::completed, std::memory_order_release);
  }

  friend class capi::SlotTable;  // ends those that a thread of the parent was handling
  friend class OperationList;    // links
  friend class OperationAccess;  // src/core: state machine, timers, dispatch
  friend class OperationDouble;  // src/engines/common: stands for a user's operation in an engine

  // First 64 bytes: what every hop touches, and all that posted work does.
  Operation* next_ = nullptr;
  Operation* previous_ = nullptr;
  CompletionFunction completion_ = nullptr;
  alignas(void*) std::byte inline_handler_[limits::inline_handler_size]{};
  Strand* strand_ = nullptr;
  // These three are one word for OperationAccess::is_simple.
  std::atomic<OperationState> state_{OperationState::initialized};
  OperationKind kind_ = OperationKind::user;
  std::uint16_t flags_ = 0;
  std::atomic<std::uint32_t> activation_{0};
  std::atomic<std::int16_t> error_{0};           // errno, or -errc: all of them fit
  std::atomic<std::uint16_t> cancel_wanted_{0};  // asked for by a thread that may not do it itself
  std::atomic<bool> cancel_asked_{false};
  std::uint8_t core_flags_ = 0;              // the core's own, guarded as its collections are
  std::atomic<std::uint16_t> processor_{0};  // which of the team has it; of a timer: which lane

  // Second: what a timer needs besides, and the holder of the operation.
  Deadline deadline_;
  union {
    Operation* timer_child_ = nullptr;  // in the heap of the timer queue
    TimerSlot* timer_slot_;             // in its wheel
    std::int64_t timer_filed_ns_;       // in its row
  };
  Operation* timer_sibling_ = nullptr;
  union {
    Operation* timer_previous_ = nullptr;
    HandlerRunner* runner_;  // complete, and queued in a strand: its runner
  };
  Operation* sibling_next_ = nullptr;  // the pending operations of its handle
  Operation* sibling_previous_ = nullptr;
  std::uint32_t started_tick_ = 0;  // of the core's coarse clock, for reports of old operations
  std::uint32_t tag_ = 0;
  std::atomic<Handle*> handle_{nullptr};

  // Third: the request.
  void* data_ = nullptr;
  std::size_t size_ = 0;
  std::atomic<std::size_t> bytes_{0};  // written by one; a report of what is pending reads it, too
  std::uint64_t extra_ = 0;            // offset, endpoint or delimiter, by kind

  // The engine's. A cancel may look here before the submit.
  alignas(8) std::byte engine_state_[limits::engine_state_size]{};
};

// Sizes count: an idle connection with a read pending holds one of these.
static_assert(sizeof(Operation) <= 200);

}  // namespace baton
