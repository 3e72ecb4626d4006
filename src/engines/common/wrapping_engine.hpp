// WrappingEngine: an engine around another one, which does the work. What the outer one does not
// change is passed on.
#pragma once

#include <errno.h>

#include <memory>
#include <utility>

#include "baton/engine.hpp"
#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::engines {

class WrappingEngine : public Engine {
 public:
  explicit WrappingEngine(std::unique_ptr<Engine> inner) noexcept : inner_(std::move(inner)) {}

  [[nodiscard]] const EngineInfo& info() const noexcept override { return inner_->info(); }
  std::error_code attach(Handle& handle) noexcept override { return inner_->attach(handle); }
  void detach(Handle& handle) noexcept override { inner_->detach(handle); }
  void flush() noexcept override { inner_->flush(); }
  void interrupt() noexcept override { inner_->interrupt(); }
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return inner_->descriptor(); }
  [[nodiscard]] Deadline due() noexcept override { return inner_->due(); }
  [[nodiscard]] EngineCounters counters() const noexcept override { return inner_->counters(); }
  void after_fork_in_child() noexcept override { inner_->after_fork_in_child(); }

 protected:
  [[nodiscard]] Engine& inner() noexcept { return *inner_; }
  [[nodiscard]] const Engine& inner() const noexcept { return *inner_; }

  /// For one without memory for what would stand for it inside: it has failed. But a close is done:
  /// one that may block is better than a descriptor that leaks.
  static Submission fail_for_memory(Operation& operation, const os::System& system) noexcept {
    int error = ENOMEM;
    if (operation.kind() == OperationKind::close) {
      const Handle& handle = *operation.handle();
      // EINTR: the number is gone all the same (Linux).
      const bool done = !handle.owned() || system.close(handle.native()) == 0 || errno == EINTR;
      error = done ? 0 : errno;
    }
    operation.finish(error);
    return Submission::completed;
  }

 private:
  std::unique_ptr<Engine> inner_;
};

}  // namespace baton::engines
