// Cancelling what coroutines wait for, from any thread:
//
//   CancellationSource source{proactor};
//   auto received = co_await peer.read(buffer).cancel_with(source.token());
//   ... elsewhere: source.cancel();          // the read completes as cancelled, unless it won
//
// std::stop_token works the same way. Cancel is a request: only the completion tells which won, and
// how many bytes were moved. It is sticky: what is awaited with a cancelled token completes at once
// with std::errc::operation_canceled, without having been started. Closing is never cancelled.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "baton/export.hpp"
#include "baton/fwd.hpp"

namespace baton {
namespace detail {

/// Somebody who can be asked to end. Linked into one state at most.
class CancellationNode {
 public:
  using Cancel = void (*)(CancellationNode&) noexcept;
  explicit CancellationNode(Cancel cancel) noexcept : cancel_(cancel) {}
  CancellationNode(const CancellationNode&) = delete;
  CancellationNode& operator=(const CancellationNode&) = delete;

 private:
  friend class CancellationState;
  Cancel cancel_;
  CancellationNode* next_ = nullptr;
  CancellationNode* previous_ = nullptr;
  bool linked_ = false;
};

/// What a source and its tokens share: counted, allocated with the source.
///
/// cancel() calls each node with the lock held, and remove() takes the lock: so a node and what it
/// belongs to are alive during the call. The order of locks is this one, then that of a nested
/// scope, then the proactor's; none of those is held when a handler runs, so the order cannot turn
/// round.
class BATON_EXPORT CancellationState {
 public:
  static CancellationState* create(Proactor& proactor);
  void acquire() noexcept;
  void release() noexcept;

  /// False: already cancelled, and not linked.
  bool add(CancellationNode& node) noexcept;
  /// After return nobody calls the node. Does nothing if it is not linked.
  void remove(CancellationNode& node) noexcept;
  void cancel() noexcept;
  [[nodiscard]] bool cancelled() const noexcept {
    // acquire: what was written before the cancel is visible to those who see it.
    return cancelled_.load(std::memory_order_acquire);
  }
  CancellationState(const CancellationState&) = delete;
  CancellationState& operator=(const CancellationState&) = delete;

 private:
  explicit CancellationState(Proactor& proactor) noexcept;
  ~CancellationState() = default;

  const os::System* system_;
  std::atomic<std::uint32_t> references_{1};
  alignas(std::uint32_t) std::byte mutex_[4];  // os::Mutex; the header is private to the library
  // Guarded by the mutex; `cancelled_` may be read without.
  std::atomic<bool> cancelled_{false};
  CancellationNode* first_ = nullptr;
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

/// Says whether its source was cancelled; goes with what shall end then. A value; any thread.
class CancellationToken {
 public:
  /// Never cancelled.
  CancellationToken() noexcept = default;

  [[nodiscard]] bool cancelled() const noexcept {
    return state_.get() != nullptr && state_.get()->cancelled();
  }
  [[nodiscard]] detail::CancellationState* state() const noexcept { return state_.get(); }

 private:
  friend class CancellationSource;
  explicit CancellationToken(detail::CancellationReference state) noexcept
      : state_(std::move(state)) {}
  detail::CancellationReference state_;
};

/// Cancels what was started with its tokens. May be destroyed before them.
class CancellationSource {
 public:
  /// Throws std::bad_alloc. REQUIRES: the proactor outlives source and tokens.
  explicit CancellationSource(Proactor& proactor)
      : state_(detail::CancellationState::create(proactor)) {}

  [[nodiscard]] CancellationToken token() const noexcept { return CancellationToken{state_}; }
  /// Any thread, any number of times; not from a signal handler.
  void cancel() noexcept { state_.get()->cancel(); }
  [[nodiscard]] bool cancelled() const noexcept { return state_.get()->cancelled(); }

 private:
  detail::CancellationReference state_;
};

}  // namespace baton
