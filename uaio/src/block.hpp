// Block: what the library keeps in a program's aiocb, in the members that the system's header
// reserves for it (struct aiocb64 has the same layout). Error and result lie where the system's own
// library has them. The mark distinguishes a request from memory that was never passed to the
// library.
//
// A thread that completes a request writes the result, then the error with release, and does not
// touch the aiocb again: from then on it belongs to the program.
//
// std::atomic_ref would end a program whose aiocb is not aligned, for example in a packed struct.
// The system's library accepts such an aiocb.
#pragma once

#include <aio.h>
#include <errno.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "thread.hpp"

namespace uaio {

static_assert(sizeof(off_t) == 8, "struct aiocb and aiocb64 are the same only where offsets are");
static_assert(sizeof(aiocb) == sizeof(aiocb64));
static_assert(offsetof(aiocb, aio_offset) == offsetof(aiocb64, aio_offset));

class Block {
 public:
  explicit Block(const aiocb& block) noexcept : block_(const_cast<aiocb&>(block)) {}

  enum class Mark : std::uint32_t { none, submitted, fetched };

  [[nodiscard]] Mark mark() const noexcept {
    const auto word =
        static_cast<std::uint32_t>(__atomic_load_n(&block_.__policy, __ATOMIC_RELAXED));
    if (word == key(1)) return Mark::submitted;
    return word == key(2) ? Mark::fetched : Mark::none;
  }
  /// acquire: with a value other than EINPROGRESS the result and the buffer are visible.
  [[nodiscard]] int error() const noexcept {
    return __atomic_load_n(&block_.__error_code, __ATOMIC_ACQUIRE);
  }
  [[nodiscard]] ssize_t result() const noexcept {
    return __atomic_load_n(&block_.__return_value, __ATOMIC_RELAXED);
  }
  /// False: another process, with which this one shares the memory, has started it.
  [[nodiscard]] bool is_own() const noexcept {
    return __atomic_load_n(&block_.__abs_prio, __ATOMIC_RELAXED) == own_process();
  }
  void set_pending() noexcept {
    set_mark();
    __atomic_store_n(&block_.__return_value, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&block_.__error_code, EINPROGRESS, __ATOMIC_RELAXED);
  }
  void publish(int error, ssize_t result) noexcept {
    __atomic_store_n(&block_.__return_value, result, __ATOMIC_RELAXED);
    __atomic_store_n(&block_.__error_code, error, __ATOMIC_RELEASE);
  }
  /// Finished before any thread could ask: a start and a completion in one.
  void publish_at_once(int error, ssize_t result) noexcept {
    set_mark();
    publish(error, result);
  }
  void store(int error, ssize_t result, bool at_once) noexcept {
    if (at_once) return publish_at_once(error, result);
    publish(error, result);
  }
  /// The result is taken; false if it was before.
  bool fetch() noexcept {
    int expected = static_cast<int>(key(1));
    return __atomic_compare_exchange_n(&block_.__policy, &expected, static_cast<int>(key(2)), false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
  /// For a forked child: it may be the remains of an aiocb in a frame that has been left, which a
  /// sanitizer does not allow to be read. The memory exists, and the mark decides.
  [[nodiscard, gnu::no_sanitize_address]] bool waits_if_alive() const noexcept {
    return block_.__error_code == EINPROGRESS &&
           static_cast<std::uint32_t>(block_.__policy) == key(1);
  }
  /// The list of what is complete and not yet fetched (uaio_waitcomplete).
  struct Links {
    aiocb* next;
    aiocb* previous;
  };
  [[nodiscard]] Links& links() const noexcept {
    static_assert(sizeof(Links) <= sizeof(block_.__glibc_reserved));
    return *reinterpret_cast<Links*>(block_.__glibc_reserved);
  }

 private:
  // Depends on the address, so the mark of a copy, or in a frame that is gone, is invalid.
  [[nodiscard]] std::uint32_t key(std::uint32_t step) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(&block_);
    return (0x7561'696fU ^ static_cast<std::uint32_t>(address >> 3)) + step;
  }
  void set_mark() noexcept {
    __atomic_store_n(&block_.__policy, static_cast<int>(key(1)), __ATOMIC_RELAXED);
    __atomic_store_n(&block_.__abs_prio, own_process(), __ATOMIC_RELAXED);
  }

  aiocb& block_;
};

}  // namespace uaio
