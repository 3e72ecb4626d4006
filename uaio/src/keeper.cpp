// How requests come to a shard: by messages to its keeper, or by the callers themselves.
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "block.hpp"
#include "futex.hpp"
#include "library.hpp"
#include "shard.hpp"
#include "thread.hpp"

namespace uaio {
namespace {

using baton::OperationKind;

constexpr std::size_t thread_stack = 256U << 10;
constexpr timespec helper_pause{0, 10'000'000};
constexpr int messages_at_once = 64;
// The library's own, and those of one batch of messages.
constexpr std::size_t descriptors_at_once = messages_at_once + 32;

// The meaning of a message's pointer, in its lowest bits.
enum : std::uintptr_t { a_request = 0, a_cancel = 1, a_look = 2, kinds = 3 };

baton::Config make_config(const Options& options, bool keeper, bool single) {
  baton::Config config;
  baton::ProcessorConfig processor;
  processor.engine = options.engine;
  // If callers submitted to a ring, its completions would interrupt them, as mode=single does.
  if (!keeper && !single && options.engine == "auto") processor.engine = "emulated";
  // select cannot watch high numbers, which all descriptors have that are in the program's table.
  if (!options.wait.empty() && (keeper || options.wait != "select")) processor.wait = options.wait;
  processor.mode = keeper ? baton::Mode::per_thread : baton::Mode::shared;
  if (keeper) processor.threads = 1;
  if (!keeper) config.system = baton::Config::high_descriptors();
  config.processors.push_back(std::move(processor));
  // Here an engine mainly serves files past the cache, and only the ring needs no threads for that.
  config.prefer.emplace_back("io_uring");
  // In the preloaded library its calls would be this library's own functions.
  config.forbid.emplace_back("posix_aio");
  return config;
}

/// Gives the calling thread a table of descriptors of its own, without those of the program.
/// `with_errors`: the program's standard error stays, for messages. 0 or an errno.
int take_own_table(bool with_errors) noexcept {
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_UNSHARE) != 0) {
    // Before Linux 5.9, or refused.
    if (::unshare(CLONE_FILES) != 0) return errno;
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const int end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1U << 20));
    for (int each = 3; each < end; ++each) ::close(each);
  }
  // The lowest three stay taken, so that no stray message gets into a file of the program's.
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int filler = nothing >= 0 ? nothing : ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (filler < 0) return errno;
  for (int each = 0; each < (with_errors ? 2 : 3); ++each) {
    if (each != filler) ::dup2(filler, each);
  }
  if (filler > 2) ::close(filler);
  return 0;
}

/// The next attempt may succeed.
bool is_shortage(int error) noexcept {
  return error == EAGAIN || error == ENOMEM || error == ENOBUFS || error == EMFILE ||
         error == ENFILE || error == ETOOMANYREFS;
}
bool is_shortage(baton::ReasonCode reason) noexcept {
  return reason == baton::ReasonCode::limit_memory || reason == baton::ReasonCode::limit_memlock ||
         reason == baton::ReasonCode::limit_descriptors;
}

