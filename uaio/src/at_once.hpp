// Requests that the calling thread carries out itself, because no engine is quicker than the call:
// cached reads, buffered writes, and transfers of non-blocking streams
// (docs/decisions/0003-uaio-routes.md).
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

/// `ordered`: an earlier request may have to come first, which matters for appending writes.
/// `patience`: the factor by which the limit for transfers in the caller is raised.
AtOnce try_at_once(const Transfer& transfer, const Options& options, bool ordered,
                   std::size_t patience) noexcept;

/// Whether transfers have an offset. On terminals and pipes they have none; an eventfd allows
/// lseek, but no transfer at an offset.
bool has_position(int fildes) noexcept;
/// An open file whose transfers have no offset.
bool is_stream(int fildes) noexcept;

/// Several transfers that are adjacent in the file by one call: reads of cached data, or buffered
/// writes. Returns how many bytes were moved; the caller tries the remaining and failed ones
/// singly. REQUIRES: a plain file, offset >= 0.
std::size_t move_run(int fildes, Action action, const iovec* list, std::size_t count,
                     std::int64_t offset) noexcept;

}  // namespace uaio
