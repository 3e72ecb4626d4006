// The parts of an operation that are not inline: names, the error as a code, and the check that it
// is not destroyed while the kernel may still write through it.
#include "baton/operation.hpp"

#include <sys/uio.h>

#include <type_traits>

#include "base/assert.hpp"
#include "baton/buffer.hpp"
#include "baton/misuse.hpp"
#include "os/fork.hpp"

namespace baton {

// A list of buffers goes to the kernel as it is.
static_assert(sizeof(MutableBuffer) == sizeof(iovec) && alignof(MutableBuffer) == alignof(iovec));
static_assert(offsetof(MutableBuffer, data) == offsetof(iovec, iov_base));
static_assert(offsetof(MutableBuffer, size) == offsetof(iovec, iov_len));
static_assert(sizeof(MutableBuffer::size) == sizeof(iovec::iov_len));
static_assert(sizeof(ConstBuffer) == sizeof(iovec) && alignof(ConstBuffer) == alignof(iovec));
static_assert(offsetof(ConstBuffer, data) == offsetof(iovec, iov_base));
static_assert(offsetof(ConstBuffer, size) == offsetof(iovec, iov_len));
static_assert(std::is_standard_layout_v<MutableBuffer> && std::is_standard_layout_v<ConstBuffer>);

// A signal handler may read the state: no lock may hide in it.
static_assert(std::atomic<OperationState>::is_always_lock_free);

const char* to_string(OperationKind kind) noexcept {
  switch (kind) {
    case OperationKind::read_stream:
      return "read_stream";
    case OperationKind::write_stream:
      return "write_stream";
    case OperationKind::read_file:
      return "read_file";
    case OperationKind::write_file:
      return "write_file";
    case OperationKind::read_datagram:
      return "read_datagram";
    case OperationKind::write_datagram:
      return "write_datagram";
    case OperationKind::accept:
      return "accept";
    case OperationKind::connect:
      return "connect";
    case OperationKind::sync_file:
      return "sync_file";
    case OperationKind::wait_ready:
      return "wait_ready";
    case OperationKind::shutdown:
      return "shutdown";
    case OperationKind::close:
      return "close";
    case OperationKind::timer:
      return "timer";
    case OperationKind::user:
      return "user";
  }
  return "unknown";
}

const char* to_string(OperationState state) noexcept {
  switch (state) {
    case OperationState::initialized:
      return "initialized";
    case OperationState::started:
      return "started";
    case OperationState::deferred:
      return "deferred";
    case OperationState::result_ready:
      return "result_ready";
    case OperationState::start_error:
      return "start_error";
    case OperationState::posted:
      return "posted";
    case OperationState::completed:
      return "completed";
  }
  return "unknown";
}

void Operation::destroyed_while_pending() const noexcept {
  if (!os::left_behind.load(std::memory_order_relaxed)) {
    // Debug mode knows where it was started. acquire: makes visible what the function will read.
    if (const auto tell = destroyed_early.load(std::memory_order_acquire)) tell(this);
  }
  if (!is_pending() || os::left_behind.load(std::memory_order_relaxed)) return;
  detail::misused(
      "an operation was destroyed while it was pending: cancel it and wait for its completion, or "
      "end the proactor before, by finish() or a FinishAtEnd");
}

std::error_code Operation::error() const noexcept {
  const int error = error_value();
  if (error == 0) return {};
  if (error > 0) return {error, std::system_category()};
  return make_error_code(static_cast<errc>(-error));
}

}  // namespace baton
