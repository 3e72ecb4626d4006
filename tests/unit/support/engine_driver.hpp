// EngineDriver: drives one engine as a processor would: attach, submit, wait, cancel. Also has the
// few files and texts that tests of engines need. Each engine's own driver opens it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../../support/patience.hpp"
#include "baton/engine.hpp"
#include "core/handle_table.hpp"
#include "os/system.hpp"

namespace baton::test {

class EngineDriver {
 public:
  /// Takes the result of a factory; ends the program when it failed.
  EngineDriver(Result<std::unique_ptr<Engine>, Failure> opened, const os::System& system);
  /// Cancels the remaining operations and waits for them; closes adopted descriptors.
  ~EngineDriver();
  EngineDriver(const EngineDriver&) = delete;
  EngineDriver& operator=(const EngineDriver&) = delete;

  [[nodiscard]] Engine& engine() { return *engine_; }

  /// A handle for `fd`, which the driver closes at the end; a borrowed one it leaves alone.
  Handle* adopt(int fd, HandleKind kind, Ownership ownership = Ownership::owned);
  Handle* borrow(int fd, HandleKind kind) { return adopt(fd, kind, Ownership::borrowed); }
  /// Detached, closed and forgotten.
  void release(Handle* handle);

  /// Submits only.
  Submission submit(Operation& operation);
  /// Submits, and flushes like a thread that does not wait next.
  Submission start(Operation& operation);
  CancelAnswer cancel(Operation& operation);
  /// One wait; how many completed.
  std::size_t wait_once(Deadline deadline = at_last());
  bool unpin();
  /// Waits until it is complete; false when that does not happen.
  bool run(const Operation& operation);
  /// Starts and runs.
  bool complete(Operation& operation) { return start(operation), run(operation); }
  /// Looks once, without waiting: nothing is complete.
  void expect_nothing() { EXPECT_EQ(wait_once(Deadline::immediately()), 0U); }

  [[nodiscard]] bool is_done(const Operation& operation) const {
    return done_.count(&operation) != 0;
  }
  /// In the order of completion.
  [[nodiscard]] const std::vector<const Operation*>& history() const { return history_; }
  void forget();

 private:
  void note(Operation& operation);

  std::unique_ptr<HandleTable> handles_;
  std::unique_ptr<Engine> engine_;
  std::vector<Handle*> adopted_;
  std::set<Operation*> in_engine_;
  std::set<const Operation*> done_;
  std::vector<const Operation*> history_;
};

/// Closes in an engine for files: the team may have no other engine that could close a file without
/// blocking the caller.
void expect_closes_by_a_worker(EngineDriver& driver);

void set_file(Operation& operation, OperationKind kind, Handle* handle, MutableBuffer buffer,
              std::uint64_t offset = 0, std::uint16_t flags = 0);

/// In the folder for temporary files, without a name. -1 with errno when the file system does not
/// know the flags (O_DIRECT).
int temporary_file(int flags = 0);
/// Everything that can be read now.
std::string read_all(int fd);
/// Letters in no order, the same for the same seed.
std::string pattern(std::size_t size, unsigned seed = 1);

}  // namespace baton::test
