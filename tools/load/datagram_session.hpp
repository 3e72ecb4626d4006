// One peer of the load over UDP.
//
// A datagram carries its number, then bytes of the session's pattern from an offset that follows
// from the number. Datagrams may be lost and may come back in any order. So each one in flight has
// a place of its own, and its number is place + count of places * how often the place has sent. A
// datagram that is not back after a while is given up, and its place sends the next one, so no
// place waits for ever. A datagram that arrives after that is late, not lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "session.hpp"

namespace baton::tools {

class DatagramSession final : public Session {
 public:
  // `window`: bytes that may be in flight beyond one datagram, as over a stream.
  DatagramSession(std::size_t number, std::size_t block, std::size_t window);

  // The interval of visits without events, to find lost datagrams.
  static constexpr std::uint64_t look_ns = 50'000'000;

  Progress visit(int descriptor, const Pattern& pattern, std::span<std::byte> buffer,
                 std::uint64_t now, bool readable, bool closing, Histogram& round_trips) override;

 private:
  struct Place {
    std::uint64_t sent_at = 0;
    std::uint64_t turn = 0;  // number of earlier datagrams of this place
    bool on_the_way = false;
  };

  std::uint64_t number_of(std::size_t place) const {
    return place + places_.size() * places_[place].turn;
  }
  std::span<const std::byte> content_of(std::uint64_t datagram, const Pattern& pattern) const;
  void end_turn(std::size_t place);
  void give_up_old(std::uint64_t now);
  Progress receive(int descriptor, const Pattern& pattern, std::span<std::byte> buffer,
                   std::uint64_t now, bool closing, Histogram& round_trips);
  bool accept_datagram(const Pattern& pattern, std::span<const std::byte> bytes, std::uint64_t now,
                       Histogram& round_trips);
  bool send(int descriptor, const Pattern& pattern, std::uint64_t now);

  std::vector<Place> places_;
  std::vector<std::size_t> free_;  // places with nothing in flight
  // Numbers that were given up and have not come back. It grows by at most a window in the time
  // after which a datagram is given up.
  std::unordered_set<std::uint64_t> given_up_;
  std::uint64_t look_at_ = 0;
};

}  // namespace baton::tools
