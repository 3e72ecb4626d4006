// The library's lock-free parts are templates over the atomic type. Here it is relacy's atomic, in
// which a load may return every value that the memory model allows. Tests that must fail use one
// with weaker orders than the source's.
#pragma once

// Relacy redefines names of the standard library as macros, so headers that use those names come
// first.
#include <atomic>
#include <cstdint>
#include <iostream>
#include <streambuf>

#include "core/mailbox.hpp"
#include "core/sleep_word.hpp"
#include "os/parking.hpp"
// Last.
#include <relacy/relacy.hpp>
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#undef new
#undef delete
#undef assert
#undef errno

namespace baton::model {

/// The order that is used for an order of the source.
using Translation = rl::memory_order (*)(std::memory_order);

inline rl::memory_order as_written(std::memory_order order) {
  switch (order) {
    case std::memory_order::relaxed:
      return rl::mo_relaxed;
    case std::memory_order::consume:
      return rl::mo_consume;
    case std::memory_order::acquire:
      return rl::mo_acquire;
    case std::memory_order::release:
      return rl::mo_release;
    case std::memory_order::acq_rel:
      return rl::mo_acq_rel;
    case std::memory_order::seq_cst:
      break;
  }
  return rl::mo_seq_cst;
}
inline rl::memory_order all_relaxed(std::memory_order) { return rl::mo_relaxed; }

/// std::atomic as far as the parts use it, over relacy's.
template <class T, Translation translate>
class Atomic {
 public:
  Atomic(T value) : atomic_(value) {}  // NOLINT: as std::atomic's

  T load(std::memory_order order) const { return atomic_.load(of_load(order), RL_INFO); }
  void store(T value, std::memory_order order) { atomic_.store(value, of_store(order), RL_INFO); }
  T exchange(T value, std::memory_order order) {
    return atomic_.exchange(value, translate(order), RL_INFO);
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order success,
                             std::memory_order failure) {
    return atomic_.compare_exchange(rl::bool_t<true>(), expected, value, translate(success),
                                    translate(failure), RL_INFO);
  }
  [[nodiscard]] rl::atomic<T>& raw() { return atomic_; }

 private:
  // For a load or a store, acq_rel means its acquire or release half.
  static rl::memory_order of_load(std::memory_order order) {
    const rl::memory_order its = translate(order);
    return its == rl::mo_acq_rel ? rl::mo_acquire : its;
  }
  static rl::memory_order of_store(std::memory_order order) {
    const rl::memory_order its = translate(order);
    return its == rl::mo_acq_rel ? rl::mo_release : its;
  }
  rl::atomic<T> atomic_;
};

/// Dekker's handshake without its sequential consistency.
inline rl::memory_order no_seq_cst(std::memory_order order) {
  return order == std::memory_order::seq_cst ? rl::mo_acq_rel : as_written(order);
}

template <class T>
using AsWritten = Atomic<T, as_written>;
template <class T>
using AllRelaxed = Atomic<T, all_relaxed>;
template <class T>
using NoSeqCst = Atomic<T, no_seq_cst>;

/// The kernel's futex: the comparison and the sleep are one step. Wake-ups may be spurious.
struct Futex {
  template <Translation translate>
  bool futex_wait(Atomic<std::uint32_t, translate>* word, std::uint32_t expected,
                  std::int64_t) const {
    rl::context& c = rl::ctx();
    c.sched();
    c.atomic_thread_fence_seq_cst();
    {
      const rl::preemption_disabler one_step{c};
      if (word->raw().load(rl::mo_acquire, RL_INFO) != expected) return true;
    }
    word->raw().wait(c, false, true, RL_INFO);
    return true;
  }
  template <Translation translate>
  void futex_wake(Atomic<std::uint32_t, translate>* word, std::uint32_t count) const {
    rl::context& c = rl::ctx();
    c.sched();
    c.atomic_thread_fence_seq_cst();
    word->raw().wake(c, count, RL_INFO);
  }
};

}  // namespace baton::model
