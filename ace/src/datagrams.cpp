#include "datagrams.hpp"

#include <ace/Addr.h>
#include <ace/Message_Block.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "results.hpp"

namespace baton::ace {
namespace {

/// Flags that change nothing, because Baton's datagrams behave so anyway.
constexpr int harmless_flags = MSG_DONTWAIT | MSG_NOSIGNAL;

/// The data of a datagram operation that must live until its end.
struct Datagram {
  ACE_POSIX_Asynch_Result* result = nullptr;
  ACE_Message_Block* block = nullptr;
  bool reads = false;
  Endpoint peer;
  std::unique_ptr<MutableBuffer[]> list;  // for a chain
};

std::size_t room_or_length(const ACE_Message_Block& block, bool reads) noexcept {
  return reads ? room_of(block) : length_of(block);
}

std::size_t size_of_chain(const ACE_Message_Block* block, bool reads) noexcept {
  std::size_t size = 0;
  for (; block != nullptr; block = block->cont()) size += room_or_length(*block, reads);
  return size;
}

void move(ACE_Message_Block& block, bool reads, std::size_t bytes) noexcept {
  reads ? block.wr_ptr(bytes) : block.rd_ptr(bytes);
}

std::size_t blocks_of(const ACE_Message_Block* block) noexcept {
  std::size_t count = 0;
  for (; block != nullptr; block = block->cont()) ++count;
  return count;
}

/// complete() moves the pointer of the first block by all bytes. So first the other blocks are
/// moved by their shares, and the first block back by the sum of these.
void share_out(const Datagram& datagram, std::size_t bytes) noexcept {
  std::size_t left = bytes;
  for (ACE_Message_Block* each = datagram.block; each != nullptr; each = each->cont()) {
    const std::size_t share = std::min(left, room_or_length(*each, datagram.reads));
    left -= share;
    // The pointers are offsets. The difference for the first block wraps around, and complete()
    // wraps it back.
    move(*each, datagram.reads, each == datagram.block ? share - bytes : share);
  }
}

void datagram_ended(Bridge& bridge, void* what, Outcome outcome) {
  const std::unique_ptr<Datagram> datagram{static_cast<Datagram*>(what)};
  ACE_POSIX_Asynch_Result& result = *datagram->result;
  if (outcome.bytes > 0 && datagram->list) share_out(*datagram, outcome.bytes);
  if (datagram->reads) {
    set_sender(dynamic_cast<ACE_POSIX_Asynch_Read_Dgram_Result&>(result), datagram->peer);
  }
  bridge.dispatch(result, outcome);
}

/// 0, or -1 and errno. Takes the result over; deletes it after an error.
int begin(Bridge& bridge, int fildes, ACE_Message_Block& block, bool reads, const ACE_Addr* address,
          ACE_POSIX_Asynch_Result* made) noexcept {
  std::unique_ptr<ACE_POSIX_Asynch_Result> result{made};
  std::unique_ptr<Datagram> datagram{new (std::nothrow) Datagram};
  const std::size_t blocks = blocks_of(&block);
  if (datagram && blocks > 1) datagram->list.reset(new (std::nothrow) MutableBuffer[blocks]);
  if (!result || !datagram || (blocks > 1 && !datagram->list)) return errno = ENOMEM, -1;
  datagram->result = made;
  datagram->block = &block;
  datagram->reads = reads;
  if (address != nullptr && !copy_address(*address, datagram->peer)) return errno = EINVAL, -1;

  Start start;
  start.fildes = fildes;
  start.action = reads ? Action::receive : Action::send;
  start.endpoint = reads || datagram->peer.size() > 0 ? &datagram->peer : nullptr;
  start.told = tell<datagram_ended>(datagram.get());
  start.data = reads ? block.wr_ptr() : block.rd_ptr();
  start.size = room_or_length(block, reads);
  if (datagram->list) {
    MutableBuffer* piece = datagram->list.get();
    for (ACE_Message_Block* each = &block; each != nullptr; each = each->cont()) {
      *piece++ = {reads ? each->wr_ptr() : each->rd_ptr(), room_or_length(*each, reads)};
    }
    start.list = true;
    start.data = datagram->list.get();
    start.size = blocks;
  }
  if (const int error = bridge.start(start)) return errno = error, -1;
  // After the start they belong to datagram_ended().
  static_cast<void>(result.release());
  static_cast<void>(datagram.release());
  return 0;
}

}  // namespace

ssize_t ReadDatagram::recv(ACE_Message_Block* block, std::size_t& /*bytes*/, int flags,
                           int protocol_family, const void* act, int priority, int signal_number) {
  if ((flags & ~harmless_flags) != 0) return errno = EOPNOTSUPP, -1;
  const std::size_t room = size_of_chain(block, true);
  if (room == 0) return errno = ENOSPC, -1;
  auto* const result = this->posix_proactor()->create_asynch_read_dgram_result(
      this->handler_proxy_, this->handle_, block, room, flags, protocol_family, act,
      ACE_INVALID_HANDLE, priority, signal_number);
  auto* const made = dynamic_cast<ACE_POSIX_Asynch_Read_Dgram_Result*>(result);
  if (made != nullptr && !has_sender(*made)) {
    delete posix_part(result);
    return errno = ENOMEM, -1;
  }
  return begin(*bridge_, this->handle_, *block, true, nullptr, made);
}

ssize_t WriteDatagram::send(ACE_Message_Block* block, std::size_t& /*bytes*/, int flags,
                            const ACE_Addr& address, const void* act, int priority,
                            int signal_number) {
  if ((flags & ~harmless_flags) != 0) return errno = EOPNOTSUPP, -1;
  const std::size_t length = size_of_chain(block, false);
  if (length == 0) return errno = EINVAL, -1;
  auto* const result = this->posix_proactor()->create_asynch_write_dgram_result(
      this->handler_proxy_, this->handle_, block, length, flags, act, ACE_INVALID_HANDLE, priority,
      signal_number);
  const bool named = address.get_type() != AF_ANY && address.get_size() > 0;
  return begin(*bridge_, this->handle_, *block, false, named ? &address : nullptr,
               posix_part(result));
}

}  // namespace baton::ace
