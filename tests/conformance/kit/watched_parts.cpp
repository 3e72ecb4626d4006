// Both decorators pass every call on; only wait is marked.
#include "watched_parts.hpp"

#include <optional>
#include <utility>

#include "../proactor/threads.hpp"

namespace baton::conformance {
namespace {

std::optional<Duration> span_of(Deadline deadline) {
  if (deadline.is_never()) return {};
  return deadline.remaining(Deadline::after(Duration{0}));
}

class WatchedEngine : public Engine {
 public:
  explicit WatchedEngine(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  [[nodiscard]] const EngineInfo& info() const noexcept override { return engine_->info(); }
  std::error_code attach(Handle& handle) noexcept override { return engine_->attach(handle); }
  void detach(Handle& handle) noexcept override { engine_->detach(handle); }
  Submission submit(Operation& operation, void* record) noexcept override {
    return engine_->submit(operation, record);
  }
  [[nodiscard]] void* handle_record(const Handle& handle) noexcept override {
    return engine_->handle_record(handle);
  }
  void flush() noexcept override { engine_->flush(); }
  CancelAnswer cancel(Operation& operation) noexcept override { return engine_->cancel(operation); }
  void wait(OperationQueue& completed, Deadline deadline) noexcept override {
    const Asleep asleep{sleepers().waiting, span_of(deadline)};
    engine_->wait(completed, deadline);
  }
  void interrupt() noexcept override { engine_->interrupt(); }
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return engine_->descriptor(); }
  [[nodiscard]] Deadline due() noexcept override { return engine_->due(); }
  [[nodiscard]] Glance glance() const noexcept override { return engine_->glance(); }
  [[nodiscard]] EngineCounters counters() const noexcept override { return engine_->counters(); }
  void after_fork_in_child() noexcept override { engine_->after_fork_in_child(); }

 private:
  std::unique_ptr<Engine> engine_;
};

class WatchedWaitStrategy : public WaitStrategy {
 public:
  explicit WatchedWaitStrategy(std::unique_ptr<WaitStrategy> strategy)
      : strategy_(std::move(strategy)) {}

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return strategy_->info(); }
  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    return strategy_->add(fd, interest, token);
  }
  std::error_code add_edge(NativeHandle fd, Token token) noexcept override {
    return strategy_->add_edge(fd, token);
  }
  std::error_code watch_once(NativeHandle fd, Interest interest, Token token,
                             bool again) noexcept override {
    return strategy_->watch_once(fd, interest, token, again);
  }
  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    return strategy_->modify(fd, interest, token);
  }
  std::error_code remove(NativeHandle fd) noexcept override { return strategy_->remove(fd); }
  Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                           const SignalMask* unblocked) noexcept override {
    const Asleep asleep{sleepers().waiting, span_of(deadline)};
    return strategy_->wait(reports, deadline, unblocked);
  }
  [[nodiscard]] NativeHandle descriptor() const noexcept override {
    return strategy_->descriptor();
  }
  void after_fork_in_child() noexcept override { strategy_->after_fork_in_child(); }

 private:
  std::unique_ptr<WaitStrategy> strategy_;
};

template <class Watched, class Part, class Options>
Result<std::unique_ptr<Part>, Failure> open_watched(
    const std::function<Result<std::unique_ptr<Part>, Failure>(const Options&)>& factory,
    const Options& options) {
  auto opened = factory(options);
  if (!opened) return opened;
  return std::unique_ptr<Part>{std::make_unique<Watched>(std::move(*opened))};
}

}  // namespace

EngineFactory watched(EngineFactory factory) {
  return [factory = std::move(factory)](const EngineOptions& options) {
    return open_watched<WatchedEngine>(factory, options);
  };
}

WaitStrategyFactory watched(WaitStrategyFactory factory) {
  return [factory = std::move(factory)](const WaitOptions& options) {
    return open_watched<WatchedWaitStrategy>(factory, options);
  };
}

}  // namespace baton::conformance
