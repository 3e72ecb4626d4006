// The real system with every call counted by name, and with some calls failing on one descriptor
// for as long as a test wants: it measures the cost of a lasting state.
#pragma once

#include <linux/aio_abi.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "os/system.hpp"

namespace baton::test {

/// One call's number, and a fault of one call.
struct CountedCall {
  const char* name = "";
  std::atomic<std::uint64_t> count{0};
};
struct LastingFault {
  std::string_view name;
  int descriptor = -1;
  int error = 0;
};

/// Process-wide, as the table has no context.
class EveryCall {
 public:
  static constexpr std::size_t calls_max = 96;
  static constexpr int any_descriptor = -1;

  /// From now on this call fails so on this descriptor. REQUIRES: a call that reports failure by
  /// -1.
  static void fail(std::string_view name, int descriptor, int error) {
    LastingFault& fault = faults_.at(faults_count_);
    fault = {name, descriptor, error};
    faults_count_.fetch_add(1, std::memory_order_release);
  }
  /// No call fails any more.
  static void heal() { faults_count_.store(0, std::memory_order_release); }

  static void clear() {
    for (CountedCall& counted : counts_) counted.count.store(0, std::memory_order_relaxed);
  }
  [[nodiscard]] static std::uint64_t total() {
    std::uint64_t sum = 0;
    for (const CountedCall& counted : counts_) sum += counted.count.load(std::memory_order_relaxed);
    return sum;
  }
  [[nodiscard]] static std::uint64_t count_of(std::string_view name) {
    std::uint64_t sum = 0;
    for (const CountedCall& counted : counts_) {
      if (counted.name == name) sum += counted.count.load(std::memory_order_relaxed);
    }
    return sum;
  }
  /// "epoll_pwait 3, read 1".
  [[nodiscard]] static std::string to_string() {
    std::string text;
    for (const CountedCall& counted : counts_) {
      const std::uint64_t count = counted.count.load(std::memory_order_relaxed);
      if (count == 0) continue;
      text += (text.empty() ? "" : ", ") + std::string(counted.name) + " " + std::to_string(count);
    }
    return text;
  }

  /// Everything that enters the kernel. Not among them: the clock, which does not.
  static const os::System& system() {
    using os::System;
    static const System table = [] {
      System made = os::real_system();
      std::size_t next = 0;
      const auto count = [&]<auto... Members>(std::initializer_list<const char*> names) {
        const auto* name = names.begin();
        (add<Members>(made, next++, *name++), ...);
      };
#define BATON_CALLS(...) count.template operator()<__VA_ARGS__>
      BATON_CALLS(&System::futex_wait, &System::futex_wake, &System::yield, &System::kill_thread)
      ({"futex_wait", "futex_wake", "yield", "kill_thread"});
      BATON_CALLS(&System::read, &System::write, &System::readv, &System::writev, &System::preadv2,
                  &System::pwritev2, &System::fcntl, &System::fstat, &System::isatty,
                  &System::lseek)
      ({"read", "write", "readv", "writev", "preadv2", "pwritev2", "fcntl", "fstat", "isatty",
        "lseek"});
      BATON_CALLS(&System::open, &System::close, &System::fsync, &System::fdatasync)
      ({"open", "close", "fsync", "fdatasync"});
      BATON_CALLS(&System::socket, &System::accept4, &System::connect, &System::shutdown,
                  &System::recv, &System::send, &System::recvfrom, &System::sendto,
                  &System::recvmsg, &System::sendmsg, &System::getsockopt, &System::setsockopt)
      ({"socket", "accept4", "connect", "shutdown", "recv", "send", "recvfrom", "sendto", "recvmsg",
        "sendmsg", "getsockopt", "setsockopt"});
      BATON_CALLS(&System::pselect, &System::ppoll, &System::epoll_ctl, &System::epoll_pwait)
      ({"pselect", "ppoll", "epoll_ctl", "epoll_pwait"});
      BATON_CALLS(&System::io_uring_enter, &System::io_uring_register)
      ({"io_uring_enter", "io_uring_register"});
      BATON_CALLS(&System::io_submit, &System::io_getevents, &System::io_cancel)
      ({"io_submit", "io_getevents", "io_cancel"});
      BATON_CALLS(&System::aio_read, &System::aio_write, &System::aio_fsync, &System::aio_suspend)
      ({"aio_read", "aio_write", "aio_fsync", "aio_suspend"});
      BATON_CALLS(&System::thread_sigmask, &System::sigaction, &System::kill, &System::sigpending,
                  &System::sigtimedwait)
      ({"thread_sigmask", "sigaction", "kill", "sigpending", "sigtimedwait"});
#undef BATON_CALLS
      return made;
    }();
    return table;
  }

 private:
  /// Counts; an errno when it is to fail.
  static int enter(std::size_t index, int descriptor) {
    counts_[index].count.fetch_add(1, std::memory_order_relaxed);
    // acquire: pairs with fail().
    const std::size_t faults = faults_count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < faults; ++i) {
      const bool here =
          faults_[i].descriptor == any_descriptor || faults_[i].descriptor == descriptor;
      if (here && faults_[i].name == counts_[index].name) return faults_[i].error;
    }
    return 0;
  }

  template <auto Member, class Function>
  struct Hook;
  template <auto Member, class R, class... A>
  struct Hook<Member, R (*)(A...)> {
    static R call(A... arguments) {
      int descriptor = any_descriptor;
      if constexpr (sizeof...(A) > 0) {
        const auto first = std::get<0>(std::tie(arguments...));
        if constexpr (std::is_same_v<std::remove_const_t<decltype(first)>, int>) descriptor = first;
      }
      if constexpr (std::is_same_v<Hook, Hook<&os::System::io_submit, decltype(&call)>>) {
        // The first entry of a batch decides: an interrupt is submitted as well.
        descriptor = static_cast<int>(std::get<2>(std::tie(arguments...))[0]->aio_fildes);
      }
      const int error = enter(index<Member>(), descriptor);
      if constexpr (std::is_signed_v<R>) {
        if (error != 0) return errno = error, R{-1};
      }
      return (os::real_system().*Member)(arguments...);
    }
  };

  template <auto Member>
  static std::size_t& index() {
    static std::size_t at = 0;
    return at;
  }
  template <auto Member>
  static void add(os::System& system, std::size_t at, const char* name) {
    index<Member>() = at;
    counts_.at(at).name = name;
    using Function = std::remove_reference_t<decltype(system.*Member)>;
    system.*Member = &Hook<Member, Function>::call;
  }

  static inline std::array<CountedCall, calls_max> counts_;
  static inline std::array<LastingFault, 16> faults_;
  static inline std::atomic<std::size_t> faults_count_{0};
};

}  // namespace baton::test