baton::Deadline idle_end() noexcept {
  const timespec end = after(monotonic_now(), idle_time);
  return baton::Deadline::at_ns(end.tv_sec * std::int64_t{1'000'000'000} + end.tv_nsec);
}

}  // namespace

/// 0 or an errno.
int Shard::open(bool keeper) noexcept {
  try {
    if (forked_) {
      if (!proactor_->reopen()) return EAGAIN;
      forked_ = false;
    } else if (!proactor_) {
      auto opened = baton::Proactor::open(make_config(library_.options(), keeper, single_));
      if (!opened) {
        if (is_shortage(opened.error().reason_code)) return ENOMEM;
        library_.complain(opened.error().reason.c_str());
        return ENOSYS;
      }
      proactor_ = std::move(*opened);
    }
    if (!files_) files_ = std::make_unique<Files>();
    // An earlier keeper has left them, and the system may refuse the next one a table.
    files_->use_own_table(keeper);
    if (library_.options().explain) library_.explain(proactor_->explain().c_str());
  } catch (...) {
    return ENOMEM;
  }
  return 0;
}

// -- the program's side ---------------------------------------------------------------------------

int Shard::ensure_drive() noexcept {
  if (drive_.load(std::memory_order_acquire) != Drive::undecided) return 0;
  const NoCancel no_cancel;
  const Locked locked{mutex_};
  if (drive_.load(std::memory_order_relaxed) != Drive::undecided) return 0;
  if (!is_own_process()) return EAGAIN;
  if (!single_) {
    if (keeper_answer_.load(std::memory_order_acquire) == 0) {
      if (!start_thread(keep, this, thread_stack)) return EAGAIN;
      while (keeper_answer_.load(std::memory_order_acquire) == 0) {
        futex_wait(keeper_answer_, 0, nullptr);
      }
      library_.count(Library::threads);
    }
    const int refused = static_cast<int>(keeper_answer_.load(std::memory_order_acquire)) - 1;
    if (refused == 0) {
      if (mailbox_.connect() != 0) return EAGAIN;
      drive_.store(Drive::keeper, std::memory_order_release);
      return 0;
    }
    if (is_shortage(refused)) {
      keeper_answer_.store(0, std::memory_order_relaxed);
      return EAGAIN;
    }
    library_.explain("callers submit: no keeper, errno ", refused);
  }
  if (open(false) != 0) return EAGAIN;
  const bool driven = single_ ? library_.start_timer() : start_thread(help, this, thread_stack);
  if (!driven) return EAGAIN;
  drive_.store(Drive::callers, std::memory_order_release);
  return 0;
}

// seq_cst, as in retire(): either the keeper sees the request, or its starter sees that the keeper
// has ended.
void Shard::enter(int fildes) noexcept {
  outstanding_.fetch_add(1, std::memory_order_seq_cst);
  of_number_[place_of(fildes)].fetch_add(1, std::memory_order_relaxed);
}
void Shard::leave(int fildes) noexcept {
  of_number_[place_of(fildes)].fetch_sub(1, std::memory_order_relaxed);
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
}

int Shard::post(Request& request) noexcept {
  // Otherwise a handler might interrupt this thread before the drive exists, find a request that is
  // pending and not sent, and wait for it.
  std::optional<SignalsBlocked> blocked;
  const int fildes = request.fildes;
  enter(fildes);
  if (drive_.load(std::memory_order_seq_cst) == Drive::undecided) blocked.emplace();
  if (const int error = ensure_drive(); error != 0) {
    leave(fildes);
    return error;
  }
  Block{*request.block}.set_pending();
  // release: the keeper reads the request. From here on it may be freed and reused at any moment.
  request.stage.store(Stage::pending, std::memory_order_release);
  const int error =
      driven_by_callers() ? post_as_caller(request) : send(&request, a_request, fildes);
  if (error != 0) {
    request.stage.store(Stage::free, std::memory_order_relaxed);
    leave(fildes);
    look_at_direct();  // a keeper that has seen the count would wait for ever
  }
  return error;
}

int Shard::post_as_caller(Request& request) noexcept {
  if (!library_.is_origin()) return EAGAIN;
  const NoCancel no_cancel;
  const Locked locked{mutex_};
  const int error = start(request, request.fildes);
  collect();
  return error;
}

/// 0 or an errno.
int Shard::send(void* pointer, unsigned kind, int fildes) noexcept {
  if (!library_.is_origin()) return EAGAIN;
  void* const word = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(pointer) | kind);
  std::optional<SignalsBlocked> blocked;  // as in post
  for (;;) {
    switch (mailbox_.send(word, fildes)) {
      case Mailbox::Sent::sent:
        return 0;
      case Mailbox::Sent::failed:
        // EINVAL: a ring of io_uring, which a message cannot carry. It cannot be read or written
        // either.
        return errno == EBADF || errno == EINVAL ? errno : EAGAIN;
      case Mailbox::Sent::lost: {
        // The program has closed its number.
        if (!blocked) blocked.emplace();
        const NoCancel no_cancel;
        const Locked locked{mutex_};
        const bool kept = drive_.load(std::memory_order_relaxed) == Drive::keeper;
        if (!kept || mailbox_.connect() != 0) return EAGAIN;
      }
    }
  }
}

