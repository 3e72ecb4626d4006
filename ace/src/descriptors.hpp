// Descriptors: the descriptor numbers in a program's operations, and Baton's handle for each.
//
// ACE's operations name a descriptor by its number. The program owns the descriptor, closes it at
// any time, and may get the same number for another file. So Baton borrows it: each number has one
// handle, made at its first start. The one tricky piece is a number that is reused for another file
// while operations of the earlier file are pending. The bridge then closes the earlier handle in
// Baton, its operations complete with ECANCELED, and starts wait until the engine has detached it.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <vector>

#include "baton/endpoint.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "lock.hpp"
#include "native/open_file.hpp"
#include "shared_inodes.hpp"

namespace baton::ace {

class Bridge;

/// The errno that stands for an error of Baton's or of the system's; 0 for none.
int errno_of(std::error_code error) noexcept;

/// The outcome of a start. For an accept, `bytes` is the new descriptor.
struct Outcome {
  std::size_t bytes = 0;
  int error = 0;  ///< an errno
};

/// The function that gets the outcome, in a thread in handle_events. It may throw what handlers
/// throw.
struct Told {
  void (*function)(Bridge&, void* what, Outcome) = nullptr;
  CompletionFunction completion = nullptr;  ///< for an operation whose context is `what`
  void* what = nullptr;
};
template <void (*function)(Bridge&, void*, Outcome)>
Told tell(void* what) noexcept;

enum class Action : std::uint8_t { read, write, accept, connect, receive, send };

/// One operation to start. Memory, list and endpoint must live until its outcome was delivered.
struct Start {
  int fildes = -1;
  Action action = Action::read;
  bool list = false;  ///< `data` is an array of `size` buffers
  void* data = nullptr;
  std::size_t size = 0;
  std::uint64_t offset = 0;
  Endpoint* endpoint = nullptr;
  Told told;
};

class Descriptors {
 public:
  Descriptors(Bridge& bridge, bool lazy) noexcept;
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  /// 0, or an errno: then nothing was started, and no outcome will come.
  int start(const Start& start) noexcept;
  /// The same for one buffer of a read or a write, whose end `function` is told.
  template <void (*function)(Bridge&, void*, Outcome)>
  int start_stream(void* what, Action action, int fildes, void* data, std::size_t size) noexcept;
  /// 0: requested; 1: nothing is pending; -1 and errno: no such descriptor.
  int cancel(int fildes) noexcept;
  /// The program opens an operation for a number, which may name another file than before. 0, or an
  /// errno if the file cannot be examined.
  int opened(int fildes) noexcept;
  /// Something is pending for a number. Takes no lock, so the child of a fork may ask.
  [[nodiscard]] bool is_busy(int fildes) const noexcept {
    const Descriptor* const descriptor = find(fildes);
    return descriptor != nullptr && descriptor->pending.load(std::memory_order_relaxed) != 0;
  }
  /// The number no longer names its earlier file: the program closes it, or the system has just
  /// handed it out again.
  void let_go(int fildes) noexcept;
  /// Ends all starts that still wait. REQUIRES: the bridge is closed, and Baton is gone.
  void end_waiting() noexcept;

 private:
  struct Waiting {
    Start start;
    bool cancelled = false;
  };
  template <void (*function)(Bridge&, void*, Outcome)>
  friend Told tell(void* what) noexcept;

  struct Request;
  struct Descriptor {
    Lock mutex;
    bool plain = false;  // a stream socket of which a start need not look at anything below
    Handle* handle = nullptr;
    native::OpenFile file;                   // of the handle, or of the starts that wait for one
    bool letting_go = false;                 // the earlier handle is being closed
    int mode = 0;                            // access mode and O_NONBLOCK, where these matter
    std::atomic<std::uint32_t> pending{0};   // started, and not delivered yet
    std::atomic<Request*> at_rest{nullptr};  // idle; the mutex is only for taking
    std::unique_ptr<std::deque<Waiting>> waiting;  // only where some wait, or have waited
  };
  /// An operation of Baton. A start that finds no idle one of its descriptor makes one, and later
  /// starts reuse it.
  struct Request : Operation {
    Request(Bridge& for_bridge, Descriptor& for_descriptor) noexcept
        : bridge(for_bridge), descriptor(for_descriptor) {}

    template <void (*function)(Bridge&, void*, Outcome)>
    static void completed(Operation& operation);
    [[nodiscard]] Outcome failure() const noexcept;
    void give_back() noexcept;

    Bridge& bridge;
    Descriptor& descriptor;
    Request* next = nullptr;
  };
  static constexpr std::size_t chunk_size = 256;
  static constexpr std::size_t chunks = 256;
  struct Chunk {
    Descriptor descriptors[chunk_size];
  };

  template <void (*function)(Bridge&, void*, Outcome)>
  int start_generally(void* what, Action action, int fildes, void* data, std::size_t size) noexcept;
  [[nodiscard]] Descriptor* find(int fildes) const noexcept;
  [[nodiscard]] Descriptor* add(int fildes) noexcept;
  // REQUIRES for these: the descriptor's mutex is held.
  int set_file(Descriptor& descriptor, int fildes, const native::OpenFile& file) noexcept;
  bool is_same(const Descriptor& descriptor, int fildes, const native::OpenFile& now) noexcept;
  int adopt(Descriptor& descriptor, const Start& start) noexcept;
  int start_now(Descriptor& descriptor, const Start& start) noexcept;
  int start_as(OperationKind kind, Descriptor& descriptor, const Start& start) noexcept;
  int start_lazily(Descriptor& descriptor, const Start& start) noexcept;
  int adopt_anew(Descriptor& descriptor, const Start& start) noexcept;
  Request* take(Descriptor& descriptor) noexcept;
  Request* make(Descriptor& descriptor) noexcept;
  int wait_in_line(Descriptor& descriptor, const Start& start) noexcept;
  int let_go_of_earlier(Descriptor& descriptor, int fildes) noexcept;
  void let_go(Descriptor& descriptor) noexcept;
  void close_handle(Descriptor& descriptor) noexcept;
  static bool must_wait(const Descriptor& descriptor) noexcept;
  int ask_for_end(Descriptor& descriptor) noexcept;
  // REQUIRES for these: it is not held.
  bool begin_next(Descriptor& descriptor);
  void begin_all(Descriptor& descriptor);

