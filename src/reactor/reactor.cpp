// Reactor: the public interface, and the handlers for callables.
#include "baton/reactor.hpp"

#include <new>
#include <utility>

#include "baton/config.hpp"
#include "reactor/impl.hpp"

namespace baton {
namespace {

class DescriptorCallback final : public EventHandler {
 public:
  explicit DescriptorCallback(Reactor::Callback callback) : callback_(std::move(callback)) {}
  Next on_input(NativeHandle fd) override { return callback_(fd, Interest::in); }
  Next on_output(NativeHandle fd) override { return callback_(fd, Interest::out); }
  Next on_exception(NativeHandle fd) override { return callback_(fd, Interest::urgent); }

 private:
  Reactor::Callback callback_;
};

class TimerCallbackHandler final : public EventHandler {
 public:
  explicit TimerCallbackHandler(Reactor::TimerCallback callback) : callback_(std::move(callback)) {}
  Next on_timeout(TimerKey timer, Deadline due) override { return callback_(timer, due); }

 private:
  Reactor::TimerCallback callback_;
};

class SignalCallbackHandler final : public EventHandler {
 public:
  explicit SignalCallbackHandler(Reactor::SignalCallback callback)
      : callback_(std::move(callback)) {}
  Next on_signal(int number) override { return callback_(number); }

