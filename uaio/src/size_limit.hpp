// The limit of file sizes (RLIMIT_FSIZE). The kernel answers a write beyond it with EFBIG, and also
// sends SIGXFSZ to the thread that wrote. In the system's library that is a thread in which the
// signal is blocked; here it may be the program's.
//
// So the limit is looked up before a thread of the program writes. libuaio-preload.so has the
// functions by which a program changes its limits. There the library remembers that no limit is set
// until the next such call, and for 10 ms at most: another process may set one, too. A call that
// changes the limit waits for the writes that are under way, and those that come meanwhile are made
// by a thread in which the signal is blocked.
#pragma once

#include "at_once.hpp"

namespace uaio {

/// How a write relates to the limit. It is exceeded if the first byte may not be written. For an
/// append that is uncertain: another one may lengthen the file first.
enum class SizeLimit : std::uint8_t { none, kept, uncertain, exceeded };
SizeLimit look_up_size_limit(const Transfer& transfer) noexcept;

/// REQUIRES: there is a LimitChange around each change that the program makes by libc's functions.
void remember_size_limit() noexcept;

/// Around the look-up and the write of a thread of the program.
class MayWrite {
 public:
  explicit MayWrite(bool writes) noexcept;
  ~MayWrite();
  MayWrite(const MayWrite&) = delete;
  MayWrite& operator=(const MayWrite&) = delete;

 private:
  const bool writes_;
};

/// The limit may change while this exists. It waits for the threads that write, for a second at
/// most: a file's server may not answer, and a handler that has left a write by a jump has ended
/// nothing. After a jump out of a change all writes are made as during a change.
class LimitChange {
 public:
  LimitChange() noexcept;
  ~LimitChange();
  LimitChange(const LimitChange&) = delete;
  LimitChange& operator=(const LimitChange&) = delete;

 private:
  const bool is_own_;
};

/// In a child of fork, which has none of the parent's other threads.
void forget_limits_of_other_threads() noexcept;

}  // namespace uaio
