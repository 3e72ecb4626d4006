// The books of the datagrams of one round. Each datagram is received once, whole or cut to the
// receiver's buffer, by the socket it was sent to; or the machine has dropped it for a known
// reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "simulation/flow.hpp"

namespace baton::tools::simulation {

class DatagramBook {
 public:
  /// The size and the number of a datagram stand at its beginning.
  static constexpr std::size_t size_least = 8;
  static constexpr std::size_t size_most = 1'024;

  void clear() noexcept { sent_.clear(); }

  /// Fills in the bytes to send. Its number. REQUIRES: size_least to size_most bytes.
  std::uint32_t begin(std::span<std::byte> bytes, std::uint16_t from, std::uint16_t to) {
    const auto number = static_cast<std::uint32_t>(sent_.size());
    const auto size = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(bytes.data(), &size, sizeof(size));
    std::memcpy(bytes.data() + sizeof(size), &number, sizeof(number));
    std::memcpy(bytes.data() + size_least, Pattern::at(size + number), size - size_least);
    sent_.push_back({size, from, to, State::under_way, false});
    return number;
  }
  void end(std::uint32_t number, bool failed) noexcept {
    sent_[number].state = failed ? State::failed : State::sent;
  }

  /// Null, or the fault of a received datagram.
  const char* received(std::span<const std::byte> bytes, std::size_t buffer_size,
                       std::uint16_t from, std::uint16_t by) noexcept {
    const std::optional<std::uint32_t> number = number_of(bytes);
    if (!number) return "a datagram that was never sent";
    Sent& sent = sent_[*number];
    if (bytes.size() != (sent.size < buffer_size ? sent.size : buffer_size) ||
        std::memcmp(bytes.data() + size_least, Pattern::at(sent.size + *number),
                    bytes.size() - size_least) != 0) {
      return "a datagram differs from what was sent";
    }
    if (sent.to != by) return "a datagram is received by another socket";
    if (sent.from != from) return "a datagram comes from another socket";
    if (sent.over) return "a datagram is received twice, or although it was dropped";
    sent.over = true;
    return nullptr;
  }
  /// The machine has dropped it. False: it is unknown, or was received.
  bool dropped(std::span<const std::byte> bytes) noexcept {
    const std::optional<std::uint32_t> number = number_of(bytes);
    return number && !std::exchange(sent_[*number].over, true);
  }

  /// Null, or the fault at the end, when nothing is in flight.
  [[nodiscard]] const char* wrong() const noexcept {
    for (const Sent& each : sent_) {
      if (each.state == State::sent && !each.over) {
        return "a datagram that was sent was neither received nor dropped";
      }
      if (each.state == State::failed && each.over) {
        return "a datagram was sent although its send has failed";
      }
    }
    return nullptr;
  }

 private:
  enum class State : std::uint8_t { under_way, sent, failed };
  struct Sent {
    std::uint32_t size;
    std::uint16_t from;
    std::uint16_t to;
    State state;
    bool over;  // received or dropped
  };

  [[nodiscard]] std::optional<std::uint32_t> number_of(
      std::span<const std::byte> bytes) const noexcept {
    if (bytes.size() < size_least) return std::nullopt;
    std::uint32_t size = 0;
    std::uint32_t number = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    std::memcpy(&number, bytes.data() + sizeof(size), sizeof(number));
    if (number >= sent_.size() || sent_[number].size != size) return std::nullopt;
    return number;
  }

  std::vector<Sent> sent_;
};

}  // namespace baton::tools::simulation
