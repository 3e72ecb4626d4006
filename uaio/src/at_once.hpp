// What the calling thread does itself, because no engine is quicker than the call: cached reads,
// buffered writes, and transfers of non-blocking streams (docs/decisions/0003-uaio-routes.md).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "options.hpp"
#include "request.hpp"

namespace uaio {

struct Transfer {
  int fildes;
  int flags;  // of the open file: O_DIRECT ...
  Action action;
  void* data;
  std::size_t size;  // bytes, or buffers of a vectored one
  std::int64_t offset;
  std::size_t bytes;  // in all
};

struct AtOnce {
  enum class Answer : std::uint8_t { done, failed, engine };
  Answer answer = Answer::engine;
  int error = 0;
  std::size_t moved = 0;  // also with `engine`: the rest begins there
};

/// `ordered`: something earlier may have to come first, which matters to appending writes. By
/// `patience` times as many bytes as usual the caller does itself.
AtOnce try_at_once(const Transfer& transfer, const Options& options, bool ordered,
                   std::size_t patience) noexcept;

/// Whether transfers have places in it. Terminals and pipes have none; an eventfd allows lseek, but
/// no transfer at a place.
bool has_position(int fildes) noexcept;

/// Several transfers by one call, which lie behind one another in the file: reads of what is cached
/// or buffered writes. How many bytes were moved; for the rest, and for what went wrong, the single
/// ones are to be tried. REQUIRES: a plain file, offset >= 0.
std::size_t move_run(int fildes, Action action, const iovec* list, std::size_t count,
                     std::int64_t offset) noexcept;

/// The limit of file sizes (RLIMIT_FSIZE) and a write. It is exceeded if the first byte may not be
/// written: the kernel would not only answer EFBIG but send SIGXFSZ to the thread that makes the
/// call.
enum class SizeLimit : std::uint8_t { none, kept, exceeded };
SizeLimit look_up_size_limit(const Transfer& transfer) noexcept;

}  // namespace uaio
