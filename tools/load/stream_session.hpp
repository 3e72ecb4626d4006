// One connection of the load.
//
// The stream is an endless row of blocks. A block is *released* when the bytes outstanding allow
// it, *sent* as the socket takes it, and *completed* when its last byte has been returned and
// compared; its round trip runs from release to completion. Outstanding are the bytes that are
// released and not yet back, so with window W and block B never more than W + B bytes are on the
// way, and with W = 0 the next block waits for the whole of the one before.
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

  // Release times of the messages on the way, a ring. When more messages may be on the way than
  // the ring has places, only every stride-th is timed: a window of small blocks must not cost a
  // megabyte of times a session.
  std::uint64_t time_stride_ = 1;
  std::size_t time_mask_ = 0;
  std::unique_ptr<std::uint64_t[]> release_times_;
};

}  // namespace baton::tools
