// Makes the n-th system call of one kind fail, for calls that the bridge makes itself, past Baton's
// table. The linker redirects them here (--wrap, in CMakeLists.txt), together with Baton's calls of
// the same name. One plan at a time, process-wide.
#pragma once

#include <cstddef>
#include <vector>

namespace baton::ace::test {

/// One kind of call, and what a system may answer to it.
struct WrappedCall {
  const char* name;
  std::vector<int> errors;
};
const std::vector<WrappedCall>& wrapped_calls();

/// While one of these lives, calls are counted, and the n-th of this kind fails; 0: none does.
class FailingWrapped {
 public:
  FailingWrapped(std::size_t call, std::size_t nth, int error) noexcept;
  ~FailingWrapped() { end(); }
  FailingWrapped(const FailingWrapped&) = delete;
  FailingWrapped& operator=(const FailingWrapped&) = delete;

  void end() noexcept;
  [[nodiscard]] std::size_t count(std::size_t call) const noexcept;
  [[nodiscard]] bool hit() const noexcept;
};

/// The calling thread's calls are the test's own: neither counted nor failed.
class ExemptCalls {
 public:
  ExemptCalls() noexcept;
  ~ExemptCalls();
  ExemptCalls(const ExemptCalls&) = delete;
  ExemptCalls& operator=(const ExemptCalls&) = delete;
};

}  // namespace baton::ace::test
