// Reasons: the machine's own faults in one round. The judge accepts nothing from the library
// that has neither a reason here nor one in the program's actions.
#pragma once

#include <errno.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/kernel.hpp"
#include "simulation/datagram_book.hpp"

namespace baton::tools::simulation {

class Reasons final : public sim::Witness {
 public:
  void begin() {
    datagrams.clear();
    failed_.clear();
    reset_.clear();
    taken_.clear();
    aborted_.clear();
    strange_ = false;
  }

  /// Uses up a fault of the machine of this kind that was not reported yet. False: there is none.
  [[nodiscard]] bool take_failure(int error) noexcept {
    const auto found = std::find(failed_.begin(), failed_.end(), error);
    if (found == failed_.end()) return false;
    *found = failed_.back();
    failed_.pop_back();
    return true;
  }
  [[nodiscard]] bool has_failed(int error) const noexcept {
    return std::find(failed_.begin(), failed_.end(), error) != failed_.end();
  }
  /// A drawn fault has reset the connection of this channel.
  [[nodiscard]] bool has_reset(std::uint32_t channel) const noexcept {
    return std::find(reset_.begin(), reset_.end(), channel) != reset_.end();
  }
  [[nodiscard]] bool has_reset_any() const noexcept { return !reset_.empty(); }
  /// A drawn fault has ended the connection from this port before it was accepted.
  [[nodiscard]] bool has_aborted(std::uint16_t port) const noexcept {
    return std::find(aborted_.begin(), aborted_.end(), port) != aborted_.end();
  }
  [[nodiscard]] bool has_aborted_any() const noexcept { return !aborted_.empty(); }
  /// An accept was reported. False: the machine has accepted nothing from this port, or it was
  /// reported before.
  [[nodiscard]] bool take_accepted(std::uint16_t port) noexcept {
    return std::erase(taken_, port) != 0;
  }
  /// Taken from the backlog, not reported, and descriptors were short: closed at once, as
  /// documented.
  [[nodiscard]] bool may_have_turned_away(std::uint16_t port) const noexcept {
    return has_failed(EMFILE) && std::find(taken_.begin(), taken_.end(), port) != taken_.end();
  }
  /// At the end: each connection was reported, or turned away.
  [[nodiscard]] bool all_accepted_are_told() const noexcept {
    return std::ssize(taken_) <= std::count(failed_.begin(), failed_.end(), EMFILE);
  }
  /// Datagrams were dropped that were never sent, or were dropped twice.
  [[nodiscard]] bool strange() const noexcept { return strange_; }

  void failed(int error) noexcept override { failed_.push_back(error); }
  void reset(const sim::Channel* one, const sim::Channel* other) noexcept override {
    for (const sim::Channel* each : {one, other}) {
      if (each != nullptr) reset_.push_back(each->number);
    }
  }
  void dropped(std::span<const std::byte> datagram, sim::Drop) noexcept override {
    strange_ |= !datagrams.dropped(datagram);
  }
  void accepted(std::uint16_t from, bool aborted) noexcept override {
    (aborted ? aborted_ : taken_).push_back(from);
  }

  DatagramBook datagrams;

 private:
  std::vector<int> failed_;
  std::vector<std::uint32_t> reset_;
  std::vector<std::uint16_t> taken_;
  std::vector<std::uint16_t> aborted_;
  bool strange_ = false;
};

}  // namespace baton::tools::simulation