  Bridge& bridge_;
  baton::Proactor& native_;
  const bool lazy_;
  const bool per_thread_;
  SharedInodes shared_inodes_;
  std::mutex chunks_mutex_;  // adding one
  std::atomic<Chunk*> chunks_[chunks] = {};
  std::mutex requests_mutex_;  // adding one
  std::vector<std::unique_ptr<Request>> requests_;
};

// -- what each message of a stream runs through ---------------------------------------------------

template <void (*function)(Bridge&, void*, Outcome)>
void Descriptors::Request::completed(Operation& operation) {
  auto& request = static_cast<Request&>(operation);
  Outcome outcome{request.bytes(), 0};
  if (request.failed()) [[unlikely]]
    outcome = request.failure();
  Bridge& bridge = request.bridge;
  void* const what = request.context();
  request.descriptor.pending.fetch_sub(1, std::memory_order_relaxed);
  request.give_back();  // the next start may use it, even one that the function makes
  function(bridge, what, outcome);
}

template <void (*function)(Bridge&, void*, Outcome)>
Told tell(void* what) noexcept {
  return {function, &Descriptors::Request::completed<function>, what};
}

inline void Descriptors::Request::give_back() noexcept {
  std::atomic<Request*>& at_rest = descriptor.at_rest;
  Request* first = at_rest.load(std::memory_order_relaxed);
  do {
    next = first;
    // release: the thread that takes it sees all writes to it.
  } while (!at_rest.compare_exchange_weak(first, this, std::memory_order_release,
                                          std::memory_order_relaxed));
}

/// Null: no memory. No other thread takes one meanwhile, so if the exchange succeeds, `first->next`
/// was still right.
inline Descriptors::Request* Descriptors::take(Descriptor& descriptor) noexcept {
  Request* first = descriptor.at_rest.load(std::memory_order_acquire);
  while (first != nullptr &&
         !descriptor.at_rest.compare_exchange_weak(first, first->next, std::memory_order_acquire)) {
  }
  return first != nullptr ? first : make(descriptor);
}

inline Descriptors::Descriptor* Descriptors::find(int fildes) const noexcept {
  const auto number = static_cast<std::size_t>(fildes);
  if (fildes < 0 || number >= chunks * chunk_size) return nullptr;
  // acquire: pairs with the release in add, so that the descriptors are constructed.
  Chunk* const chunk = chunks_[number / chunk_size].load(std::memory_order_acquire);
  return chunk != nullptr ? &chunk->descriptors[number % chunk_size] : nullptr;
}

[[gnu::always_inline]] inline int Descriptors::start_as(OperationKind kind, Descriptor& descriptor,
                                                        const Start& start) noexcept {
  Request* const request = take(descriptor);
  if (request == nullptr) return ENOMEM;
  // A write is complete when everything is written, as with the blocking write of ACE's own
  // implementation.
  const bool whole = kind == OperationKind::write_stream || kind == OperationKind::write_file;
  request->prepare(kind, descriptor.handle,
                   static_cast<std::uint16_t>(whole ? Operation::exactly : 0));
  if (start.list) {
    request->set_buffers(MutableBuffers{static_cast<const MutableBuffer*>(start.data), start.size});
  } else {
    request->set_buffer(MutableBuffer{start.data, start.size});
  }
  if (start.endpoint != nullptr) request->set_endpoint(start.endpoint);
  if (kind == OperationKind::read_file || kind == OperationKind::write_file) {
    request->set_offset(start.offset);
  }
  request->set_completion(start.told.completion, start.told.what);
  descriptor.pending.fetch_add(1, std::memory_order_relaxed);
  const std::error_code error = native_.start(*request);
  if (!error) return 0;
  descriptor.pending.fetch_sub(1, std::memory_order_relaxed);
  request->give_back();
  return errno_of(error);
}

template <void (*function)(Bridge&, void*, Outcome)>
[[gnu::always_inline]] inline int Descriptors::start_stream(void* what, Action action, int fildes,
                                                            void* data, std::size_t size) noexcept {
  Descriptor* const descriptor = find(fildes);
  if (descriptor != nullptr) {
    const std::lock_guard guard{descriptor->mutex};
    if (descriptor->plain) {
      const bool reads = action == Action::read;
      return start_as(reads ? OperationKind::read_stream : OperationKind::write_stream, *descriptor,
                      {.data = data, .size = size, .told = tell<function>(what)});
    }
  }
  return start_generally<function>(what, action, fildes, data, size);
}

/// A function of its own, so that start_stream has no Start in memory.
template <void (*function)(Bridge&, void*, Outcome)>
[[gnu::noinline]] int Descriptors::start_generally(void* what, Action action, int fildes,
                                                   void* data, std::size_t size) noexcept {
  return start({.fildes = fildes,
                .action = action,
                .data = data,
                .size = size,
                .told = tell<function>(what)});
}

}  // namespace baton::ace
