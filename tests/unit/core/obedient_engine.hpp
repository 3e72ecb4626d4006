// An engine that answers as its test says, and a processor around it: for unit tests of the
// accounts and loops of the core.
#pragma once

#include <errno.h>

#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>

#include "baton/engine.hpp"
#include "core/processor.hpp"

namespace baton::test {

/// Answers as the test sets it.
class ObedientEngine final : public Engine {
 public:
  [[nodiscard]] const EngineInfo& info() const noexcept override { return facts; }
  std::error_code attach(Handle&) noexcept override {
    ++attached;
    return attach_error;
  }
  void detach(Handle&) noexcept override { ++detached; }
  Submission submit(Operation& operation, void* record) noexcept override {
    ++submitted;
    record_of_last = record;
    if (answer == Submission::completed) operation.finish(outcome);
    return answer;
  }
  [[nodiscard]] void* handle_record(const Handle& handle) noexcept override {
    return &records[handle.index()];
  }
  void flush() noexcept override { ++flushed; }
  CancelAnswer cancel(Operation& operation) noexcept override {
    ++cancelled;
    if (cancel_answer == CancelAnswer::completed) operation.finish(ECANCELED);
    return cancel_answer;
  }
  void wait(OperationQueue&, Deadline) noexcept override { cancelled_before_wait = cancelled; }
  bool unpin(OperationQueue&) noexcept override {
    cancelled_before_unpin = cancelled;
    return unpins;
  }
  void interrupt() noexcept override { ++interrupted; }

  EngineInfo facts;
  std::error_code attach_error;
  Submission answer = Submission::pending;
  int outcome = 0;
  CancelAnswer cancel_answer = CancelAnswer::requested;
  int attached = 0;
  int detached = 0;
  int submitted = 0;
  int flushed = 0;
  int cancelled = 0;
  int cancelled_before_wait = 0;
  bool unpins = false;
  int cancelled_before_unpin = 0;
  int interrupted = 0;
  int records[16] = {};  // by handles
  void* record_of_last = nullptr;
};

struct Part {
  ObedientEngine* engine = nullptr;
  std::unique_ptr<Processor> processor;
};

inline Part part(Mode mode, std::uint16_t index, bool any_thread,
                 const ProcessorConfig& config = {}, OperationKinds unsupported = {}) {
  auto engine = std::make_unique<ObedientEngine>();
  Part made;
  made.engine = engine.get();
  engine->facts.start_from_any_thread = any_thread;
  for (std::size_t kind = 0; kind < operation_kinds; ++kind) {
    const bool refused = unsupported.has(static_cast<OperationKind>(kind));
    engine->facts.support[kind] = refused ? Support::unsupported : Support::native;
  }
  made.processor = std::make_unique<Processor>(std::move(engine), config, mode, index);
  return made;
}

}  // namespace baton::test
