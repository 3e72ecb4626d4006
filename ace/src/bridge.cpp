#include "bridge.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "baton/driving_refused.hpp"
#include "ending.hpp"

namespace baton::ace {
namespace {

thread_local Bridge::Attached* attachments = nullptr;

/// How long the end of the program waits for handlers of other threads. ACE's own implementation
/// does not wait.
constexpr std::chrono::seconds patience_at_end{1};

/// The bridges that the end of the program has left alone. Static, so that leak checkers find them.
constinit std::atomic<Bridge*> all_left_alone{nullptr};

/// For a thread that would return to objects of ACE that are gone.
[[noreturn]] void rest_until_the_end() noexcept {
  for (;;) ::pause();
}

/// Programs' threads are in Baton only during handle_events.
Config for_ace(Config config) {
  config.let_threads_change("the ACE bridge");
  return config;
}

/// A dedicated leader takes completed operations out of the engine before another thread can see
/// them there.
bool shows_completions(const baton::Proactor& native) noexcept {
  return native.config().processors.front().mode != Mode::dedicated;
}

/// How many handlers of Baton's own objects may run before a call looks at its time. A call without
/// time runs what is due, and so more of them.
std::size_t others_max(Deadline deadline) noexcept {
  return deadline == Deadline::immediately() ? 1'024 : 1;
}

int errno_of(errc code) noexcept {
  switch (code) {
    case errc::limit_reached:
      return EAGAIN;
    case errc::no_free_handles:
    case errc::descriptor_out_of_range:
      return EMFILE;
    case errc::stopped:
    case errc::after_fork:
      return ESHUTDOWN;
    case errc::handle_closed:
      return ECANCELED;
    case errc::not_supported:
      return EOPNOTSUPP;
    case errc::wrong_thread:
      return EPERM;
    case errc::already_adopted:
      return EEXIST;
    case errc::timed_out:
      return ETIMEDOUT;
    case errc::operation_in_use:
    case errc::wrong_handle_kind:
    case errc::not_prepared:
      return EINVAL;
    default:
      return EIO;
  }
}

}  // namespace

int errno_of(std::error_code error) noexcept {
  if (error.category() == error_category()) return errno_of(static_cast<errc>(error.value()));
  return error.value();
}

constinit thread_local Bridge::Call* Bridge::current_call = nullptr;

Bridge::Bridge(Config config, const Options& options, const ACE_Handler& wake_ups)
    : options_(options),
      process_(::getpid()),
      native_(std::make_unique<baton::Proactor>(for_ace(std::move(config)))),
      descriptor_(shows_completions(*native_) ? native_->descriptor() : ACE_INVALID_HANDLE),
      descriptors_(*this, options.lazy),
      posted_(*this, native_->lanes(), wake_ups) {
  expect_end(false);
}

Bridge::~Bridge() = default;

// -- entering and closing -------------------------------------------------------------------------

std::uint32_t Bridge::entries_of_this_thread() const noexcept {
  std::uint32_t count = 0;
  for (const Call* each = current_call; each != nullptr; each = each->outer) {
    if (each->bridge == this) ++count;
  }
  return count;
}

void Bridge::outlive_calls(std::shared_ptr<Bridge> bridge) noexcept {
  Call* outermost = nullptr;
  for (Call* each = current_call; each != nullptr; each = each->outer) {
    if (each->bridge == bridge.get()) outermost = each;
  }
  if (outermost != nullptr) {
    *outermost->survivor = std::move(bridge);
  } else if (bridge->native_ != nullptr /* close has given up */ || bridge->is_in_child()) {
    Bridge& left_alone = *bridge;
    left_alone.self_ = std::move(bridge);
    left_alone.next_left_alone_ = all_left_alone.exchange(&left_alone);
  }
}

bool Bridge::is_in_child() const noexcept { return ::getpid() != process_; }

/// False: the program is ending, and a handler does not return.
bool Bridge::wait_for_others() noexcept {
  const auto end = std::chrono::steady_clock::now() + patience_at_end;
  // Polls once a millisecond, because a thread that leaves cannot notify: see ~Entry.
  while (entries_.load() != 0) {
    if (program_ends() && std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

Bridge::Attached::Attached(std::shared_ptr<Bridge> bridge)
    : bridge_(std::move(bridge)), outer_(attachments) {
  entry_.emplace(*bridge_);
  if (*entry_) {
    attachment_.emplace(bridge_->native());
  } else {
    entry_.reset();
  }
  attachments = this;
}

Bridge::Attached::~Attached() {
  end();
  for (Attached** place = &attachments; *place != nullptr; place = &(*place)->outer_) {
    if (*place != this) continue;
    *place = outer_;
    break;
  }
}

/// The attachment first: without the entry the proactor may be gone.
void Bridge::Attached::end() noexcept {
  attachment_.reset();
  entry_.reset();
}

void Bridge::end_attachments_of_this_thread() noexcept {
  for (Attached* each = attachments; each != nullptr; each = each->outer_) {
    if (each->bridge_.get() == this) each->end();
  }
}

/// Threads of the parent may have held each lock, and may have been changing everything. So only
/// Baton's proactor is deleted, which minds that, unless one of them was closing it.
int Bridge::close_in_child() noexcept {
  if (closed_.exchange(true) || entries_of_this_thread() > 0) return 0;
  end_attachments_of_this_thread();
  native_.reset();
  return 0;
}

int Bridge::close() noexcept {
  if (is_in_child()) return close_in_child();
  closed_.store(true);
  if (ace_ends()) return 0;  // no thread is woken, because it would return to what ACE frees next
  if (entries_of_this_thread() > 0) {
    if (native_ != nullptr) native_->stop();  // else this is a handler that close() itself calls
    return 0;
  }
  end_attachments_of_this_thread();
  std::shared_ptr<Bridge> survivor;  // the last to go, if a handler deletes the proactor
  const std::lock_guard guard{closing_};
  if (native_ == nullptr) return 0;
  native_->stop();
  if (!wait_for_others()) return 0;
  // The remaining handlers run in this thread, and still find native_ set. They are in a call of
  // their own, because this thread may be in a handler of another proactor.
  Call call{this, current_call, &survivor};
  const Current current{call};
  delete native_.get();
  static_cast<void>(native_.release());
  descriptors_.end_waiting();
  posted_.clear();
  return 0;
}

// -- driving --------------------------------------------------------------------------------------

[[gnu::always_inline]] inline int Bridge::turn(Call& call, Deadline deadline) {
  std::size_t others = 0;  // handlers of Baton's own objects
  for (;;) {
    std::size_t handlers_max = options_.batch;
    if (!posted_.empty()) {
      posted_.resume();
      handlers_max = 1;
    }
    const std::size_t own_before = call.own;
    std::size_t ran = 0;
    try {
      ran = native_->handle_events(deadline, handlers_max);
    } catch (const DrivingRefused& refused) {
      if (!refused.is_of(*native_)) throw;  // of a handler, like every other exception
      if (call.dispatched == 0) return errno = errno_of(refused.code()), -1;
    }
    if (call.dispatched > 0) return 1;
    if (closed_.load(std::memory_order_relaxed) || native_->stopped()) {
      errno = ESHUTDOWN;
      return -1;
    }
    // The bridge's own handlers do not count as events: what they begin may be complete already.
    // Those of Baton's own objects may follow each other for ever.
    others += ran - (call.own - own_before);
    const bool enough = ran == 0 || others >= others_max(deadline);
    if (enough && !deadline.is_never() && native_->now() >= deadline) return 0;
  }
}

void Bridge::dispatch_posted(ACE_POSIX_Asynch_Result& result) {
  complete(result, result.bytes_transferred(), result.error());
}

int Bridge::handle_events(Deadline deadline) {
  struct Survivor {
    ~Survivor() {
      if (!bridge) return;
      bridge->close();
      outlive_calls(std::move(bridge));
    }
    std::shared_ptr<Bridge> bridge;
  } survivor;
  const Entry entry{*this, call_weight};
  if (!entry) return -1;
  Call call{this, current_call, &survivor.bridge};
  const Current current{call};
  const int answer = turn(call, deadline);
  if (closed_.load(std::memory_order_relaxed) && ace_ends()) [[unlikely]]
    rest_until_the_end();
  return answer;
}

// -- operations -----------------------------------------------------------------------------------

int Bridge::room() noexcept {
  const Entry entry{*this};
  if (!entry) return ESHUTDOWN;
  try {
    std::uint64_t room = 0;
    for (const ProcessorConfig& each : native_->config().processors) {
      room += each.operations_max != 0 ? each.operations_max : limits::operations_max;
    }
    if (room == 0) room = limits::operations_max;
    return native_->statistics().pending < room ? 0 : EAGAIN;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

int Bridge::post(ACE_POSIX_Asynch_Result& result) noexcept {
  const Entry entry{*this};
  return entry ? posted_.push(result) : ESHUTDOWN;
}

int Bridge::cancel(int fildes) noexcept {
  const Entry entry{*this};
  if (!entry) return -1;
  // The mark before the cancel: see Transmission::step_ended.
  const bool transmits = transmissions_.cancel(fildes);
  const int answer = descriptors_.cancel(fildes);
  return transmits ? 0 : answer;
}

int Bridge::opened(int fildes) noexcept {
  const Entry entry{*this};
  return entry ? descriptors_.opened(fildes) : 0;
}

void Bridge::left(int fildes) noexcept {
  if (descriptors_.is_busy(fildes) && !is_in_child()) static_cast<void>(opened(fildes));
}

void Bridge::let_go(int fildes) noexcept {
  if (const Entry entry{*this}; entry) descriptors_.let_go(fildes);
}

}  // namespace baton::ace