void Shard::cancel(Cancelled& tally) noexcept {
  if (!busy() || !library_.is_origin()) return;
  if (driven_by_callers()) return cancel_as_caller(tally);
  // The keeper does not end before it has answered. It decrements the count itself, so that it sees
  // afterwards that nothing is left.
  outstanding_.fetch_add(1, std::memory_order_seq_cst);
  tally.answered.store(0, std::memory_order_release);  // publishes all that the keeper reads
  if (send(&tally, a_cancel, -1) != 0) {
    outstanding_.fetch_sub(1, std::memory_order_acq_rel);
    return count_pending(tally);
  }
  while (tally.answered.load(std::memory_order_acquire) == 0) {
    futex_wait(tally.answered, 0, nullptr);
  }
}

/// The keeper cannot be asked, so nothing is cancelled.
void Shard::count_pending(Cancelled& tally) const noexcept {
  for_each_pending([&](const Request& each) {
    if (!each.concerns(tally.fildes, tally.block)) return;
    if (each.stage.load(std::memory_order_relaxed) != Stage::pending) return;
    if (library_.direct().has(each)) return;
    ++tally.found;
    ++tally.pending;
  });
}

// A request that waits for a peer ends as soon as the kernel sees the cancel. A request that a
// device is working on does not.
void Shard::cancel_as_caller(Cancelled& tally) noexcept {
  {
    const Locked locked{mutex_};
    collect();
    ask_to_cancel(tally);
  }
  for (;;) {
    {
      const Locked locked{mutex_};
      collect();
      if (tally.answered.load(std::memory_order_relaxed) != 0) return;
    }
    timespec moment{0, 1'000'000};
    pollfd entry{proactor_->descriptor(), POLLIN, 0};
    ::syscall(SYS_ppoll, &entry, 1L, &moment, nullptr, 0L);
  }
}

void Shard::look_at_direct() noexcept {
  if (drive_.load(std::memory_order_acquire) == Drive::keeper) send(nullptr, a_look, -1);
}

int Shard::wait_as_caller(const timespec* until) {
  timespec time = helper_pause;
  if (until != nullptr) {
    const timespec left = left_until(*until);
    if (left.tv_sec == 0 && left.tv_nsec == 0) return EAGAIN;
    if (is_before(left, time)) time = left;
  }
  pollfd entry{proactor_->descriptor(), POLLIN, 0};
  const long answer = cancellable_call(SYS_ppoll, reinterpret_cast<long>(&entry), 1,
                                       reinterpret_cast<long>(&time), 0, 0, 0);
  const int error = answer < 0 ? errno : 0;
  const Locked locked{mutex_};
  collect();
  return error;
}

void Shard::collect() noexcept {
  if (collecting_ || !driven_by_callers() || !library_.is_origin()) return;
  // Also where the timer's handler has interrupted a thread at any point.
  const NoCancel no_cancel;
  collecting_ = true;
  do {
    look_again_ = false;
    std::size_t brought = 0;
    try {
      brought = proactor_->poll();
    } catch (...) {
      library_.complain("an engine has failed");
    }
    if (after_direct_.first != nullptr) release_after_direct();
    start_waiting();
    look_again_ |= brought > 0 && proactor_->glance() == baton::Glance::something;
  } while (look_again_);
  collecting_ = false;
}

void* Shard::help(void* self) {
  pthread_setname_np(pthread_self(), "uaio-helper");
  note_no_handlers();
  static_cast<Shard*>(self)->run_helper();
  return nullptr;
}

