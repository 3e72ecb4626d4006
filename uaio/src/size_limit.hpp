// The limit of file sizes (RLIMIT_FSIZE). The kernel answers a write beyond it with EFBIG, and also
// sends SIGXFSZ to the thread that wrote. In the system's library that is a thread in which the
// signal is blocked; here it may be the program's.
//
// So the limit is looked up before a thread of the program writes. libuaio-preload.so has the
// functions by which a program changes its limits. There the library remembers that no limit is set
// until the next such call, and for 10 ms at most: another process may set one, too.
#pragma once

#include "at_once.hpp"

namespace uaio {

/// How a write relates to the limit. It is exceeded if the first byte may not be written.
enum class SizeLimit : std::uint8_t { none, kept, exceeded };
SizeLimit look_up_size_limit(const Transfer& transfer) noexcept;

/// REQUIRES: limit_may_have_changed() is called after each change that the program makes by libc's
/// functions.
void remember_size_limit() noexcept;
void limit_may_have_changed() noexcept;

}  // namespace uaio
