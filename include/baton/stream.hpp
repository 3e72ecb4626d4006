// Stream: reads and writes without message boundaries or positions: sockets, pipes, terminals. Each
// request has the three forms of io_object.hpp.
//
// One read and one write at a time are in flight; further ones wait in the order of their start.
// Reads and writes are independent of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include "baton/buffer.hpp"
#include "baton/buffer_pool.hpp"
#include "baton/interest.hpp"
#include "baton/io_object.hpp"
#include "baton/operation.hpp"
#include "baton/result.hpp"

namespace baton {

class Stream : public IoObject {
 public:
  Stream() noexcept = default;

  // -- reading ------------------------------------------------------------------------------------

  /// Reads the available data, at least one byte: Result<std::size_t>. 0 bytes into a buffer that
  /// is not empty are the end of the stream.
  [[nodiscard]] auto read(MutableBuffer buffer) noexcept {
    return awaitable(reading(0, buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read(MutableBuffer buffer, Handler&& handler) noexcept {
    return start_cached(reading(0, buffer), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read(Operation& operation, MutableBuffer buffer,
                                     Handler handler = {}) noexcept {
    return start_owned(operation, reading(0, buffer), handler);
  }

  /// Fills the whole buffer, as a single operation. errc::end_of_stream if the stream ends before;
  /// bytes() of the operation or of the awaited result tells how many came.
  [[nodiscard]] auto read_exactly(MutableBuffer buffer) noexcept {
    return awaitable(reading(Operation::exactly, buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read_exactly(MutableBuffer buffer, Handler&& handler) noexcept {
    return start_cached(reading(Operation::exactly, buffer), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_exactly(Operation& operation, MutableBuffer buffer,
                                             Handler handler = {}) noexcept {
    return start_owned(operation, reading(Operation::exactly, buffer), handler);
  }

  /// Reads until the delimiter (1 to limits::delimiter_max bytes) is in the buffer, whose first
  /// `filled` bytes are already data (EINVAL if it has fewer). Result<std::size_t>: the number of
  /// bytes of the buffer that are data now. There may be some behind the delimiter, and the next
  /// read_until begins with them. errc::delimiter_not_found when the buffer is full,
  /// errc::end_of_stream when the stream ends before. The delimiter's text must live until
  /// completion.
  [[nodiscard]] auto read_until(MutableBuffer buffer, std::size_t filled,
                                std::string_view delimiter) noexcept {
    return awaitable(until(buffer, filled, delimiter), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read_until(MutableBuffer buffer, std::size_t filled,
                                           std::string_view delimiter, Handler&& handler) noexcept {
    return start_cached(until(buffer, filled, delimiter), std::forward<Handler>(handler));
  }
  /// The view itself must live until completion, too.
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_until(Operation& operation, MutableBuffer buffer,
                                           std::size_t filled, const std::string_view& delimiter,
                                           Handler handler = {}) noexcept {
    return start_owned(operation, CallersUntil{reading(0, buffer), &delimiter, filled}, handler);
  }
  template <class Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_until(Operation&, MutableBuffer, std::size_t,
                                           std::string_view&&, Handler = {}) = delete;

  /// read into several buffers, one after the other. The list must live until completion.
  [[nodiscard]] auto read_vectored(MutableBuffers list) noexcept {
    return awaitable(list_request(OperationKind::read_stream, 0, list), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read_vectored(MutableBuffers list, Handler&& handler) noexcept {
    return start_cached(list_request(OperationKind::read_stream, 0, list),
                        std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_vectored(Operation& operation, MutableBuffers list,
                                              Handler handler = {}) noexcept {
    return start_owned(operation, list_request(OperationKind::read_stream, 0, list), handler);
  }

  /// read into a block that is taken from the pool only when data has arrived, so that a pending
  /// read holds no memory: Result<PooledBuffer>, empty at the end of the stream.
  /// errc::pool_exhausted when data, the end or an error came and no block was free. A handler
  /// takes the block by take_pooled(). If a handler of a cached operation does not take it, it goes
  /// back to the pool.
  [[nodiscard]] auto read_pooled(BufferPool& pool) noexcept {
    return awaitable(pooled(pool), TakePooled{&pool});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read_pooled(BufferPool& pool, Handler&& handler) noexcept {
    return start_cached(pooled(pool),
                        detail::taking_back(std::forward<Handler>(handler), TakePooled{&pool}));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_pooled(Operation& operation, BufferPool& pool,
                                            Handler handler = {}) noexcept {
    return start_owned(operation, pooled(pool), handler);
  }
  /// The block of a pooled read; empty when it was taken before. REQUIRES: complete, the same pool.
  /// An operation of the caller keeps the block until it is taken.
  static Result<PooledBuffer> take_pooled(Operation& operation, BufferPool& pool) noexcept {
    return TakePooled{&pool}(operation);
  }

  // -- writing ------------------------------------------------------------------------------------

  /// Writes at least one byte of a buffer that is not empty: Result<std::size_t>.
  [[nodiscard]] auto write(ConstBuffer buffer) noexcept {
    return awaitable(writing(0, buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code write(ConstBuffer buffer, Handler&& handler) noexcept {
    return start_cached(writing(0, buffer), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code write(Operation& operation, ConstBuffer buffer,
                                      Handler handler = {}) noexcept {
    return start_owned(operation, writing(0, buffer), handler);
  }

  /// Writes the whole buffer, as a single operation.
  [[nodiscard]] auto write_all(ConstBuffer buffer) noexcept {
    return awaitable(writing(Operation::exactly, buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code write_all(ConstBuffer buffer, Handler&& handler) noexcept {
    return start_cached(writing(Operation::exactly, buffer), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code write_all(Operation& operation, ConstBuffer buffer,
                                          Handler handler = {}) noexcept {
    return start_owned(operation, writing(Operation::exactly, buffer), handler);
  }

  /// write_all of several buffers, one after the other. The list must live until completion.
  [[nodiscard]] auto write_all_vectored(ConstBuffers list) noexcept {
    return awaitable(writing_list(list), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code write_all_vectored(ConstBuffers list, Handler&& handler) noexcept {
    return start_cached(writing_list(list), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code write_all_vectored(Operation& operation, ConstBuffers list,
                                                   Handler handler = {}) noexcept {
    return start_owned(operation, writing_list(list), handler);
  }

  // -- readiness ----------------------------------------------------------------------------------

  /// Waits until reading or writing would not block, for code that does the transfer itself:
  /// Result<void>. A hint; errors and hang-ups count as both. EINVAL: neither in nor out. Reads and
  /// writes that are started afterwards do not wait for it.
  [[nodiscard]] auto wait_ready(Interest interest) noexcept {
    return awaitable(waiting(interest), detail::NoBytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code wait_ready(Interest interest, Handler&& handler) noexcept {
    return start_cached(waiting(interest), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code wait_ready(Operation& operation, Interest interest,
                                           Handler handler = {}) noexcept {
    return start_owned(operation, waiting(interest), handler);
  }
  /// wait_ready for reading.
  [[nodiscard]] auto wait_readable() noexcept { return wait_ready(Interest::in); }
  /// wait_ready for writing.
  [[nodiscard]] auto wait_writable() noexcept { return wait_ready(Interest::out); }

 protected:
  using IoObject::IoObject;

 private:
  struct TakePooled {
    BufferPool* pool;
    Result<PooledBuffer> operator()(Operation& operation) const noexcept {
      // Only a completed pooled read has a block in its buffer.
      const bool is_pooled =
          operation.has(Operation::pooled) && operation.state() == OperationState::completed;
      const MutableBuffer taken = is_pooled ? operation.buffer() : MutableBuffer{};
      // Without a block the size is 0, whatever the pointer says.
      PooledBuffer block{*pool, taken.size != 0 ? taken.data : nullptr, operation.bytes()};
      operation.set_taken_buffer(nullptr, 0);
      if (operation.failed()) return unexpected{operation.error()};
      return block;
    }
  };
  struct CallersUntil {
    detail::Request request;
    const std::string_view* delimiter;
    std::size_t filled;
    std::error_code fill(Operation& operation) const noexcept {
      const std::error_code error = request.fill(operation);
      if (!error) operation.set_until(delimiter, filled);
      return error;
    }
    void undo(Operation&) const noexcept {}
  };

  [[nodiscard]] detail::Request reading(std::uint16_t flags, MutableBuffer buffer) const noexcept {
    return request(OperationKind::read_stream, flags, buffer);
  }
  [[nodiscard]] detail::Request writing(std::uint16_t flags, ConstBuffer buffer) const noexcept {
    return request(OperationKind::write_stream, flags, buffer);
  }
  [[nodiscard]] detail::Request writing_list(ConstBuffers list) const noexcept {
    return list_request(OperationKind::write_stream, Operation::exactly, list);
  }
  [[nodiscard]] detail::UntilRequest until(MutableBuffer buffer, std::size_t filled,
                                           std::string_view delimiter) const noexcept {
    return {reading(0, buffer), delimiter, filled};
  }
  [[nodiscard]] detail::Request pooled(BufferPool& pool) const noexcept {
    detail::Request made = request(OperationKind::read_stream, Operation::pooled);
    made.data = &pool;
    return made;
  }
  [[nodiscard]] detail::Request waiting(Interest interest) const noexcept {
    std::uint16_t flags = 0;
    if (any(interest & Interest::in)) flags |= Operation::readable;
    if (any(interest & Interest::out)) flags |= Operation::writable;
    return request(OperationKind::wait_ready, flags);
  }
};

}  // namespace baton
