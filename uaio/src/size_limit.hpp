// The limit of file sizes (RLIMIT_FSIZE). The kernel answers a write beyond it with EFBIG, and also
// sends SIGXFSZ to the thread that wrote. In the system's library that is a thread in which the
// signal is blocked; here it may be the program's.
//
// So the limit is looked up before a thread of the program writes. libuaio-preload.so has the
// functions by which a program changes its limits. There the library remembers that no limit is set
// until the next such call, and for 10 ms at most: another process may set one, too. While a call
// is under way it asks: a handler may interrupt it, and another thread may fork.
#pragma once

#include "at_once.hpp"

namespace uaio {

/// How a write relates to the limit. It is exceeded if the first byte may not be written. For an
/// append that is uncertain: another one may lengthen the file first.
enum class SizeLimit : std::uint8_t { none, kept, uncertain, exceeded };
SizeLimit look_up_size_limit(const Transfer& transfer) noexcept;

/// REQUIRES: there is a LimitChange around each change that the program makes by libc's functions.
void remember_size_limit() noexcept;

/// The limit may change while this exists. The library asks from then on if a handler leaves the
/// call by a jump, if a child of fork has the copy of one, and if a child of vfork makes one.
class LimitChange {
 public:
  LimitChange() noexcept;
  ~LimitChange();
  LimitChange(const LimitChange&) = delete;
  LimitChange& operator=(const LimitChange&) = delete;
};

}  // namespace uaio