void Shard::run_helper() noexcept {
  for (;;) {
    {
      const Locked locked{mutex_};
      collect();
    }
    pollfd entry{proactor_->descriptor(), POLLIN, 0};
    ::ppoll(&entry, 1, busy() ? &helper_pause : nullptr, nullptr);
  }
}

// -- the keeper -----------------------------------------------------------------------------------

void* Shard::keep(void* self) {
  pthread_setname_np(pthread_self(), "uaio-keeper");
  note_no_handlers();
  auto& shard = *static_cast<Shard*>(self);
  const int error = shard.become_keeper();
  shard.keeper_answer_.store(static_cast<std::uint32_t>(error) + 1, std::memory_order_release);
  futex_wake(shard.keeper_answer_, 1);
  if (error == 0) shard.run_keeper();
  return nullptr;
}

int Shard::become_keeper() noexcept {
  const Options& options = library_.options();
  const DescriptorRoom room{descriptors_at_once};
  if (const int error = take_own_table(options.trace || options.explain); error != 0) return error;
  note_own_table();
  const int listener = mailbox_.listen();
  if (listener < 0) return errno;
  connections_.reset(new (std::nothrow) Inlet);
  int error = connections_ != nullptr ? open(true) : ENOMEM;
  if (error == 0 && !listen_by(*connections_, listener, on_connection)) error = ENOMEM;
  if (error != 0) {
    proactor_.reset();
    files_.reset();
  }
  return error;
}

void Shard::run_keeper() noexcept {
  for (;;) {
    const bool idle = !busy();
    std::size_t handled = 0;
    try {
      handled = proactor_->handle_events(idle ? idle_end() : baton::Deadline::never());
    } catch (...) {
      library_.complain("an engine has failed");
    }
    if (lost_ && in_flight_ == 0 && listening_ == 0) renew();
    start_waiting();
    if (idle && handled == 0 && retire()) return;
  }
}

/// True: the keeper is not needed. Its thread may end, and its table of descriptors with it. The
/// next request starts another one. REQUIRES: called by the keeper, in which no signal is
/// delivered.
bool Shard::retire() noexcept {
  pthread_mutex_lock(&mutex_);
  drive_.store(Drive::undecided, std::memory_order_seq_cst);
  const bool idle = outstanding_.load(std::memory_order_seq_cst) == 0;
  if (idle) {
    retiring_ = true;
    proactor_.reset();
    retiring_ = false;
    connections_.reset();
    keeper_answer_.store(0, std::memory_order_relaxed);
  } else {
    drive_.store(Drive::keeper, std::memory_order_seq_cst);
  }
  pthread_mutex_unlock(&mutex_);
  return idle;
}

/// A filter of system calls can take the engine away (errc::engine_lost). True: this was pending
/// there. Only the keeper can have another one: where callers drive, they are inside at any time.
bool Shard::ended_by_loss(const baton::Operation& operation) noexcept {
  const bool lost = operation.error_value() == -static_cast<int>(baton::errc::engine_lost);
  if (!lost || driven_by_callers()) return false;
  lost_ = true;
  return true;
}

/// Another engine replaces the lost one, which has nothing pending. REQUIRES: called by the keeper.
void Shard::renew() noexcept {
  const DescriptorRoom room{room_for_files()};
  files_->forget_handles();
  proactor_.reset();
  while (open(true) != 0 || !listen_by(*connections_, connections_->native, on_connection)) {
    ::nanosleep(&helper_pause, nullptr);  // a shortage
  }
  lost_ = false;
}

/// Calls the function when something arrives. The inlet keeps the socket.
bool Shard::listen_by(Inlet& inlet, int native, baton::CompletionFunction function) noexcept {
  const auto handle =
      proactor_->adopt(native, baton::HandleKind::stream_socket, baton::Ownership::borrowed);
  if (!handle) return false;
  inlet.shard = this;
  inlet.handle = *handle;
  inlet.native = native;
  return listen_again(inlet, function);
}

