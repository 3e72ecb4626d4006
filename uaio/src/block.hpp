// Block: what the library keeps in a program's aiocb, in the members that the system's header
// reserves for it (struct aiocb64 has the same layout). Error and result lie where the system's own
// library has them. The mark tells a request of ours from memory that was never given to us.
//
// A thread that completes a request writes the result, then the error with release, and does not
// look at the aiocb again: from then on it belongs to the program.
#pragma once

#include <aio.h>
#include <errno.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uaio {

static_assert(sizeof(off_t) == 8, "struct aiocb and aiocb64 are the same only where offsets are");
static_assert(sizeof(aiocb) == sizeof(aiocb64));
static_assert(offsetof(aiocb, aio_offset) == offsetof(aiocb64, aio_offset));

class Block {
 public:
  explicit Block(const aiocb& block) noexcept : block_(const_cast<aiocb&>(block)) {}

  enum class Mark : std::uint32_t { none, submitted, fetched };

  [[nodiscard]] Mark mark() const noexcept {
    const auto word = static_cast<std::uint32_t>(mark_word().load(std::memory_order_relaxed));
    if (word == key(1)) return Mark::submitted;
    return word == key(2) ? Mark::fetched : Mark::none;
  }
  /// acquire: with an answer other than EINPROGRESS the result and the buffer are visible.
  [[nodiscard]] int error() const noexcept {
    return std::atomic_ref{block_.__error_code}.load(std::memory_order_acquire);
  }
  [[nodiscard]] ssize_t result() const noexcept {
    return std::atomic_ref{block_.__return_value}.load(std::memory_order_relaxed);
  }
  void set_pending() noexcept {
    mark_word().store(static_cast<int>(key(1)), std::memory_order_relaxed);
    std::atomic_ref{block_.__return_value}.store(0, std::memory_order_relaxed);
    std::atomic_ref{block_.__error_code}.store(EINPROGRESS, std::memory_order_relaxed);
  }
  void publish(int error, ssize_t result) noexcept {
    std::atomic_ref{block_.__return_value}.store(result, std::memory_order_relaxed);
    std::atomic_ref{block_.__error_code}.store(error, std::memory_order_release);
  }
  /// Finished before anybody could ask: a start and a completion in one.
  void publish_at_once(int error, ssize_t result) noexcept {
    mark_word().store(static_cast<int>(key(1)), std::memory_order_relaxed);
    publish(error, result);
  }
  void store(int error, ssize_t result, bool at_once) noexcept {
    if (at_once) return publish_at_once(error, result);
    publish(error, result);
  }
  /// The result is taken; false if it was before.
  bool fetch() noexcept {
    int expected = static_cast<int>(key(1));
    return mark_word().compare_exchange_strong(expected, static_cast<int>(key(2)),
                                               std::memory_order_relaxed);
  }
  /// For a forked child: it may be the rest of an aiocb in a frame that has been left, so that a
  /// sanitizer would not have it read. The memory is there, and the mark tells.
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
  // Depends on the address: the mark of a copy, or of a frame that is gone, is none.
  [[nodiscard]] std::uint32_t key(std::uint32_t step) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(&block_);
    return (0x7561'696fU ^ static_cast<std::uint32_t>(address >> 3)) + step;
  }
  [[nodiscard]] std::atomic_ref<int> mark_word() const noexcept {
    return std::atomic_ref{block_.__policy};
  }

  aiocb& block_;
};

}  // namespace uaio
