// Bridge: the part of baton::ace::Proactor that outlives it. ACE's operation objects hold it as
// well, because a program may delete them after their proactor.
#pragma once

#include <ace/POSIX_Proactor.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>

#include "baton/ace/attachment.hpp"
#include "baton/ace/proactor.hpp"
#include "baton/attachment.hpp"
#include "baton/deadline.hpp"
#include "baton/proactor.hpp"
#include "descriptors.hpp"
#include "posted.hpp"
#include "results.hpp"
#include "transmissions.hpp"

namespace baton::ace {

class Bridge {
 public:
  /// `wake_ups`: the handler of the results that wake threads in handle_events.
  Bridge(Config config, const Options& options, const ACE_Handler& wake_ups);
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  /// While an entry exists, so does the proactor underneath. Converts to false when the bridge is
  /// closed already, and then errno is ESHUTDOWN.
  class Entry {
   public:
    explicit Entry(Bridge& bridge, std::uint32_t weight = 1) noexcept
        : bridge_(bridge), weight_(weight) {
      // seq_cst, both here and in close(): either the closing thread sees the entry and waits, or
      // this thread sees that the bridge is closed.
      bridge_.entries_.fetch_add(weight_);
      open_ = !bridge_.closed_.load();
      if (!open_) errno = ESHUTDOWN;
    }
    // The last access to the bridge: a thread that waits in close() may delete it right after.
    ~Entry() { bridge_.entries_.fetch_sub(weight_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    explicit operator bool() const noexcept { return open_; }

   private:
    Bridge& bridge_;
    const std::uint32_t weight_;
    bool open_;
  };

  /// As ACE_Proactor_Impl::handle_events.
  int handle_events(Deadline deadline);
  int close() noexcept;
  /// A thread is in handle_events. seq_cst: see Posted::got.
  [[nodiscard]] bool has_callers() const noexcept { return entries_.load() >= call_weight; }
  [[nodiscard]] bool is_closed() const noexcept { return closed_.load(std::memory_order_acquire); }

  /// 0 or an errno.
  int start(const Start& start) noexcept {
    const Entry entry{*this};
    return entry ? descriptors_.start(start) : ESHUTDOWN;
  }
  /// Starts the transfer that a result describes. 0 or an errno.
  int transfer(ACE_POSIX_Asynch_Result& result, Action action) noexcept {
    Start start;
    start.fildes = result.aio_fildes;
    start.action = action;
    start.data = const_cast<void*>(result.aio_buf);
    start.size = result.aio_nbytes;
    start.offset = static_cast<std::uint64_t>(result.aio_offset);
    start.told = tell<dispatch_what<ACE_POSIX_Asynch_Result>>(&result);
    return this->start(start);
  }
  /// The same with a new result of a stream, or null for lack of memory. 0, or -1 and errno, and
  /// then the result is deleted.
  template <class StreamResult>
  [[gnu::always_inline]] int start_stream(StreamResult* result, Action action, int fildes,
                                          void* data, std::size_t size) noexcept {
    int error = ENOMEM;
    if (result != nullptr) {
      const Entry entry{*this};
      error = entry ? descriptors_.start_stream<dispatch_what<StreamResult>>(result, action, fildes,
                                                                             data, size)
                    : ESHUTDOWN;
      if (error == 0) return 0;
    }
    delete result;
    return errno = error, -1;
  }
  int room() noexcept;
  int post(ACE_POSIX_Asynch_Result& result) noexcept;
  /// 0, 1 or -1, as ACE_POSIX_Proactor::cancel_aio.
  int cancel(int fildes) noexcept;
  /// See Descriptors. A closed bridge does nothing.
  int opened(int fildes) noexcept;
  void let_go(int fildes) noexcept;
  /// An operation object of this number goes. Handlers go with their objects, and many have closed
  /// the number just before, without a cancel of what is pending.
  void left(int fildes) noexcept;

  /// Calls the handler of a result and deletes the result.
  template <class Result>
  void dispatch(Result& result, Outcome outcome);
  /// The same for a posted result.
  void dispatch_posted(ACE_POSIX_Asynch_Result& result);

  // REQUIRES: in an Entry, or in a completion.
  [[nodiscard]] baton::Proactor& native() noexcept { return *native_; }
  [[nodiscard]] Descriptors& descriptors() noexcept { return descriptors_; }
  [[nodiscard]] Transmissions& transmissions() noexcept { return transmissions_; }
  [[nodiscard]] int descriptor() const noexcept {
    return is_closed() ? ACE_INVALID_HANDLE : descriptor_;  // the number may be in use again
  }

  /// The progress of one call of handle_events, or of the end of close(); null in threads that are
  /// in none.
  struct Call {
    Bridge* bridge;
    Call* outer;
    std::shared_ptr<Bridge>* survivor;
    std::size_t dispatched = 0;
    std::size_t own = 0;  // handlers of the bridge itself
    bool posted = false;
  };
  class Current {
   public:
    explicit Current(Call& now) noexcept { current_call = &now; }
    ~Current() { current_call = current_call->outer; }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
  };
  [[nodiscard]] static Call* current() noexcept { return current_call; }
  /// Each handler of the bridge itself says that it is one.
  void count_own() noexcept {
    if (current_call != nullptr && current_call->bridge == this) ++current_call->own;
  }
  /// Called when the proactor is gone. If this thread is in one of its handlers, the bridge lives
  /// until that call has ended. If the program ends while other threads are in its handlers, or in
  /// the child of a fork, the bridge lives as long as the process.
  static void outlive_calls(std::shared_ptr<Bridge> bridge) noexcept;
  [[nodiscard]] std::uint32_t entries_of_this_thread() const noexcept;

  /// The state of one Attachment; each thread has a list of its own.
  class Attached {
   public:
    explicit Attached(std::shared_ptr<Bridge> bridge);
    ~Attached();
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

   private:
    friend class Bridge;
    void end() noexcept;

    const std::shared_ptr<Bridge> bridge_;
    std::optional<Entry> entry_;
    std::optional<baton::Attachment> attachment_;
    Attached* outer_;
  };

 private:
  int turn(Call& call, Deadline deadline);
  bool wait_for_others() noexcept;
  [[nodiscard]] bool is_in_child() const noexcept;
  int close_in_child() noexcept;
  void end_attachments_of_this_thread() noexcept;
  template <class Result>
  static void complete(Result& result, std::size_t bytes, u_long error);
  template <class Result>
  static void dispatch_what(Bridge& bridge, void* what, Outcome outcome) {
    bridge.dispatch(*static_cast<Result*>(what), outcome);
  }

  /// In entries_, calls of handle_events are counted in the upper half.
  static constexpr std::uint32_t call_weight = 0x1'0000;

  // initial-exec: read for every completion, so not worth a call into the dynamic linker.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Call* current_call;

  const Options options_;
  const pid_t process_;
  std::unique_ptr<baton::Proactor> native_;
  int descriptor_ = -1;
  Descriptors descriptors_;
  Transmissions transmissions_;
  Posted posted_;
  std::mutex closing_;  // one thread closes
  std::atomic<bool> closed_{false};
  std::atomic<std::uint32_t> entries_{0};
  std::shared_ptr<Bridge> self_;  // only if the end of the program has left it alone
  Bridge* next_left_alone_ = nullptr;
};

/// Does what ACE's application_specific_code does, and also deletes the result if the handler
/// throws.
template <class Result>
[[gnu::always_inline]] inline void Bridge::complete(Result& result, std::size_t bytes,
                                                    u_long error) {
  const std::unique_ptr<Result> deleted_then{&result};
  if (current_call != nullptr) ++current_call->dispatched;
  result.complete(bytes, error == 0 ? 1 : 0, nullptr, error);
}

template <class Result>
[[gnu::always_inline]] inline void Bridge::dispatch(Result& result, Outcome outcome) {
  // The handler was deleted, perhaps with its message block, which the complete() of ACE's own
  // classes touches. Nothing was moved, so the block need not be touched.
  if (outcome.bytes == 0 && handler_is_gone(result) && !is_of_the_program(result)) [[unlikely]] {
    if (current_call != nullptr) ++current_call->dispatched;
    delete &result;
    return;
  }
  complete(result, outcome.bytes, static_cast<u_long>(outcome.error));
}

}  // namespace baton::ace