/// How many descriptors the keeper needs while it takes files in.
std::size_t Shard::room_for_files() const noexcept {
  return files_->descriptors() + descriptors_at_once;
}

/// False: only when the proactor ends.
bool Shard::listen_again(Inlet& inlet, baton::CompletionFunction function) noexcept {
  inlet.ready.prepare(OperationKind::wait_ready, inlet.handle, baton::Operation::readable);
  inlet.ready.set_completion(function, &inlet);
  if (proactor_->start(inlet.ready)) return false;
  ++listening_;
  return true;
}

void Shard::on_connection(baton::Operation& operation) {
  auto& inlet = *static_cast<Inlet*>(operation.context());
  Shard& self = *inlet.shard;
  --self.listening_;
  if (self.retiring_ || self.ended_by_loss(operation)) return;
  const DescriptorRoom room{self.room_for_files()};
  for (;;) {
    const int receiver = Mailbox::accept(inlet.native);
    if (receiver < 0) break;
    auto* const mail = new (std::nothrow) Inlet;
    if (mail == nullptr || !self.listen_by(*mail, receiver, on_mail)) {
      delete mail;
      self.close_receiver(receiver);
    }
  }
  static_cast<void>(self.listen_again(inlet, on_connection));
}

void Shard::on_mail(baton::Operation& operation) {
  auto& inlet = *static_cast<Inlet*>(operation.context());
  Shard& self = *inlet.shard;
  auto received = Mailbox::Received::message;
  --self.listening_;
  if (self.retiring_) {
    ::close(inlet.native);
    delete &inlet;
    return;
  }
  for (int i = 0; i < messages_at_once && received == Mailbox::Received::message; ++i) {
    void* pointer = nullptr;
    int native = -1;
    received = Mailbox::receive(inlet.native, self.room_for_files(), pointer, native);
    if (received == Mailbox::Received::message) {
      self.take_message(reinterpret_cast<std::uintptr_t>(pointer), native);
    }
  }
  const bool lost = self.ended_by_loss(operation);
  if (!lost && received != Mailbox::Received::ended && self.listen_again(inlet, on_mail)) return;
  // The program has closed the sender, or this side cannot receive; another one connects.
  self.proactor_->close_detached(*inlet.handle);
  self.close_receiver(inlet.native);
  delete &inlet;
}

/// A sent message is a started request: the keeper takes it in, or tells its sender.
void Shard::close_receiver(int receiver) noexcept {
  ::shutdown(receiver, SHUT_RD);
  for (;;) {
    void* pointer = nullptr;
    int native = -1;
    if (Mailbox::receive(receiver, room_for_files(), pointer, native) != Mailbox::Received::message)
      break;
    take_message(reinterpret_cast<std::uintptr_t>(pointer), native);
  }
  ::close(receiver);
}

void Shard::take_message(std::uintptr_t word, int native) noexcept {
  void* const pointer = reinterpret_cast<void*>(word & ~kinds);
  switch (word & kinds) {
    case a_request:
      return take_request_in(*static_cast<Request*>(pointer), native);
    case a_cancel: {
      auto& tally = *static_cast<Cancelled*>(pointer);
      static_cast<void>(tally.answered.load(std::memory_order_acquire));
      return ask_to_cancel(tally);
    }
    default:
      return release_after_direct();
  }
}

void Shard::take_request_in(Request& request, int native) noexcept {
  // acquire: what the starter has written, as in Direct::take.
  static_cast<void>(request.stage.load(std::memory_order_acquire));
  const int error = start(request, native);
  if (error == 0) return;
  if (native >= 0 && request.descriptor == nullptr) ::close(native);  // it was not handed on
  library_.publish(request, error, -1);
  leave(request.fildes);
  give_request(request);
}

}  // namespace uaio
