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

/// Memory for results, all of one size. Each thread caches some of the blocks that it gives back.
class ResultMemory {
 public:
  static constexpr std::size_t size = std::max(sizeof(ACE_POSIX_Asynch_Read_Stream_Result),
                                               sizeof(ACE_POSIX_Asynch_Write_Stream_Result));
  /// Null: no memory.
  static void* take() noexcept {
    Free* const first = kept.first;
    if (first == nullptr) return ::operator new(size, std::nothrow);
    kept.first = first->next;
    ++kept.room;
    return first;
  }
  static void give(void* memory) noexcept {
    if (kept.room == 0) return free_or_begin(memory);
    kept.first = ::new (memory) Free{kept.first};
    --kept.room;
  }

 private:
  struct Free {
    Free* next;
  };
  /// A trivial object, which needs no check whether it is constructed.
  struct Kept {
    Free* first;
    unsigned room;
    bool begun;  ///< the end of the thread frees the blocks
  };
  struct EndOfThread {
    ~EndOfThread();
  };
  static void free_or_begin(void* memory) noexcept;

  [[gnu::tls_model("initial-exec")]] static constinit thread_local Kept kept;
};

/// One of ACE's results in such memory.
template <class Base>
class StreamResult final : public Base {
 public:
  template <class... Arguments>
  explicit StreamResult(Arguments&&... arguments) : Base(std::forward<Arguments>(arguments)...) {}

  using Base::complete;  // protected in ACE's own classes

  static void* operator new(std::size_t, const std::nothrow_t&) noexcept {
    static_assert(sizeof(StreamResult) <= ResultMemory::size);
    return ResultMemory::take();
  }
  static void operator delete(void* memory) noexcept { ResultMemory::give(memory); }
  static void operator delete(void* memory, const std::nothrow_t&) noexcept {
    ResultMemory::give(memory);
  }
};

/// The bytes that fit into a block, and the bytes in it; 0 if the program has moved a pointer past
/// the block's end or past the other pointer.
inline std::size_t room_of(const ACE_Message_Block& block) noexcept {
  return block.wr_ptr() < block.mark() ? block.space() : 0;
}
inline std::size_t length_of(const ACE_Message_Block& block) noexcept {
  return block.rd_ptr() < block.wr_ptr() ? block.length() : 0;
}

/// Null: the handler was deleted, or the result never had one.
ACE_Handler* handler_of(ACE_POSIX_Asynch_Result& result) noexcept;
inline bool handler_is_gone(ACE_POSIX_Asynch_Result& result) noexcept {
  return handler_of(result) == nullptr;
}

/// The result is of a class of the program's, which decides in complete() what to do.
bool is_of_the_program(const ACE_POSIX_Asynch_Result& result) noexcept;

/// False: ACE had no memory for the address of the sender, and completing the result would crash.
bool has_sender(ACE_POSIX_Asynch_Read_Dgram_Result& result) noexcept;

/// Stores where a datagram came from.
void set_sender(ACE_POSIX_Asynch_Read_Dgram_Result& result, const Endpoint& sender) noexcept;

/// False: the address is longer than any that Baton knows.
bool copy_address(const ACE_Addr& address, Endpoint& endpoint) noexcept;

}  // namespace baton::ace
