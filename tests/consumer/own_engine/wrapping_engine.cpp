#include "wrapping_engine.hpp"

#include <baton/registry.hpp>
#include <cstdlib>
#include <utility>

namespace {

class WrappingEngine : public baton::Engine {
 public:
  WrappingEngine(std::unique_ptr<baton::Engine> inner, std::string_view name, Fault fault)
      : inner_(std::move(inner)), info_(inner_->info()), fault_(fault) {
    info_.name = name;
    if (fault != Fault::takes_no_files) return;
    for (const auto kind : {baton::OperationKind::read_file, baton::OperationKind::write_file,
                            baton::OperationKind::sync_file}) {
      info_.support[static_cast<std::size_t>(kind)] = baton::Support::unsupported;
    }
  }

  [[nodiscard]] const baton::EngineInfo& info() const noexcept override { return info_; }
  std::error_code attach(baton::Handle& handle) noexcept override { return inner_->attach(handle); }
  void detach(baton::Handle& handle) noexcept override { inner_->detach(handle); }

  baton::Submission submit(baton::Operation& operation, void* record) noexcept override {
    if (fault_ == Fault::dies_in_shutdown && operation.kind() == baton::OperationKind::shutdown) {
      std::abort();
    }
    const baton::Submission answer = inner_->submit(operation, record);
    if (answer == baton::Submission::completed) spoil(operation);
    return answer;
  }
  [[nodiscard]] void* handle_record(const baton::Handle& handle) noexcept override {
    return inner_->handle_record(handle);
  }
  void flush() noexcept override { inner_->flush(); }
  baton::CancelAnswer cancel(baton::Operation& operation) noexcept override {
    return inner_->cancel(operation);
  }
  void wait(baton::OperationQueue& completed, baton::Deadline deadline) noexcept override {
    baton::OperationQueue out;
    inner_->wait(out, deadline);
    while (!out.empty()) {
      baton::Operation& operation = out.pop_front();
      spoil(operation);
      completed.push_back(operation);
    }
  }
  void interrupt() noexcept override { inner_->interrupt(); }
  [[nodiscard]] baton::NativeHandle descriptor() const noexcept override {
    return inner_->descriptor();
  }
  [[nodiscard]] baton::EngineCounters counters() const noexcept override {
    return inner_->counters();
  }
  void after_fork_in_child() noexcept override { inner_->after_fork_in_child(); }

 private:
  void spoil(baton::Operation& operation) const {
    const bool is_end = operation.kind() == baton::OperationKind::read_stream &&
                        !operation.failed() && operation.bytes() == 0;
    if (fault_ == Fault::end_is_an_error && is_end) {
      operation.finish(static_cast<int>(std::errc::connection_reset));
    }
  }

  std::unique_ptr<baton::Engine> inner_;
  baton::EngineInfo info_;
  Fault fault_;
};

baton::EngineFactory emulated() {
  for (const auto& entry : baton::registry().engines()) {
    if (entry.name == "emulated") return entry.factory;
  }
  std::abort();
}

}  // namespace

baton::EngineFactory wrapping_engine(std::string_view name, Fault fault) {
  return [=](const baton::EngineOptions& options)
             -> baton::Result<std::unique_ptr<baton::Engine>, baton::Failure> {
    auto inner = emulated()(options);
    if (!inner) return baton::unexpected{std::move(inner.error())};
    return std::unique_ptr<baton::Engine>{
        std::make_unique<WrappingEngine>(std::move(*inner), name, fault)};
  };
}
