// MessageBlock: bytes in a chain of blocks from a pool, for protocols on either pattern (after
// ACE_Message_Block). A chain is written at its end and read at its front, and blocks that were
// read go back to the pool. A duplicate shares the bytes and has its own front and end, so that one
// message can go to many without a copy; shared blocks are not written any more.
//
//   MessagePool pool{{.block_size = 4096, .blocks = 1024}};
//   MessageBlock message = pool.take().value();
//   const MutableBuffer room = message.room();                 // read into it, then:
//   message.commit(bytes);
//   for (const ConstBuffer part : message.parts(list)) ...     // for a vectored write
//   message.consume(written);
//
// Memory is bounded by the pool: when nothing is free, the result is errc::pool_exhausted, never an
// allocation. Blocks that come back are kept; taking one costs an exchange, no lock.
//
// Threads: a MessageBlock belongs to one thread at a time; different ones, duplicates of each other
// too, may be used by different threads at once. A MessagePool is for any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "baton/buffer.hpp"
#include "baton/buffer_pool.hpp"
#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/result.hpp"

namespace baton {

class MessageBlock;

/// The size of a MessagePool.
struct MessagePoolConfig {
  std::size_t block_size = 4'096;  ///< bytes of one block that carry data; at least 1
  std::size_t blocks = 256;        ///< at once, in all messages
  /// Links of all chains at once: one for each block of a message, and of each duplicate. 0: twice
  /// the blocks.
  std::size_t links = 0;
};

/// Where messages take their blocks from. Any thread.
class BATON_EXPORT MessagePool {
 public:
  /// Everything is allocated here. Throws std::bad_alloc.
  explicit MessagePool(const MessagePoolConfig& config);
  ~MessagePool();  ///< REQUIRES: no message of it is left
  MessagePool(const MessagePool&) = delete;
  MessagePool& operator=(const MessagePool&) = delete;

  /// An empty message with room for `bytes` at least (zero: one block). errc::pool_exhausted.
  Result<MessageBlock> take(std::size_t bytes = 0) noexcept;
  /// A message that holds a copy. errc::pool_exhausted.
  Result<MessageBlock> copy(ConstBuffer bytes) noexcept;

  /// Bytes of a block that carry data.
  [[nodiscard]] std::size_t block_size() const noexcept { return block_size_; }
  /// Blocks that are not taken now. This and links_available() are back at their first values when
  /// no message is left.
  [[nodiscard]] std::size_t blocks_available() const noexcept { return data_.available(); }
  /// See blocks_available().
  [[nodiscard]] std::size_t links_available() const noexcept { return links_.available(); }

 private:
  friend class MessageBlock;
  struct Data;
  struct Link;

  Link* take_link(Data* data) noexcept;
  Link* take_block() noexcept;
  void give(Link* link) noexcept;

  const std::size_t block_size_;
  BufferPool data_;
  BufferPool links_;
};

class BATON_EXPORT MessageBlock {
 public:
  MessageBlock() noexcept = default;  ///< empty, without a pool
  MessageBlock(MessageBlock&& other) noexcept { swap(other); }
  MessageBlock& operator=(MessageBlock&& other) noexcept {
    MessageBlock taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~MessageBlock() { reset(); }

  void swap(MessageBlock& other) noexcept;
  /// Gives everything back.
  void reset() noexcept;

  /// Bytes to read.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether nothing is left to read.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  /// Where the next bytes go: the free end of the first block that has some and is not shared. Its
  /// size is 0 if there is none; grow() adds a block.
  [[nodiscard]] MutableBuffer room() const noexcept;
  /// Bytes were put at the beginning of room(). REQUIRES: count <= room().size.
  void commit(std::size_t count) noexcept;
  /// Adds blocks until `bytes` fit behind what is there. errc::pool_exhausted, also when the
  /// message has no pool: nothing was added.
  std::error_code grow(std::size_t bytes) noexcept;
  /// Copies bytes to the end, growing. errc::pool_exhausted: nothing was written.
  std::error_code write(ConstBuffer bytes) noexcept;

  /// The parts to read, front first, into `list`; parts that do not fit are left out.
  [[nodiscard]] std::span<ConstBuffer> parts(std::span<ConstBuffer> list) const noexcept;
  /// Copies bytes from the front without taking them; returns how many.
  std::size_t peek(MutableBuffer into) const noexcept;
  /// Takes bytes from the front; blocks that were read go back to the pool. REQUIRES: count <=
  /// size().
  void consume(std::size_t count) noexcept;

  /// Appends `tail`, which is empty afterwards. The room of this one ends where `tail` begins. A
  /// message that is appended to itself stays as it is.
  /// REQUIRES: both are of the same pool, or one of them has none.
  void append(MessageBlock&& tail) noexcept;
  /// Cuts the first `count` bytes off and returns them; no byte is copied. errc::pool_exhausted.
  /// REQUIRES: count <= size().
  Result<MessageBlock> split(std::size_t count) noexcept;
  /// Another message of the same bytes. errc::pool_exhausted.
  [[nodiscard]] Result<MessageBlock> duplicate() const noexcept;

 private:
  friend class MessagePool;
  explicit MessageBlock(MessagePool& pool) noexcept : pool_(&pool) {}

  [[nodiscard]] MessagePool::Link* with_room() const noexcept;
  void add(MessagePool::Link* link) noexcept;
  void pop_front() noexcept;

  MessagePool* pool_ = nullptr;
  MessagePool::Link* first_ = nullptr;
  MessagePool::Link* last_ = nullptr;
  MessagePool::Link* writing_ = nullptr;  // the first that may have room
  std::size_t size_ = 0;
};

}  // namespace baton
