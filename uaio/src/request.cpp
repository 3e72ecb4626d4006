// The free list of requests: chunks straight from the kernel, because malloc cannot be called where
// a signal handler has interrupted it.
#include "request.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <new>

namespace uaio {
namespace {

constexpr std::size_t chunk_bytes = 1U << 18;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Request* free_list = nullptr;
std::size_t made = 0;

// Of the newest chunk; made into a request when it is asked for, so that a short-lived process does
// not touch the pages of all.
std::byte* unmade = nullptr;
std::byte* unmade_end = nullptr;

bool grow() noexcept {
  void* const memory =
      ::mmap(nullptr, chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  unmade = static_cast<std::byte*>(memory);
  unmade_end = unmade + chunk_bytes / sizeof(Request) * sizeof(Request);
  return true;
}

Request* make() noexcept {
  if (unmade == unmade_end && !grow()) return nullptr;
  auto* const request = ::new (unmade) Request;
  unmade += sizeof(Request);
  ++made;
  return request;
}

}  // namespace

Request* take_request() noexcept {
  pthread_mutex_lock(&mutex);
  Request* request = free_list;
  if (request != nullptr) {
    free_list = request->next;
  } else {
    request = make();
  }
  pthread_mutex_unlock(&mutex);
  if (request == nullptr) return nullptr;
  request->next = nullptr;
  request->group = nullptr;
  request->descriptor = nullptr;
  request->moved_before = 0;
  request->waits_for = 0;
  request->started = false;
  request->tally = nullptr;
  return request;
}

void give_request(Request& request) noexcept {
  pthread_mutex_lock(&mutex);
  request.next = free_list;
  free_list = &request;
  pthread_mutex_unlock(&mutex);
}

Group* take_group() noexcept {
  Request* const holder = take_request();
  if (holder == nullptr) return nullptr;
  Group& group = holder->list;
  group.left.store(1, std::memory_order_relaxed);
  group.users.store(1, std::memory_order_relaxed);
  group.failed.store(false, std::memory_order_relaxed);
  group.note = Notification{};
  group.holder = holder;
  return &group;
}

bool reserve_requests(std::size_t count) noexcept {
  pthread_mutex_lock(&mutex);
  bool enough = true;
  while (made < count && enough) {
    Request* const request = make();
    enough = request != nullptr;
    if (!enough) break;
    request->next = free_list;
    free_list = request;
  }
  pthread_mutex_unlock(&mutex);
  return enough;
}

void lock_requests() noexcept { pthread_mutex_lock(&mutex); }
void unlock_requests() noexcept { pthread_mutex_unlock(&mutex); }

}  // namespace uaio
