// The free list of requests: a stack whose head carries a counter, so that a head that was taken
// and put back meanwhile is noticed (Treiber's stack). Chunks come directly from the kernel,
// because a signal handler that has interrupted malloc cannot call it.
#include "request.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace uaio {
namespace {

constexpr std::size_t chunk_bytes = 1U << 16;
constexpr std::size_t chunk_requests = chunk_bytes / sizeof(Request);
constexpr std::size_t chunks_max = 1U << 16;

std::atomic<Request*> chunks[chunks_max];
std::atomic<std::size_t> chunks_made{0};
std::atomic<std::uint64_t> free_head{0};  // counter in the upper half, index + 1 below it

void push(Request& request) noexcept {
  std::uint64_t head = free_head.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    request.free_next.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
    next = ((head >> 32) + 1) << 32 | (request.index + 1);
    // release: the next thread that takes it sees what its last user has written.
  } while (!free_head.compare_exchange_weak(head, next, std::memory_order_acq_rel));
}

Request* pop() noexcept {
  std::uint64_t head = free_head.load(std::memory_order_acquire);
  for (;;) {
    const auto place = static_cast<std::uint32_t>(head);
    if (place == 0) return nullptr;
    Request* const request = request_at(place - 1);
    const std::uint64_t next =
        ((head >> 32) + 1) << 32 | request->free_next.load(std::memory_order_relaxed);
    if (free_head.compare_exchange_weak(head, next, std::memory_order_acq_rel)) return request;
  }
}

/// Makes a chunk; false: no memory, or the table is full.
bool grow() noexcept {
  void* const memory =
      ::mmap(nullptr, chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  const std::size_t chunk = chunks_made.fetch_add(1, std::memory_order_relaxed);
  if (chunk >= chunks_max) {
    chunks_made.fetch_sub(1, std::memory_order_relaxed);
    ::munmap(memory, chunk_bytes);
    return false;
  }
  auto* const bytes = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < chunk_requests; ++i) {
    auto* const request = ::new (bytes + i * sizeof(Request)) Request;
    request->index = static_cast<std::uint32_t>(chunk * chunk_requests + i);
  }
  auto* const first = std::launder(reinterpret_cast<Request*>(bytes));
  chunks[chunk].store(first, std::memory_order_release);
  for (std::size_t i = 0; i < chunk_requests; ++i) push(first[i]);
  return true;
}

}  // namespace

std::size_t requests_made() noexcept {
  return std::min(chunks_made.load(std::memory_order_acquire), chunks_max) * chunk_requests;
}

Request* request_at(std::size_t index) noexcept {
  const std::size_t chunk = index / chunk_requests;
  Request* const first = chunks[chunk].load(std::memory_order_acquire);
  return first != nullptr ? first + index % chunk_requests : nullptr;
}

Request* take_request() noexcept {
  Request* request = pop();
  while (request == nullptr) {
    if (!grow()) return nullptr;
    request = pop();
  }
  request->next = nullptr;
  request->group = nullptr;
  request->descriptor = nullptr;
  request->native.store(native_none, std::memory_order_relaxed);
  request->moved_before = 0;
  request->handed_to.store(nullptr, std::memory_order_relaxed);
  request->after_direct = 0;
  request->started = false;
  request->held = false;
  request->awaited = false;
  request->tally = nullptr;
  request->handover.store(Handover::none, std::memory_order_relaxed);
  return request;
}

void give_request(Request& request) noexcept {
  request.stage.store(Stage::free, std::memory_order_relaxed);
  push(request);
}

Request* take_twin(const Request& request) noexcept {
  Request* const twin = take_request();
  if (twin == nullptr) return nullptr;
  twin->set_target(*request.block, request.fildes);
  twin->action = request.action;
  twin->data = request.data;
  twin->size = request.size;
  twin->bytes = request.bytes;
  twin->offset = request.offset;
  twin->priority = request.priority;
  twin->note = request.note;
  twin->group = request.group;
  return twin;
}

Group* take_group() noexcept {
  Request* const holder = take_request();
  if (holder == nullptr) return nullptr;
  Group& group = holder->list;
  group.left.store(1, std::memory_order_relaxed);
  group.users.store(1, std::memory_order_relaxed);
  group.failed.store(false, std::memory_order_relaxed);
  group.waited_for = false;
  group.note = Notification{};
  group.holder = holder;
  return &group;
}

bool reserve_requests(std::size_t count) noexcept {
  while (requests_made() < count) {
    if (!grow()) return false;
  }
  return true;
}

}  // namespace uaio