 private:
  Reactor::SignalCallback callback_;
};

std::error_code no_memory() noexcept { return std::make_error_code(std::errc::not_enough_memory); }

}  // namespace

EventHandler::~EventHandler() = default;
Next EventHandler::on_input(NativeHandle) { return Next::drop; }
Next EventHandler::on_output(NativeHandle) { return Next::drop; }
Next EventHandler::on_exception(NativeHandle) { return Next::drop; }
Next EventHandler::on_timeout(TimerKey, Deadline) { return Next::remove; }
Next EventHandler::on_signal(int) { return Next::remove; }
void EventHandler::on_close(NativeHandle, std::error_code) noexcept {}

ReactorConfig ReactorConfig::from(const Config& config) {
  ReactorConfig made;
  made.handles_max = config.handles_max;
  made.understudy_look_us = config.understudy_look_us;
  made.system = config.system;
  if (config.processors.empty()) return made;
  const ProcessorConfig& first = config.processors.front();
  made.wait = first.wait;
  made.interrupt = first.interrupt;
  made.wait_signal = first.wait_signal;
  made.interrupt_signal = first.interrupt_signal;
  return made;
}

Result<std::unique_ptr<Reactor>, Failure> Reactor::open(const ReactorConfig& config) {
  auto impl = Impl::open(config);
  if (!impl) return unexpected{impl.error()};
  return std::unique_ptr<Reactor>(new Reactor(std::move(*impl)));
}

Reactor::Reactor(std::unique_ptr<Impl> impl) noexcept : impl_(impl.release()) {}
Reactor::~Reactor() {
  if (impl_->inside()) {
    impl_->end_in_handler();
  } else {
    delete impl_;
  }
}

const WaitStrategyInfo& Reactor::info() const noexcept { return impl_->demultiplexer().info(); }
std::string_view Reactor::interrupt_name() const noexcept {
  return impl_->demultiplexer().interrupt_name();
}
ReactorStatistics Reactor::statistics() const noexcept { return impl_->statistics(); }
const std::string& Reactor::explain() const noexcept { return impl_->explanation(); }

// -- descriptors ----------------------------------------------------------------------------------

Result<RegistrationKey> Reactor::add(NativeHandle fd, Interest interest,
                                     EventHandler& handler) noexcept {
  return impl_->add(fd, interest, &handler, nullptr);
}
Result<RegistrationKey> Reactor::add(NativeHandle fd, Interest interest,
                                     std::shared_ptr<EventHandler> handler) noexcept {
  EventHandler* const target = handler.get();
  return impl_->add(fd, interest, target, std::move(handler));
}
Result<RegistrationKey> Reactor::add(NativeHandle fd, Interest interest, Callback callback) try {
  return add(fd, interest, std::make_shared<DescriptorCallback>(std::move(callback)));
} catch (const std::bad_alloc&) {
  return unexpected{no_memory()};
}
std::error_code Reactor::change(RegistrationKey key, Interest interest) noexcept {
  return impl_->change(key, interest);
}
std::error_code Reactor::suspend(RegistrationKey key) noexcept { return impl_->suspend(key); }
std::error_code Reactor::resume(RegistrationKey key) noexcept { return impl_->resume(key); }
Reactor::Removal Reactor::remove(RegistrationKey key) noexcept { return impl_->remove(key, false); }
Reactor::Removal Reactor::remove_and_wait(RegistrationKey key) noexcept {
  return impl_->remove(key, true);
}
std::size_t Reactor::size() const noexcept { return impl_->size(); }

// -- notifications --------------------------------------------------------------------------------

std::error_code Reactor::notify(RegistrationKey key, Interest as) noexcept {
  return impl_->notify(key, as);
}
std::error_code Reactor::notify(EventHandler& handler, Interest as) noexcept {
  return impl_->notify(&handler, nullptr, nullptr, as);
}
std::error_code Reactor::notify(std::shared_ptr<EventHandler> handler, Interest as) noexcept {
  EventHandler* const target = handler.get();
  if (target == nullptr) return std::make_error_code(std::errc::invalid_argument);
  return impl_->notify(target, std::move(handler), nullptr, as);
}
std::error_code Reactor::notify(std::function<void()> work) noexcept {
  return impl_->notify(nullptr, nullptr, std::move(work), Interest::in);
}
std::size_t Reactor::purge(const EventHandler* handler, Interest which) noexcept {
  return impl_->purge(handler, which);
}
std::size_t Reactor::notifications() const noexcept { return impl_->notifications(); }
void Reactor::wake() noexcept { impl_->wake(); }

// -- timers ---------------------------------------------------------------------------------------

Result<TimerKey> Reactor::schedule(EventHandler& handler, Deadline first,
                                   Duration interval) noexcept {
  return impl_->schedule(&handler, nullptr, first, interval);
}
Result<TimerKey> Reactor::schedule(std::shared_ptr<EventHandler> handler, Deadline first,
                                   Duration interval) noexcept {
  EventHandler* const target = handler.get();
  return impl_->schedule(target, std::move(handler), first, interval);
}
Result<TimerKey> Reactor::schedule(TimerCallback callback, Deadline first, Duration interval) try {
  return schedule(std::make_shared<TimerCallbackHandler>(std::move(callback)), first, interval);
} catch (const std::bad_alloc&) {
  return unexpected{no_memory()};
}
bool Reactor::cancel(TimerKey timer) noexcept { return impl_->cancel(timer); }
std::size_t Reactor::cancel_timers(const EventHandler& handler) noexcept {
  return impl_->cancel_timers(handler);
}
std::size_t Reactor::timers() const noexcept { return impl_->timers(); }

// -- signals --------------------------------------------------------------------------------------

std::error_code Reactor::add_signal(int number, EventHandler& handler) noexcept {
  return impl_->add_signal(number, &handler, nullptr);
}
std::error_code Reactor::add_signal(int number, std::shared_ptr<EventHandler> handler) noexcept {
  EventHandler* const target = handler.get();
  return impl_->add_signal(number, target, std::move(handler));
}
std::error_code Reactor::add_signal(int number, SignalCallback callback) try {
  return add_signal(number, std::make_shared<SignalCallbackHandler>(std::move(callback)));
} catch (const std::bad_alloc&) {
  return no_memory();
}
std::error_code Reactor::remove_signal(int number) noexcept {
  return impl_->remove_signal(number, false);
}
std::error_code Reactor::remove_signal_and_wait(int number) noexcept {
  return impl_->remove_signal(number, true);
}

// -- running it -----------------------------------------------------------------------------------

Result<std::size_t> Reactor::handle_events(Deadline until) {
  return impl_->turn(until, SIZE_MAX, true);
}
Result<std::size_t> Reactor::handle_one(Deadline until) { return impl_->turn(until, 1, true); }
Result<std::size_t> Reactor::run() { return impl_->turn(Deadline::never(), SIZE_MAX, false); }
void Reactor::end() noexcept { impl_->end(); }
void Reactor::restart() noexcept { impl_->restart(); }
bool Reactor::ended() const noexcept { return impl_->ended(); }
Result<void, Failure> Reactor::reopen() { return impl_->reopen(); }

}  // namespace baton
