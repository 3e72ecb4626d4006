// The real system in which the n-th call of one kind fails, as limits, filters, signals, memory
// pressure and old kernels make it fail. It counts mappings and running threads, so that a test
// sees leaks.
//
// One plan at a time, process-wide, because the table has no context.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "os/system.hpp"

namespace baton::test {

/// Answers that are no errno: the call moves one byte where it could move more; a wait on a word
/// ends although nothing has come.
inline constexpr int cut_short = -1;
inline constexpr int spurious = -2;

/// One kind of call, and the possible errors.
struct FailingCall {
  const char* name;
  std::vector<int> opening;  ///< while a proactor is opened, by old kernels and filters, too
  std::vector<int> running;  ///< later
};

/// All that can be made to fail; their places in this list name them below.
const std::vector<FailingCall>& failing_calls();

/// "ENOMEM", "cut short" and the like: for messages.
std::string name_of_fault(int error);

inline constexpr std::size_t every_later_call = ~std::size_t{0};

/// While one of these lives, calls are counted, and one kind of them fails: the n-th that can fail
/// in this way, and `times` - 1 after it.
class FailingCalls {
 public:
  enum class Whose : unsigned char { this_thread, everybody };

  FailingCalls(Whose whose, std::size_t call, std::size_t nth, int error, std::size_t times = 1);
  /// Only counts.
  explicit FailingCalls(Whose whose);
  ~FailingCalls() { end(); }
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  /// From now on all calls go through.
  void end();
  /// How many calls of this kind there were; and whether any failed.
  [[nodiscard]] std::size_t count(std::size_t call) const;
  [[nodiscard]] bool hit() const;
};

const os::System& failing_system();

/// While one of these lives, the descriptors that eventfd and pipe2 give are the library's own, for
/// its interrupts: their calls fail only as such descriptors can.
class OpensProactor {
 public:
  OpensProactor();
  ~OpensProactor();
  OpensProactor(const OpensProactor&) = delete;
  OpensProactor& operator=(const OpensProactor&) = delete;
};

/// The resources of a proactor: its descriptors (and the rest of the process's), mappings made and
/// threads started through the table, contexts of the kernel's AIO.
struct Held {
  std::size_t descriptors = 0;
  long mappings = 0;
  long threads = 0;
  long contexts = 0;
  std::string blocked_signals;  ///< of this thread, from /proc
  bool operator==(const Held&) const = default;
};
Held held_now();
void PrintTo(const Held& held, std::ostream* out);

}  // namespace baton::test
