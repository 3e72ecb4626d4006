// The real system in which the n-th call of one kind fails, in the thread that opens a proactor: as
// limits, filters and old kernels make it fail. It counts what is mapped and which threads run, so
// that a test sees what an open that failed has left behind.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "os/system.hpp"

namespace baton::test {

/// One kind of call that an open may make, and what a system may answer to it.
struct FailingCall {
  const char* name;
  std::vector<int> errors;
};

/// All that can be made to fail; their places in this list name them below.
const std::vector<FailingCall>& failing_calls();

enum class Faulty : unsigned char {
  once,    ///< only the n-th call: a limit that was reached for a moment
  onwards  ///< the n-th and all later ones: a filter, a limit that stays
};

/// While one of these lives, this thread's calls are counted, and one kind of them fails. Other
/// threads are left alone.
class FaultAtStart {
 public:
  FaultAtStart(std::size_t call, std::size_t nth, int error, Faulty how);
  /// Only counts.
  FaultAtStart();
  ~FaultAtStart();
  FaultAtStart(const FaultAtStart&) = delete;
  FaultAtStart& operator=(const FaultAtStart&) = delete;

  /// How many calls of this kind there were; and whether any failed.
  [[nodiscard]] std::size_t count(std::size_t call) const;
  [[nodiscard]] bool hit() const;
};

const os::System& failing_system();

/// What a proactor holds: its descriptors (and everybody else's), mappings made and threads started
/// through the table, contexts of the kernel's AIO.
struct Held {
  std::size_t descriptors = 0;
  long mappings = 0;
  long threads = 0;
  long contexts = 0;
  std::string blocked_signals;  ///< of this thread, as /proc tells
  bool operator==(const Held&) const = default;
};
Held held_now();
void PrintTo(const Held& held, std::ostream* out);

}  // namespace baton::test
