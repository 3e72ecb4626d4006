// Requests: the control blocks for the system's AIO, each with its operation. They never move and
// are reused.
//
// A control block is larger than the engine state of an operation. It must not be touched while
// aio_suspend has it in its list, complete or not. The C library finds its own record through it
// when the wait ends, and stops the program if it finds another (aio_suspend.c, an assertion). Only
// the leader therefore gives a request back, between its waits.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "baton/operation.hpp"
#include "engines/posix_aio/notify.hpp"

namespace baton::engines::posix_aio {

/// Operations that the engine takes at once; the processor defers the rest. Every wait of
/// aio_suspend scans all of them, and the system works on few at a time anyway (glibc: 20 threads
/// for the whole process, and one request after the other on each descriptor).
inline constexpr std::uint32_t operations_max = 256;

struct Request {
  aiocb* block = nullptr;
  Operation* operation = nullptr;
  Request* next = nullptr;  ///< in the list of free ones, or of those found over
  int error = 0;            ///< the outcome
  std::size_t moved = 0;
};

class RequestTable {
 public:
  RequestTable();
  ~RequestTable();
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;

  /// Null if all are in use, or there is no memory.
  [[nodiscard]] Request* take() noexcept;
  void give_back(Request& request) noexcept;

 private:
  static constexpr std::uint32_t chunk_size = 64;
  static_assert(operations_max % chunk_size == 0);
  struct Chunk;
  [[nodiscard]] bool grow() noexcept;

  std::array<std::unique_ptr<Chunk>, operations_max / chunk_size> chunks_;
  std::size_t chunks_count_ = 0;
  Request* free_ = nullptr;
};

/// Hands the next piece of the operation, or its sync, to the system. 0, or the reason why it was
/// not taken: EAGAIN means no room now, every other value is the operation's outcome.
int begin(const os::System& system, NotifyStrategy& notify, Request& request) noexcept;

/// False: still in progress. True: over; `error` is 0 and `moved` the bytes, or it is an errno.
bool is_over(const os::System& system, Request& request) noexcept;

/// Asks for an early end; is_over() tells whether it came.
void ask_to_cancel(const os::System& system, Request& request) noexcept;

}  // namespace baton::engines::posix_aio
