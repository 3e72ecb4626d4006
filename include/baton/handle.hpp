// Handle: the proactor's record of one descriptor. It lives in the proactor's table at a stable
// address from adoption until its close is complete. Index and generation together name it for
// ever. So an event for a closed descriptor is never taken for one of its successor (contract.md,
// rule 6).
#pragma once

#include <atomic>
#include <cstdint>

#include "baton/fwd.hpp"

namespace baton {

/// The system's name of an open file. On POSIX a small integer.
using NativeHandle = int;
inline constexpr NativeHandle invalid_handle = -1;  ///< no descriptor

/// What a descriptor is; the operations that it has depend on it.
enum class HandleKind : std::uint8_t {
  stream_socket,
  listener,
  datagram_socket,
  file,  ///< a regular file or block device: reads and writes have an offset
  pipe,  ///< pipes, FIFOs, terminals, character devices: streams that are not sockets
};

/// Whether Baton or the program closes the descriptor and changes its flags (contract.md, rule 12).
enum class Ownership : std::uint8_t {
  owned,    ///< non-blocking, closed by Baton; it may stay watched between operations
  borrowed  ///< mode and flags untouched; watched only while an operation waits on it
};

class Handle {
 public:
  static constexpr std::uint16_t any_processor = 0xffff;  ///< no processor of the team is preferred

  /// The descriptor.
  [[nodiscard]] NativeHandle native() const noexcept { return native_; }
  /// Dense, reused number: engines index their own per-handle tables with it.
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  /// Raised each time the index is reused.
  [[nodiscard]] std::uint32_t generation() const noexcept {
    return generation_.load(std::memory_order_relaxed);
  }
  /// What the descriptor was adopted as.
  [[nodiscard]] HandleKind kind() const noexcept { return kind_.load(std::memory_order_relaxed); }
  /// Whether Baton closes it.
  [[nodiscard]] bool owned() const noexcept { return ownership_ == Ownership::owned; }
  /// The descriptor itself is in non-blocking mode, so that a plain read or write cannot block.
  [[nodiscard]] bool nonblocking() const noexcept { return nonblocking_; }
  /// Whether it was opened for reading; for a listening socket, whether it was adopted as a
  /// listener. If not, a read or an accept fails at once (EBADF, ENOTCONN, EINVAL), and there is no
  /// readiness to wait for.
  [[nodiscard]] bool readable() const noexcept { return readable_; }
  /// The same for writing.
  [[nodiscard]] bool writable() const noexcept { return writable_; }
  /// A terminal, which is writable as soon as there is room for one byte.
  [[nodiscard]] bool is_terminal() const noexcept { return is_terminal_; }
  /// Opened with O_APPEND: every write goes to the end of the file.
  [[nodiscard]] bool appends() const noexcept { return appends_; }
  /// Opened with O_DIRECT: a transfer waits for the device, even if it was asked not to.
  [[nodiscard]] bool direct() const noexcept { return direct_; }
  /// Opened with O_DSYNC or O_SYNC: a write ends when it is on the device.
  [[nodiscard]] bool syncs() const noexcept { return syncs_; }
  /// A regular file, a folder or a block device, even if its kind says otherwise (standard input
  /// may be a file). It is always "ready", and its reads and writes may block all the same.
  [[nodiscard]] bool is_file() const noexcept { return is_file_; }
  /// Whether each write of a stream is a record of its own (SOCK_SEQPACKET, a pipe of packets).
  enum class Records : std::uint8_t { unknown, none, kept };
  /// `unknown` until an engine has asked the system. Any thread.
  [[nodiscard]] Records records() const noexcept {
    return records_.load(std::memory_order_relaxed);
  }
  /// For engines. Any thread; all find out the same.
  void set_records(Records records) noexcept { records_.store(records, std::memory_order_relaxed); }
  /// close(2) may block (SO_LINGER with a time, a file): do it on a worker or on the ring.
  [[nodiscard]] bool close_may_block() const noexcept { return has(close_blocks); }
  /// A read or a write has reported that the connection is lost (a reset, a timeout), not ended by
  /// its peer. Only of owned descriptors.
  [[nodiscard]] bool connection_lost() const noexcept { return has(lost); }
  /// For engines. Any thread.
  void set_connection_lost() noexcept { set(lost, true); }

 private:
  friend class HandleTable;  // src/core

  [[nodiscard]] bool has(std::uint8_t mark) const noexcept {
    return (marks_.load(std::memory_order_relaxed) & mark) != 0;
  }
  void set(std::uint8_t mark, bool on) noexcept {
    if (on) {
      marks_.fetch_or(mark, std::memory_order_relaxed);
    } else {
      marks_.fetch_and(static_cast<std::uint8_t>(~mark), std::memory_order_relaxed);
    }
  }

  NativeHandle native_ = invalid_handle;
  std::uint32_t index_ = 0;
  std::atomic<std::uint32_t> generation_{0};
  // Atomic for a start that comes too late, which is refused.
  std::atomic<HandleKind> kind_{HandleKind::stream_socket};
  Ownership ownership_ = Ownership::owned;
  enum Mark : std::uint8_t { close_blocks = 1, lost = 2 };
  std::atomic<std::uint8_t> marks_{0};              // set by any thread
  std::atomic<Records> records_{Records::unknown};  // set by engines
  // Set once, when the handle is adopted.
  bool nonblocking_ : 1 = true;
  bool readable_ : 1 = true;
  bool writable_ : 1 = true;
  bool is_terminal_ : 1 = false;
  bool appends_ : 1 = false;
  bool direct_ : 1 = false;
  bool syncs_ : 1 = false;
  bool is_file_ : 1 = false;

  // The proactor's own bookkeeping; guarded like the lane that is the handle's home.
  enum class Phase : std::uint8_t { free, open, closing, closed };
  std::atomic<Phase> phase_{Phase::free};
  std::atomic<std::uint16_t> lane_{0};
  std::atomic<std::uint16_t> processor_{any_processor};  // of the team: the preferred
  std::uint16_t attached_ = 0;                           // bit per processor of the team
  std::uint32_t pending_ = 0;  // operations from start until their handler has returned
  std::atomic<std::uint32_t> returned_{0};  // per_thread mode: see below
  // Its lane, while simple requests may go to that lane's Route without further questions; or null.
  // See core/starter.hpp.
  std::atomic<Lane*> route_{nullptr};
  Operation* closing_ = nullptr;     // the close operation that waits for pending_ == 0, if any
  Operation* operations_ = nullptr;  // head of the list of its pending operations
  union {
    Handle* next_ = nullptr;  // free list, or a list of handles to detach or to close
    void* record_;            // while route_ is set: its engine's
  };

  // Requests of other threads to the lane (src/core/lane.hpp), in per_thread mode. returned_ counts
  // the handlers that other lanes have run for it.
  std::atomic<std::uint64_t> asked_{std::uint64_t{1} << 32};  // of the first: core/asked_word.hpp
  // The lane's list of those with something asked, and the newest number; the list's mutex.
  std::uint64_t asked_number_ = 0;
  Handle* asked_next_ = nullptr;
  Handle* asked_previous_ = nullptr;
  friend class OperationAccess;
};

}  // namespace baton
