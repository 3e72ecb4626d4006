// Message blocks: a chain of links. Each link refers to a part of a block of data, which links of
// other messages may share.
//
//   MessageBlock -> Link -> Link -> Link        begin, end: what this message reads of the block
//                    |       |       |
//                   Data    Data    Data        references: the links that point here
//
// A message writes into a block only behind its end, and only if it has the block's one reference.
// So a shared block is never written, and the bytes of a duplicate never change.
#include "baton/message_block.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/assert.hpp"

namespace baton {

struct alignas(std::max_align_t) MessagePool::Data {
  std::atomic<std::uint32_t> references{1};
  [[nodiscard]] std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

struct MessagePool::Link {
  Link* next = nullptr;
  Data* data = nullptr;
  std::size_t begin = 0;
  std::size_t end = 0;

  // acquire: reads of former owners come before the next write.
  [[nodiscard]] bool shared() const noexcept {
    return data->references.load(std::memory_order_acquire) > 1;
  }
};

namespace {

std::size_t links_of(const MessagePoolConfig& config) noexcept {
  return config.links != 0 ? config.links : 2 * config.blocks;
}

/// What a block occupies: `head` bytes, and the data up to the next multiple of `alignment`.
std::size_t whole_size(std::size_t head, std::size_t data, std::size_t alignment) {
  const std::size_t whole = (head + data + alignment - 1) / alignment * alignment;
  if (whole < data) throw std::bad_array_new_length();
  return whole;
}

}  // namespace

// -- the pool -------------------------------------------------------------------------------------

MessagePool::MessagePool(const MessagePoolConfig& config)
    : block_size_(std::max<std::size_t>(config.block_size, 1)),
      data_(whole_size(sizeof(Data), block_size_, alignof(Data)), config.blocks),
      links_(sizeof(Link), links_of(config)) {}

MessagePool::~MessagePool() = default;

Result<MessageBlock> MessagePool::take(std::size_t bytes) noexcept {
  MessageBlock message(*this);
  if (const std::error_code error = message.grow(std::max<std::size_t>(bytes, 1))) {
    return unexpected{error};
  }
  return message;
}

Result<MessageBlock> MessagePool::copy(ConstBuffer bytes) noexcept {
  MessageBlock message(*this);
  if (const std::error_code error = message.write(bytes)) return unexpected{error};
  return message;
}

MessagePool::Link* MessagePool::take_link(Data* data) noexcept {
  void* const memory = links_.take();
  if (memory == nullptr) return nullptr;
  Link* const link = ::new (memory) Link;
  link->data = data;
  return link;
}

MessagePool::Link* MessagePool::take_block() noexcept {
  void* const memory = data_.take();
  if (memory == nullptr) return nullptr;
  Link* const link = take_link(::new (memory) Data);
  if (link == nullptr) data_.give(memory);
  return link;
}

void MessagePool::give(Link* link) noexcept {
  Data* const data = link->data;
  links_.give(link);
  // acq_rel: for the last owner, everything that others did with the block has happened before.
  const std::uint32_t before = data->references.fetch_sub(1, std::memory_order_acq_rel);
  BATON_ASSERT(before > 0);
  if (before == 1) data_.give(data);
}

// -- the message ----------------------------------------------------------------------------------

void MessageBlock::swap(MessageBlock& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(first_, other.first_);
  std::swap(last_, other.last_);
  std::swap(writing_, other.writing_);
  std::swap(size_, other.size_);
}

void MessageBlock::reset() noexcept {
  while (first_ != nullptr) pop_front();
  size_ = 0;
}

// Links behind writing_ have no bytes, so filling any of them keeps the order. None of them is
// shared, because duplicate() leaves out empty links.
MessagePool::Link* MessageBlock::with_room() const noexcept {
  for (MessagePool::Link* link = writing_; link != nullptr; link = link->next) {
    if (link->end < pool_->block_size_ && !link->shared()) return link;
  }
  return nullptr;
}

MutableBuffer MessageBlock::room() const noexcept {
  MessagePool::Link* const link = with_room();
  if (link == nullptr) return {nullptr, 0};
  return {link->data->bytes() + link->end, pool_->block_size_ - link->end};
}

void MessageBlock::commit(std::size_t count) noexcept {
  if (count == 0) return;
  MessagePool::Link* const link = with_room();
  BATON_ASSERT(link != nullptr && count <= pool_->block_size_ - link->end);
  link->end += count;
  size_ += count;
  writing_ = link;
}

std::error_code MessageBlock::grow(std::size_t bytes) noexcept {
  if (pool_ == nullptr) {
    if (bytes == 0) return {};
    return errc::pool_exhausted;
  }
  std::size_t room = 0;
  for (const MessagePool::Link* link = with_room(); link != nullptr && room < bytes;
       link = link->next) {
    room += pool_->block_size_ - link->end;
  }
  MessageBlock more(*pool_);
  for (; room < bytes; room += std::min(pool_->block_size_, bytes - room)) {
    MessagePool::Link* const link = pool_->take_block();
    if (link == nullptr) return errc::pool_exhausted;  // `more` goes back
    more.add(link);
  }
  MessagePool::Link* const writing = writing_;
  append(std::move(more));
  // Room that was free before is filled before added blocks.
  if (writing != nullptr) writing_ = writing;
  return {};
}

std::error_code MessageBlock::write(ConstBuffer bytes) noexcept {
  if (const std::error_code error = grow(bytes.size)) return error;
  const auto* from = static_cast<const std::byte*>(bytes.data);
  for (std::size_t left = bytes.size; left > 0;) {
    const MutableBuffer to = room();
    const std::size_t count = std::min(left, to.size);
    std::memcpy(to.data, from, count);
    commit(count);
    from += count;
    left -= count;
  }
  return {};
}

std::span<ConstBuffer> MessageBlock::parts(std::span<ConstBuffer> list) const noexcept {
  std::size_t count = 0;
  for (MessagePool::Link* link = first_; link != nullptr && count < list.size();
       link = link->next) {
    if (link->end == link->begin) continue;
    list[count++] = {link->data->bytes() + link->begin, link->end - link->begin};
  }
  return list.first(count);
}

std::size_t MessageBlock::peek(MutableBuffer into) const noexcept {
  auto* to = static_cast<std::byte*>(into.data);
  std::size_t left = std::min(into.size, size_);
  const std::size_t total = left;
  for (MessagePool::Link* link = first_; left > 0; link = link->next) {
    const std::size_t count = std::min(left, link->end - link->begin);
    if (count > 0) std::memcpy(to, link->data->bytes() + link->begin, count);
    to += count;
    left -= count;
  }
  return total;
}

void MessageBlock::consume(std::size_t count) noexcept {
  BATON_ASSERT(count <= size_);
  size_ -= count;
  while (count > 0) {
    const std::size_t here = std::min(count, first_->end - first_->begin);
    first_->begin += here;
    count -= here;
    // The block that is written next stays, though all of it is read.
    if (first_->begin < first_->end) return;
    const bool last_written = first_ == writing_ && first_->end < pool_->block_size_;
    if (last_written && !first_->shared()) {
      first_->begin = first_->end = 0;
      BATON_ASSERT(count == 0);
      return;
    }
    pop_front();
  }
}

void MessageBlock::append(MessageBlock&& tail) noexcept {
  if (tail.first_ == nullptr || &tail == this) return;
  if (pool_ == nullptr || first_ == nullptr) {
    MessageBlock taken(std::move(tail));
    swap(taken);
    return;
  }
  BATON_ASSERT(pool_ == tail.pool_);
  last_->next = tail.first_;
  last_ = tail.last_;
  writing_ = tail.writing_;
  size_ += tail.size_;
  tail.first_ = tail.last_ = tail.writing_ = nullptr;
  tail.size_ = 0;
}

Result<MessageBlock> MessageBlock::split(std::size_t count) noexcept {
  BATON_ASSERT(count <= size_);
  MessageBlock front;
  if (count == 0) return front;
  front.pool_ = pool_;
  // The place of the cut: inside `link`, or at its end.
  MessagePool::Link* link = first_;
  std::size_t before = 0;
  for (; before + (link->end - link->begin) < count; link = link->next) {
    before += link->end - link->begin;
  }
  const std::size_t part = count - before;
  MessagePool::Link* rest = nullptr;
  const bool inside = part < link->end - link->begin;
  if (inside || link == writing_) {
    rest = pool_->take_link(link->data);
    if (rest == nullptr) return unexpected{make_error_code(errc::pool_exhausted)};
    link->data->references.fetch_add(1, std::memory_order_relaxed);
    rest->begin = link->begin + part;
    rest->end = link->end;
    rest->next = link->next;
    if (last_ == link) last_ = rest;
  } else {
    rest = link->next;
  }
  front.first_ = first_;
  front.last_ = front.writing_ = link;
  front.size_ = count;
  if (link == writing_) writing_ = rest;
  link->end = link->begin + part;
  link->next = nullptr;
  first_ = rest;
  if (first_ == nullptr) last_ = writing_ = nullptr;
  size_ -= count;
  return front;
}

Result<MessageBlock> MessageBlock::duplicate() const noexcept {
  MessageBlock copy;
  copy.pool_ = pool_;
  for (MessagePool::Link* link = first_; link != nullptr; link = link->next) {
    if (link->end == link->begin) continue;
    MessagePool::Link* const shown = pool_->take_link(link->data);
    if (shown == nullptr) return unexpected{make_error_code(errc::pool_exhausted)};
    link->data->references.fetch_add(1, std::memory_order_relaxed);
    shown->begin = link->begin;
    shown->end = link->end;
    copy.add(shown);
  }
  copy.size_ = size_;
  copy.writing_ = copy.last_;
  return copy;
}

void MessageBlock::add(MessagePool::Link* link) noexcept {
  (last_ != nullptr ? last_->next : first_) = link;
  last_ = link;
  if (writing_ == nullptr) writing_ = link;
}

void MessageBlock::pop_front() noexcept {
  MessagePool::Link* const link = first_;
  first_ = link->next;
  if (last_ == link) last_ = nullptr;
  if (writing_ == link) writing_ = first_;
  pool_->give(link);
}

}  // namespace baton
