// One connection of the load: what it may send, what must come back, and when.
//
// The stream is an endless row of blocks. A block is *released* when the bytes outstanding allow
// it, *sent* as the socket takes it, and *completed* when its last byte has come back and been
// compared; its round trip runs from release to completion. Outstanding is what is released and
// not yet back, so with window W and block B never more than W + B bytes are on the way, and with
// W = 0 the next block waits for the whole of the one before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "histogram.hpp"
#include "pattern.hpp"

namespace baton::tools {

class Session {
 public:
  // What one visit to the socket came to.
  enum class Progress : std::uint8_t {
    waiting,  // nothing more to do before the next event
    more,     // the visit's share is used up and there may be more to read: come again
    failed,   // the session is over; error() says why
  };

  Session(std::size_t number, std::size_t block, std::size_t window);

  // Reads, compares, completes; then releases new blocks unless `closing`, and sends what it can.
  // `buffer` is scratch memory. `now` is the time in nanoseconds that this visit's completions
  // and releases carry: one reading of the clock for both is exact enough, for they are
  // microseconds apart, and halves what the clock costs.
  Progress visit(int descriptor, const Pattern& pattern, std::span<std::byte> buffer,
                 std::uint64_t now, bool readable, bool closing, Histogram& round_trips);

  // Everything that was released has come back.
  bool idle() const { return received_ == released_; }
  bool failed() const { return !error_.empty(); }

  std::size_t number() const { return number_; }
  std::uint64_t messages() const { return completed_count_; }
  std::uint64_t received() const { return received_; }
  std::uint64_t outstanding() const { return released_ - received_; }
  bool byte_was_wrong() const { return wrong_; }
  const std::string& error() const { return error_; }

 private:
  Progress receive(int descriptor, const Pattern& pattern, std::span<std::byte> buffer,
                   std::uint64_t now, Histogram& round_trips);
  bool accept_bytes(const Pattern& pattern, std::span<const std::byte> bytes);
  void complete(std::uint64_t now, Histogram& round_trips);
  void release(std::uint64_t now);
  bool send(int descriptor, const Pattern& pattern);
  void fail(std::string why) { error_ = std::move(why); }
  std::string describe_difference(const Pattern& pattern, std::span<const std::byte> bytes,
                                  std::size_t at) const;

  std::size_t number_;
  std::size_t phase_;
  std::uint64_t block_;
  std::uint64_t window_;
  std::uint64_t released_ = 0;         // bytes
  std::uint64_t sent_ = 0;             // bytes
  std::uint64_t received_ = 0;         // bytes
  std::uint64_t released_count_ = 0;   // messages
  std::uint64_t completed_count_ = 0;  // messages

  // Release times of the messages on the way, a ring. When more messages may be on the way than
  // the ring has places, only every stride-th is timed: a window of small blocks must not cost a
  // megabyte of times a session.
  std::uint64_t time_stride_ = 1;
  std::size_t time_mask_ = 0;
  std::unique_ptr<std::uint64_t[]> release_times_;

  bool wrong_ = false;
  std::string error_;
};

}  // namespace baton::tools
