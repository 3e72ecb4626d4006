// Descriptors: the numbers that a program's operations name, and what Baton knows each one by.
//
// ACE's operations name a descriptor by its number; the program owns it, closes it when it likes
// and may get the same number for another file. So Baton borrows it: a number has one handle, made
// by its first start. The one tricky piece is a number that comes back for another file while
// operations of the earlier file are pending: the earlier handle is then let go, its operations
// complete with ECANCELED, and starts wait until the engine has forgotten the number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "baton/endpoint.hpp"
#include "baton/handle.hpp"
#include "baton/proactor.hpp"
#include "lock.hpp"
#include "native/open_file.hpp"

namespace baton::ace {

class Bridge;

/// The outcome of a start. For an accept, `bytes` is the new descriptor.
struct Outcome {
  std::size_t bytes = 0;
  int error = 0;  ///< an errno
};

/// The function that is told, in a thread in handle_events. It may throw what handlers throw.
struct Told {
  void (*function)(Bridge&, void* what, Outcome) = nullptr;
  void* what = nullptr;
};

enum class Action : std::uint8_t { read, write, accept, connect, receive, send };

/// One thing to start. Memory, list and endpoint live until the end is told.
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

  /// 0, or an errno: then nothing was started, and nothing is told.
  int start(const Start& start) noexcept;
  /// 0: asked; 1: nothing is pending; -1 and errno: no such descriptor, or no memory.
  int cancel(int fildes) noexcept;
  /// The program opens an operation for a number: it may name another file than before. 0, or an
  /// errno when that cannot be told.
  int opened(int fildes) noexcept;
  /// The system has just handed the number out.
  void handed_out(int fildes) noexcept;
  /// The program has no more use for a number.
  void let_go(int fildes) noexcept;
  /// Tells everything that still waits its end. REQUIRES: the bridge is closed, and Baton is gone.
  void end_waiting() noexcept;

 private:
  struct Waiting {
    Start start;
    bool cancelled = false;
  };
  /// An operation of Baton's. It is made by a descriptor's start that finds none at rest, and used
  /// by its later ones.
  struct Request;
  struct Descriptor {
    Lock mutex;
    Handle* handle = nullptr;
    native::OpenFile file;
    bool letting_go = false;                       // the earlier handle is being closed
    bool cancelling = false;                       // a cancel is on its way to the lane's thread
    std::atomic<std::uint32_t> pending{0};         // with Baton, and not told yet
    std::atomic<Request*> at_rest{nullptr};        // taken with the mutex, given back without
    std::unique_ptr<std::deque<Waiting>> waiting;  // only where some wait, or have waited
  };
  static constexpr std::size_t chunk_size = 256;
  static constexpr std::size_t chunks = 256;
  struct Chunk {
    Descriptor descriptors[chunk_size];
  };

  [[nodiscard]] Descriptor* find(int fildes) const noexcept;
  [[nodiscard]] Descriptor* add(int fildes) noexcept;
  // REQUIRES, from here on: the descriptor's mutex is held.
  int adopt(Descriptor& descriptor, const Start& start) noexcept;
  int start_now(Descriptor& descriptor, const Start& start) noexcept;
  int start_lazily(Descriptor& descriptor, const Start& start) noexcept;
  int adopt_anew(Descriptor& descriptor, const Start& start) noexcept;
  Request* take(Descriptor& descriptor) noexcept;
  Request* make(Descriptor& descriptor) noexcept;
  int wait_in_line(Descriptor& descriptor, const Start& start) noexcept;
  void let_go(Descriptor& descriptor) noexcept;
  static bool must_wait(const Descriptor& descriptor) noexcept;
  int ask_for_end(Descriptor& descriptor) noexcept;
  int cancel_in_lane(Descriptor& descriptor, std::uint32_t lane) noexcept;
  // REQUIRES: it is not held.
  bool begin_next(Descriptor& descriptor);
  void begin_all(Descriptor& descriptor);

  Bridge& bridge_;
  const bool lazy_;
  const bool per_thread_;
  std::mutex chunks_mutex_;  // adding one
  std::atomic<Chunk*> chunks_[chunks] = {};
  std::mutex requests_mutex_;  // adding one
  std::vector<std::unique_ptr<Request>> requests_;
};

}  // namespace baton::ace
