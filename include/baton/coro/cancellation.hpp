// Cancelling what coroutines wait for, from any thread:
//
//   CancellationSource source{proactor};
//   auto received = co_await peer.read(buffer).cancel_with(source.token());
//   ... elsewhere: source.cancel();          // the read completes as cancelled, unless done before
//
// std::stop_token works the same way. Cancel is a request: only the completion tells which won, and
// how many bytes were moved. It is sticky: an operation that is awaited with a cancelled token is
// not started, and completes at once with std::errc::operation_canceled. Closing is never
// cancelled.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "baton/export.hpp"
#include "baton/fwd.hpp"

namespace baton {

struct TaskContext;

namespace detail {

class CancellationState;

/// An operation or task that can be asked to end, or a state that is cancelled with the one that
/// this is linked into (a scope's). Linked into one state at most.
class CancellationNode {
 public:
  using Cancel = void (*)(CancellationNode&) noexcept;
  explicit CancellationNode(Cancel cancel) noexcept : cancel_(cancel) {}
  /// REQUIRES: the state is alive as long as this is linked.
  explicit CancellationNode(CancellationState& inner) noexcept : inner_(&inner) {}
  CancellationNode(const CancellationNode&) = delete;
  CancellationNode& operator=(const CancellationNode&) = delete;

 private:
  friend class CancellationState;
  Cancel cancel_ = nullptr;
  CancellationState* inner_ = nullptr;  // in place of the function
  CancellationNode* next_ = nullptr;
  CancellationNode* previous_ = nullptr;
  bool linked_ = false;
};

/// The state that a source and its tokens share: counted, allocated with the source.
///
/// cancel() calls each node with the lock held, and remove() takes the lock: so a node and what it
/// belongs to are alive during the call. The order of locks is this one, then the proactor's. An
/// inner state is cancelled afterwards, without this lock: scopes may depend on each other in a
/// ring, for a task may join the scope that it is in, or one that its own depends on.
class BATON_EXPORT CancellationState {
 public:
  static CancellationState* create(Proactor& proactor);
  void acquire() noexcept;
  void release() noexcept;

  /// False: already cancelled, and not linked.
  bool add(CancellationNode& node) noexcept;
  /// After return the node is not called. Does nothing if it is not linked.
  void remove(CancellationNode& node) noexcept;
  void cancel() noexcept;
  [[nodiscard]] bool cancelled() const noexcept {
    // acquire: a thread that sees the cancel also sees what was written before it.
    return cancelled_.load(std::memory_order_acquire);
  }
  /// It was made before this process was forked.
  [[nodiscard]] bool of_parent() const noexcept;
  CancellationState(const CancellationState&) = delete;
  CancellationState& operator=(const CancellationState&) = delete;

 private:
  explicit CancellationState(Proactor& proactor) noexcept;
  ~CancellationState() = default;
  /// True: it was not cancelled, and the caller calls the nodes.
  bool claim() noexcept;
  /// Calls the nodes and puts the inner states that it has claimed before `rest`; the new first.
  CancellationState* call_nodes(CancellationState* rest) noexcept;

  const os::System* system_;
  const std::uint32_t forks_;  // the process that made it
  std::atomic<std::uint32_t> references_{1};
  alignas(std::uint32_t) std::byte mutex_[4];  // os::Mutex; the header is private to the library
  // Set without the mutex, and before the nodes are called with it: a node linked under
  // the mutex while this was unset is found by that call.
  std::atomic<bool> cancelled_{false};
  CancellationNode* first_ = nullptr;          // guarded by the mutex
  CancellationState* next_claimed_ = nullptr;  // of the thread that has claimed it
};

/// Owns one count of a state.
class CancellationReference {
 public:
  CancellationReference() noexcept = default;
  /// Takes over one count.
  explicit CancellationReference(CancellationState* state) noexcept : state_(state) {}
  CancellationReference(const CancellationReference& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) state_->acquire();
  }
  CancellationReference(CancellationReference&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  CancellationReference& operator=(CancellationReference other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~CancellationReference() {
    if (state_ != nullptr) state_->release();
  }
  [[nodiscard]] CancellationState* get() const noexcept { return state_; }

 private:
  CancellationState* state_ = nullptr;
};

}  // namespace detail

/// Says whether its source was cancelled; given to the operations that must end then. A value; any
/// thread.
class CancellationToken {
 public:
  /// Never cancelled.
  CancellationToken() noexcept = default;

  /// Whether the source was cancelled. Any thread.
  [[nodiscard]] bool cancelled() const noexcept {
    return state_.get() != nullptr && state_.get()->cancelled();
  }
  /// For the library's own parts.
  [[nodiscard]] detail::CancellationState* state() const noexcept { return state_.get(); }

 private:
  friend class CancellationSource;
  friend struct TaskContext;
  explicit CancellationToken(detail::CancellationReference state) noexcept
      : state_(std::move(state)) {}
  detail::CancellationReference state_;
};

/// Cancels the operations started with its tokens. May be destroyed before them.
class CancellationSource {
 public:
  /// Throws std::bad_alloc. REQUIRES: the proactor outlives source and tokens.
  explicit CancellationSource(Proactor& proactor)
      : state_(detail::CancellationState::create(proactor)) {}

  // A source that was moved from cancels nothing: its tokens are never cancelled.
  /// A token of this source; as many as needed.
  [[nodiscard]] CancellationToken token() const noexcept { return CancellationToken{state_}; }
  /// Any thread, any number of times; not from a signal handler.
  void cancel() noexcept {
    if (state_.get() != nullptr) state_.get()->cancel();
  }
  /// Whether cancel() was called. Any thread.
  [[nodiscard]] bool cancelled() const noexcept {
    return state_.get() != nullptr && state_.get()->cancelled();
  }

 private:
  detail::CancellationReference state_;
};

}  // namespace baton
