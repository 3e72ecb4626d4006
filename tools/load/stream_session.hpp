// One connection of the load.
//
// The stream is an endless row of blocks. A block is *released* when the bytes in flight allow it,
// *sent* as the socket takes it, and *completed* when its last byte has been returned and compared.
// Its round trip lasts from release to completion. Bytes in flight are released and not yet back.
// So with window W and block B at most W + B bytes are in flight, and with W = 0 the next block
// waits until the one before is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "session.hpp"

namespace baton::tools {

class StreamSession final : public Session {
 public:
  StreamSession(std::size_t number, std::size_t block, std::size_t window);

  Progress visit(int descriptor, const Pattern& pattern, std::span<std::byte> buffer,
                 std::uint64_t now, bool readable, bool closing, Histogram& round_trips) override;

 private:
  Progress receive(int descriptor, const Pattern& pattern, std::span<std::byte> buffer,
                   std::uint64_t now, Histogram& round_trips);
  bool accept_bytes(const Pattern& pattern, std::span<const std::byte> bytes);
  void complete(std::uint64_t now, Histogram& round_trips);
  void release(std::uint64_t now);
  bool send(int descriptor, const Pattern& pattern);
  std::string describe_difference(const Pattern& pattern, std::span<const std::byte> bytes,
                                  std::size_t at) const;

  const std::uint64_t window_;
  std::uint64_t sent_ = 0;            // bytes
  std::uint64_t released_count_ = 0;  // messages

  // A ring with the release times of the messages in flight. If there may be more of them than the
  // ring has places, only every stride-th is timed. Otherwise a window of small blocks would cost a
  // megabyte a session.
  std::uint64_t time_stride_ = 1;
  std::size_t time_mask_ = 0;
  std::unique_ptr<std::uint64_t[]> release_times_;
};

}  // namespace baton::tools
