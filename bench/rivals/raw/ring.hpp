// A ring of io_uring, mapped by hand through its system calls, for the raw loops. Needs Linux
// 6.1 and its header.
#pragma once

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "rivals/rival.hpp"

namespace rival {

// A release store hands entries to the kernel, an acquire load takes them over.
inline unsigned load_acquire(unsigned* p) {
  return std::atomic_ref(*p).load(std::memory_order_acquire);
}
inline void store_release(unsigned* p, unsigned value) {
  std::atomic_ref(*p).store(value, std::memory_order_release);
}

class Ring {
 public:
  Ring(unsigned entries, unsigned completions) {
    io_uring_params params{};
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
    params.cq_entries = completions;
    descriptor_ = static_cast<int>(::syscall(__NR_io_uring_setup, entries, &params));
    if (descriptor_ < 0) die("io_uring_setup (needs Linux 6.1 and sysctl io_uring_disabled=0)");
    // Since Linux 5.4 both rings are one mapping.
    const std::size_t size =
        std::max(params.sq_off.array + params.sq_entries * sizeof(unsigned),
                 params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe));
    char* const rings = map(size, IORING_OFF_SQ_RING);
    requests_ = reinterpret_cast<io_uring_sqe*>(
        map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    const auto word = [&](unsigned offset) { return reinterpret_cast<unsigned*>(rings + offset); };
    sq_head_ = word(params.sq_off.head);
    sq_tail_ = word(params.sq_off.tail);
    sq_mask_ = *word(params.sq_off.ring_mask);
    sq_entries_ = params.sq_entries;
    // The i-th place of the queue always names the i-th request.
    for (unsigned i = 0; i < sq_entries_; ++i) word(params.sq_off.array)[i] = i;
    cq_head_ = word(params.cq_off.head);
    cq_tail_ = word(params.cq_off.tail);
    cq_mask_ = *word(params.cq_off.ring_mask);
    completions_ = reinterpret_cast<io_uring_cqe*>(rings + params.cq_off.cqes);
  }

  io_uring_sqe& next(std::uint8_t opcode, int fd, std::uint64_t tag) {
    if (tail_ - load_acquire(sq_head_) == sq_entries_) enter(0);
    io_uring_sqe& request = requests_[tail_++ & sq_mask_] = io_uring_sqe{};
    request.opcode = opcode;
    request.fd = fd;
    request.user_data = tag;
    return request;
  }

  // Submits the filled entries and, if `wanted` is not 0, waits for that many completions.
  void enter(unsigned wanted) {
    store_release(sq_tail_, tail_);
    const unsigned count = tail_ - load_acquire(sq_head_);
    const unsigned flags = wanted > 0 ? IORING_ENTER_GETEVENTS : 0;
    if (::syscall(__NR_io_uring_enter, descriptor_, count, wanted, flags, nullptr, 0) < 0 &&
        errno != EINTR && errno != EBUSY) {
      die("io_uring_enter");
    }
  }

  template <typename Handler>
  void reap(Handler&& handle) {
    unsigned head = *cq_head_;
    for (const unsigned tail = load_acquire(cq_tail_); head != tail; ++head) {
      handle(completions_[head & cq_mask_]);
    }
    store_release(cq_head_, head);
  }

 private:
  char* map(std::size_t size, unsigned long offset) const {
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                            descriptor_, static_cast<off_t>(offset));
    if (at == MAP_FAILED) die("mmap");
    return static_cast<char*>(at);
  }

  int descriptor_ = -1;
  unsigned tail_ = 0;  // ours; the kernel sees it at enter
  unsigned *sq_head_, *sq_tail_, *cq_head_, *cq_tail_;
  unsigned sq_mask_, sq_entries_, cq_mask_;
  io_uring_sqe* requests_;
  io_uring_cqe* completions_;
};

}  // namespace rival
