// WrappingEngine: an engine around an inner one that does the work. It forwards everything that the
// outer engine does not change.
#pragma once

#include <errno.h>

#include <memory>
#include <utility>

#include "baton/engine.hpp"

namespace baton::engines {

class WrappingEngine : public Engine {
 public:
  explicit WrappingEngine(std::unique_ptr<Engine> inner) noexcept : inner_(std::move(inner)) {}

  [[nodiscard]] const EngineInfo& info() const noexcept override { return inner_->info(); }
  std::error_code attach(Handle& handle) noexcept override { return inner_->attach(handle); }
  void detach(Handle& handle) noexcept override { inner_->detach(handle); }
  [[nodiscard]] void* handle_record(const Handle& handle) noexcept override {
    return inner_->handle_record(handle);
  }
  void flush() noexcept override { inner_->flush(); }
  void interrupt() noexcept override { inner_->interrupt(); }
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return inner_->descriptor(); }
  [[nodiscard]] Deadline due() noexcept override { return inner_->due(); }
  [[nodiscard]] EngineCounters counters() const noexcept override { return inner_->counters(); }
  void after_fork_in_child() noexcept override { inner_->after_fork_in_child(); }

 protected:
  [[nodiscard]] Engine& inner() noexcept { return *inner_; }
  [[nodiscard]] const Engine& inner() const noexcept { return *inner_; }

  /// The answer when there is no memory for the double: the operation has failed. A close is done
  /// by the caller, so that its descriptor does not leak.
  static Submission without_memory(Operation& operation) noexcept {
    if (operation.kind() == OperationKind::close) return Submission::busy;
    operation.finish(ENOMEM);
    return Submission::completed;
  }

 private:
  std::unique_ptr<Engine> inner_;
};

}  // namespace baton::engines
