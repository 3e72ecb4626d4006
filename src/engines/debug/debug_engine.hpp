// DebugEngine: watches an engine. It submits doubles of the operations, with copies of their
// buffers (block.hpp), to the inner engine. When they return, it checks whether the user has left
// both alone until the completion (contract.md, rule 2), and whether the engine has kept to its own
// memory. A violation is reported with the operation, the place where it was started, and what to
// do. Then the program ends, because its memory cannot be trusted any more.
//
// It exists only if the configuration says debug=1; otherwise it costs nothing.
//
// Locks: mutex_ guards the table of blocks and the quarantine. cancel holds it while the inner
// engine looks for the double, so that the block cannot be freed meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "engines/common/wrapping_engine.hpp"
#include "engines/debug/block.hpp"
#include "os/mutex.hpp"

namespace baton::engines::debug {

class DebugEngine final : public WrappingEngine {
 public:
  DebugEngine(std::unique_ptr<Engine> inner, const EngineOptions& options);
  ~DebugEngine() override;

  Submission submit(Operation& operation, void* record) noexcept override;
  CancelAnswer cancel(Operation& operation) noexcept override;
  void wait(OperationQueue& completed, Deadline deadline) noexcept override;
  bool unpin(OperationQueue& completed) noexcept override;
  void after_fork_in_child() noexcept override;

  /// The lines of a report about an operation that is inside; empty if it is not.
  [[nodiscard]] std::string describe_pending(const Operation& operation) const;

  /// The bytes in the quarantine, for tests of its bound.
  [[nodiscard]] std::size_t quarantined_bytes() const noexcept;

 private:
  using Blocks = std::unordered_map<const Operation*, std::unique_ptr<Block>>;

  bool enter(Operation& operation, Block*& block) noexcept;
  void settle_all(OperationQueue& doubles, OperationQueue& completed);
  std::unique_ptr<Block> leave(Operation& doubled) noexcept;
  void settle(std::unique_ptr<Block> block);
  void check(const Block& block) const;
  void bury(std::unique_ptr<Block> block);
  void abandon() noexcept;
  void exhume() BATON_REQUIRES(mutex_);
  [[nodiscard]] std::string describe(const Block& block) const;

  const os::System& system_;
  mutable os::Mutex mutex_;
  Blocks inside_ BATON_GUARDED_BY(mutex_);
  std::uint64_t serial_ BATON_GUARDED_BY(mutex_) = 0;
  std::deque<std::unique_ptr<Block>> quarantine_ BATON_GUARDED_BY(mutex_);
  std::size_t quarantined_bytes_ BATON_GUARDED_BY(mutex_) = 0;
  bool forked_ = false;
};

}  // namespace baton::engines::debug
