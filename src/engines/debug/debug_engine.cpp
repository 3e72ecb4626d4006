// Watches an engine and its users.
#include "engines/debug/debug_engine.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "engines/debug/report.hpp"
#include "os/process_mutex.hpp"
#include "os/system.hpp"

namespace baton::engines::debug {
namespace {

// The bounds of the quarantine: a block stays until as many others have come after it.
constexpr std::size_t quarantine_blocks_max = 256;
constexpr std::size_t quarantine_bytes_max = std::size_t{16} << 20;

/// The open engines: a destroyed operation does not know which of them has it. Never destroyed:
/// operations may be static objects. Guarded by os::process_mutex, and so is its construction.
std::vector<DebugEngine*>& open_engines() {
  static auto& open = *new std::vector<DebugEngine*>;
  return open;
}

void tell_of_destroyed(const void* object) noexcept {
  std::string which;
  {
    const os::LockGuard lock{os::process_mutex, os::real_system()};
    for (const DebugEngine* engine : open_engines()) {
      which += engine->describe_pending(*static_cast<const Operation*>(object));
    }
  }
  // Without the lock: the program's handler of SIGABRT may fork, and a fork waits for it.
  if (which.empty()) return;
  users_mistake("an operation was destroyed before it was complete", which);
}

}  // namespace

DebugEngine::DebugEngine(std::unique_ptr<Engine> inner, const EngineOptions& options)
    : WrappingEngine(std::move(inner)), system_(os::or_real(options.system)) {
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  open_engines().push_back(this);
  // release: with the list above.
  destroyed_early.store(tell_of_destroyed, std::memory_order_release);
}

DebugEngine::~DebugEngine() {
  {
    const os::LockGuard lock{os::process_mutex, os::real_system()};
    std::erase(open_engines(), this);
  }
  if (forked_) {  // a lock may be held by a thread that does not exist here
    abandon();
    return;
  }
  const os::LockGuard lock{mutex_, system_};
  while (!quarantine_.empty()) exhume();
}

void DebugEngine::abandon() noexcept {
  mutex_.assume_held();  // the child has one thread
  for (const auto& block : quarantine_) static_cast<void>(block->grave_robber());  // no poison left
}

void DebugEngine::after_fork_in_child() noexcept {
  forked_ = true;
  WrappingEngine::after_fork_in_child();
}

std::string DebugEngine::describe(const Block& block) const {
  return block.describe(info().name, system_.monotonic_ns());
}

// -- in -------------------------------------------------------------------------------------------

// False: no memory.
bool DebugEngine::enter(Operation& operation, Block*& block) noexcept {
  try {
    std::uint64_t serial = 0;
    {
      const os::LockGuard lock{mutex_, system_};
      serial = ++serial_;
      if (const auto found = inside_.find(&operation); found != inside_.end()) {
        users_mistake("an operation was started again while it was inside the engine",
                      describe(*found->second));
      }
    }
    auto fresh = std::make_unique<Block>(operation, serial, system_.monotonic_ns());
    block = fresh.get();
    {
      const os::LockGuard lock{mutex_, system_};
      inside_.emplace(&operation, std::move(fresh));
      // The block becomes visible here: a cancel that came earlier has set the mark.
      if (operation.cancel_asked()) block->ask_cancel();
    }
    block->take_over();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Submission DebugEngine::submit(Operation& operation, void* record) noexcept {
  Block* block = nullptr;
  if (!enter(operation, block)) return without_memory(operation);
  const Submission answer = inner().submit(*block, record);
  if (answer == Submission::pending) return answer;  // the block may be gone by now
  auto mine = leave(*block);
  if (answer == Submission::completed) {
    settle(std::move(mine));
  } else {
    check(*mine);
    mine->give_back();
  }
  return answer;
}

// -- out ------------------------------------------------------------------------------------------

std::unique_ptr<Block> DebugEngine::leave(Operation& doubled) noexcept {
  auto& block = static_cast<Block&>(doubled);
  const os::LockGuard lock{mutex_, system_};
  const auto found = inside_.find(&block.original());
  if (found == inside_.end() || found->second.get() != &block) {
    engines_mistake("the engine gave an operation back that it does not have", describe(block));
  }
  auto mine = std::move(found->second);
  inside_.erase(found);
  return mine;
}

void DebugEngine::check(const Block& block) const {
  if (const std::string fault = block.engines_fault(); !fault.empty()) {
    engines_mistake(fault, describe(block));
  }
  if (const std::string fault = block.users_fault(); !fault.empty()) {
    users_mistake(fault, describe(block));
  }
}

void DebugEngine::settle(std::unique_ptr<Block> block) {
  check(*block);
  block->give_back();
  block->report_to(block->original());
  bury(std::move(block));
}

void DebugEngine::wait(OperationQueue& completed, Deadline deadline) noexcept {
  OperationQueue doubles;
  inner().wait(doubles, deadline);
  settle_all(doubles, completed);
}

bool DebugEngine::unpin(OperationQueue& completed) noexcept {
  OperationQueue doubles;
  const bool done = inner().unpin(doubles);
  settle_all(doubles, completed);
  return done;
}

void DebugEngine::settle_all(OperationQueue& doubles, OperationQueue& completed) {
  while (!doubles.empty()) {
    auto block = leave(doubles.pop_front());
    Operation& operation = block->original();
    settle(std::move(block));
    completed.push_back(operation);
  }
}

CancelAnswer DebugEngine::cancel(Operation& operation) noexcept {
  Block* block = nullptr;
  CancelAnswer answer{};
  {
    const os::LockGuard lock{mutex_, system_};
    const auto found = inside_.find(&operation);
    if (found == inside_.end()) return CancelAnswer::too_late;
    block = found->second.get();
    block->ask_cancel();
    answer = inner().cancel(*block);
  }
  // The engine has released it, so only this thread has it.
  if (answer == CancelAnswer::completed) settle(leave(*block));
  return answer;
}

// -- quarantine -----------------------------------------------------------------------------------

void DebugEngine::bury(std::unique_ptr<Block> block) {
  const os::LockGuard lock{mutex_, system_};
  try {
    quarantine_.emplace_back();
  } catch (const std::bad_alloc&) {
    return;  // freed at once, without a quarantine
  }
  quarantined_bytes_ += block->bytes_held();
  block->bury();
  quarantine_.back() = std::move(block);
  while (quarantine_.size() > quarantine_blocks_max || quarantined_bytes_ > quarantine_bytes_max) {
    exhume();
  }
}

void DebugEngine::exhume() {
  const std::unique_ptr<Block> oldest = std::move(quarantine_.front());
  quarantine_.pop_front();
  quarantined_bytes_ -= oldest->bytes_held();
  if (const std::string fault = oldest->grave_robber(); !fault.empty()) {
    engines_mistake(fault, describe(*oldest));
  }
}

std::size_t DebugEngine::quarantined_bytes() const noexcept {
  const os::LockGuard lock{mutex_, system_};
  return quarantined_bytes_;
}

std::string DebugEngine::describe_pending(const Operation& operation) const {
  const os::LockGuard lock{mutex_, system_};
  const auto found = inside_.find(&operation);
  return found != inside_.end() ? describe(*found->second) : std::string{};
}

}  // namespace baton::engines::debug
