// SignalSet: signals as completions, so that no code of the program runs in a signal handler.
//
//   SignalSet::block({SIGINT, SIGTERM});             // in main, before any thread is started
//   SignalSet signals = SignalSet::open(proactor, {SIGINT, SIGTERM}).value();
//   Result<int> number = co_await signals.wait();
//
// A signal must be blocked in every thread of the process, else the system may deliver it to one
// where it is not, with its default action. Threads inherit the mask of the thread that starts
// them, so call block() in main, before any other thread exists. Baton's own threads block all
// signals but SIGTTIN and SIGTTOU, which they inherit.
//
// A signal that is sent to one thread (raise, pthread_kill) may never arrive: only that thread
// could read it. Send it to the process, by kill(getpid(), number).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <system_error>
#include <utility>

#include "baton/export.hpp"
#include "baton/io_object.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"

namespace baton {

/// A signal that arrived. Plain memory that wait() fills.
class BATON_EXPORT SignalInfo {
 public:
  [[nodiscard]] int number() const noexcept;  ///< 0 before one arrived
  /// The process that sent it, 0 if the kernel did.
  [[nodiscard]] int sender_process() const noexcept;
  /// Where wait() stores the record.
  [[nodiscard]] MutableBuffer buffer() noexcept { return {bytes_, sizeof(bytes_)}; }

 private:
  alignas(8) std::byte bytes_[128]{};  // the system's record
};

class BATON_EXPORT SignalSet : public IoObject {
 public:
  SignalSet() noexcept = default;  ///< closed

  /// Blocks the signals in the calling thread; threads that it starts afterwards inherit that.
  static std::error_code block(std::span<const int> signals) noexcept;
  static std::error_code block(std::initializer_list<int> signals) noexcept {
    return block(std::span{signals.begin(), signals.size()});
  }

  /// Blocks them in the calling thread, too (and leaves them blocked, unless it fails). Errors:
  /// EINVAL for a number that is no signal, or SIGKILL and SIGSTOP; the system's;
  /// Proactor::adopt's.
  static Result<SignalSet> open(Proactor& proactor, std::span<const int> signals,
                                Home home = {}) noexcept;
  static Result<SignalSet> open(Proactor& proactor, std::initializer_list<int> signals,
                                Home home = {}) noexcept {
    return open(proactor, std::span{signals.begin(), signals.size()}, home);
  }

  /// Waits for one of the signals: Result<int>, its number. Signals that arrive meanwhile wait; the
  /// same one twice may count once, as with all signals.
  [[nodiscard]] auto wait() noexcept { return awaitable(OwnInfo{waiting(), {}}, Number{}); }
  /// The same, and stores its details; `info` must live until completion.
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code wait(SignalInfo& info, Handler&& handler) noexcept {
    return start_cached(waiting(info), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code wait(Operation& operation, SignalInfo& info,
                                     Handler handler = {}) noexcept {
    return start_owned(operation, waiting(info), handler);
  }

 private:
  friend class IoObject;
  using IoObject::IoObject;

  // The awaitable brings its record along.
  struct OwnInfo {
    detail::Request request;
    SignalInfo info;
    std::error_code fill(Operation& operation) noexcept {
      const std::error_code error = request.fill(operation);
      if (!error) operation.set_buffer(info.buffer());
      return error;
    }
    void undo(Operation&) const noexcept {}
  };
  struct Number {
    Result<int> operator()(const Operation& operation) const noexcept {
      if (operation.failed()) return unexpected{operation.error()};
      return static_cast<const SignalInfo*>(operation.buffer().data)->number();
    }
  };
  [[nodiscard]] detail::Request waiting() const noexcept {
    return request(OperationKind::read_stream, Operation::exactly);
  }
  [[nodiscard]] detail::Request waiting(SignalInfo& info) const noexcept {
    return request(OperationKind::read_stream, Operation::exactly, info.buffer());
  }
};

}  // namespace baton
