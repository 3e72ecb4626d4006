// One peer of the load: the bytes to send, and the expected answers with their times.
// stream_session.hpp and datagram_session.hpp implement it for streams and datagrams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "histogram.hpp"
#include "pattern.hpp"

namespace baton::tools {

// The numbers of datagrams: all that were sent, those that were given up, and of these the ones
// that came late. Zero for a stream.
struct DatagramCounts {
  std::uint64_t sent = 0;
  std::uint64_t given_up = 0;
  std::uint64_t late = 0;

  std::uint64_t lost() const { return given_up - late; }
  void add(const DatagramCounts& other) {
    sent += other.sent;
    given_up += other.given_up;
    late += other.late;
  }
};

class Session {
 public:
  // The outcome of one visit to the socket.
  enum class Progress : std::uint8_t {
    waiting,  // nothing to do before the next event
    more,     // the visit's share is used up, and there may be more to read
    failed,   // the session is over; error() says why
  };

  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Reads, compares, completes; then releases new blocks unless `closing`, and sends as much as
  // possible. `buffer` is scratch memory. `now` is the time in nanoseconds of this visit's
  // completions and releases. They are microseconds apart, so one reading of the clock is exact
  // enough and costs half.
  virtual Progress visit(int descriptor, const Pattern& pattern, std::span<std::byte> buffer,
                         std::uint64_t now, bool readable, bool closing,
                         Histogram& round_trips) = 0;

  // Everything that was released has come back or was given up.
  bool idle() const { return received_ == released_; }
  bool failed() const { return !error_.empty(); }

  std::size_t number() const { return number_; }
  std::uint64_t messages() const { return completed_count_; }
  std::uint64_t received() const { return received_; }
  std::uint64_t outstanding() const { return released_ - received_; }
  const DatagramCounts& datagrams() const { return datagrams_; }
  bool byte_was_wrong() const { return wrong_; }
  const std::string& error() const { return error_; }

 protected:
  Session(std::size_t number, std::size_t block)
      : number_(number), phase_(Pattern::phase_of(number)), block_(block) {}

  void fail(std::string why) { error_ = std::move(why); }
  void fail_wrong(std::string why) {
    wrong_ = true;
    fail(std::move(why));
  }

  const std::size_t number_;
  const std::size_t phase_;
  const std::uint64_t block_;
  std::uint64_t released_ = 0;         // bytes
  std::uint64_t received_ = 0;         // bytes
  std::uint64_t completed_count_ = 0;  // messages
  DatagramCounts datagrams_;

 private:
  bool wrong_ = false;
  std::string error_;
};

}  // namespace baton::tools
