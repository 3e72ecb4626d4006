// Results: what the bridge does with ACE's result objects beyond their public interface. Their
// constructors and some members are open to ACE's own classes only, so results are made by the
// inherited factories, and the members are reached through classes derived from them.
#pragma once

#include <ace/Message_Block.h>
#include <ace/POSIX_Asynch_IO.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

#include "baton/endpoint.hpp"

namespace baton::ace {

/// The POSIX part of a result that a factory has made; null for null.
template <class Implementation>
ACE_POSIX_Asynch_Result* posix_part(Implementation* result) noexcept {
  return dynamic_cast<ACE_POSIX_Asynch_Result*>(result);
}

/// Memory for results, by one size. Each thread keeps some of what it gives back. Null: no memory.
inline constexpr std::size_t result_size_max = std::max(
    sizeof(ACE_POSIX_Asynch_Read_Stream_Result), sizeof(ACE_POSIX_Asynch_Write_Stream_Result));
void* take_result_memory() noexcept;
void give_result_memory(void* memory) noexcept;

/// One of ACE's results in such memory.
template <class Base>
class StreamResult final : public Base {
 public:
  template <class... Arguments>
  explicit StreamResult(Arguments&&... arguments) : Base(std::forward<Arguments>(arguments)...) {}

  static void* operator new(std::size_t, const std::nothrow_t&) noexcept {
    static_assert(sizeof(StreamResult) <= result_size_max);
    return take_result_memory();
  }
  static void operator delete(void* memory) noexcept { give_result_memory(memory); }
  static void operator delete(void* memory, const std::nothrow_t&) noexcept {
    give_result_memory(memory);
  }
};

/// Bytes that fit into a block, and those in it. A program may have moved the pointers past the
/// block's end or past each other: then 0.
inline std::size_t room_of(const ACE_Message_Block& block) noexcept {
  return block.wr_ptr() < block.mark() ? block.space() : 0;
}
inline std::size_t length_of(const ACE_Message_Block& block) noexcept {
  return block.rd_ptr() < block.wr_ptr() ? block.length() : 0;
}

/// The handler that a result is for is deleted.
bool handler_is_gone(ACE_POSIX_Asynch_Result& result) noexcept;

/// Stores where a datagram came from.
void set_sender(ACE_POSIX_Asynch_Read_Dgram_Result& result, const Endpoint& sender) noexcept;

/// False: the address is longer than any that Baton knows.
bool copy_address(const ACE_Addr& address, Endpoint& endpoint) noexcept;

}  // namespace baton::ace
