#include "datagram_session.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "errors.hpp"
#include "options.hpp"

namespace baton::tools {
namespace {

constexpr std::uint64_t given_up_after_ns = 4 * DatagramSession::look_ns;

// One session may not keep the others waiting for longer than this many datagrams.
constexpr int receives_max = 64;

static_assert(load_datagram_bytes_min > sizeof(std::uint64_t));

}  // namespace

DatagramSession::DatagramSession(std::size_t number, std::size_t block, std::size_t window)
    : Session(number, block), places_(window / block + 1) {
  for (std::size_t place = places_.size(); place > 0; --place) free_.push_back(place - 1);
}

Session::Progress DatagramSession::visit(int descriptor, const Pattern& pattern,
                                         std::span<std::byte> buffer, std::uint64_t now,
                                         bool readable, bool closing, Histogram& round_trips) {
  const Progress progress = readable
                                ? receive(descriptor, pattern, buffer, now, closing, round_trips)
                                : Progress::waiting;
  if (progress == Progress::failed) return progress;
  if (now >= look_at_) give_up_old(now);
  if (!closing && !send(descriptor, pattern, now)) return Progress::failed;
  return progress;
}

// The socket is watched edge-triggered. With nothing in flight there is nothing more to read,
// except late datagrams, which come with the next edge or are searched for at the end.
Session::Progress DatagramSession::receive(int descriptor, const Pattern& pattern,
                                           std::span<std::byte> buffer, std::uint64_t now,
                                           bool closing, Histogram& round_trips) {
  for (int i = 0; i < receives_max; ++i) {
    if (i > 0 && idle() && !closing) return Progress::waiting;
    const ssize_t count = ::recv(descriptor, buffer.data(), buffer.size(), 0);
    if (count < 0) {
      if (errno == EAGAIN) return Progress::waiting;
      if (errno == EINTR) continue;
      fail(fmt::format("receive failed: {}{}", std::strerror(errno), advice_for(errno)));
      return Progress::failed;
    }
    if (!accept_datagram(pattern, buffer.first(static_cast<std::size_t>(count)), now,
                         round_trips)) {
      return Progress::failed;
    }
  }
  return Progress::more;
}

std::span<const std::byte> DatagramSession::content_of(std::uint64_t datagram,
                                                       const Pattern& pattern) const {
  return pattern.piece(phase_, datagram * block_, block_ - sizeof datagram);
}

bool DatagramSession::accept_datagram(const Pattern& pattern, std::span<const std::byte> bytes,
                                      std::uint64_t now, Histogram& round_trips) {
  if (bytes.size() != block_) {
    fail_wrong(fmt::format("a datagram of {} bytes came back, not of {}", bytes.size(), block_));
    return false;
  }
  std::uint64_t datagram = 0;
  std::memcpy(&datagram, bytes.data(), sizeof datagram);
  const auto content = bytes.subspan(sizeof datagram);
  const auto expected = content_of(datagram, pattern);
  if (!std::equal(content.begin(), content.end(), expected.begin())) {
    const auto at = std::mismatch(content.begin(), content.end(), expected.begin()).first;
    const auto place = static_cast<std::size_t>(at - content.begin());
    fail_wrong(fmt::format("datagram {}: wrong byte at {}: expected {}, got {}", datagram,
                           place + sizeof datagram, byte_row(expected.subspan(place)),
                           byte_row(content.subspan(place))));
    return false;
  }
  const auto place = static_cast<std::size_t>(datagram % places_.size());
  if (places_[place].on_the_way && number_of(place) == datagram) {
    round_trips.record(now - places_[place].sent_at);
    end_turn(place);
    received_ += block_;
    ++completed_count_;
    return true;
  }
  if (given_up_.erase(datagram) > 0) {
    ++datagrams_.late;
    return true;
  }
  fail_wrong(fmt::format("datagram {} came back {}", datagram,
                         datagram < number_of(place) ? "twice" : "and was never sent"));
  return false;
}

void DatagramSession::end_turn(std::size_t place) {
  places_[place].on_the_way = false;
  ++places_[place].turn;
  free_.push_back(place);
}

void DatagramSession::give_up_old(std::uint64_t now) {
  look_at_ = now + look_ns;
  for (std::size_t place = 0; place < places_.size(); ++place) {
    if (!places_[place].on_the_way || now - places_[place].sent_at < given_up_after_ns) continue;
    given_up_.insert(number_of(place));
    ++datagrams_.given_up;
    released_ -= block_;
    end_turn(place);
  }
}

// Sends from every free place, until the socket is full. False: the session has failed.
bool DatagramSession::send(int descriptor, const Pattern& pattern, std::uint64_t now) {
  while (!free_.empty()) {
    const std::size_t place = free_.back();
    std::uint64_t datagram = number_of(place);
    const auto content = content_of(datagram, pattern);
    iovec pieces[] = {{&datagram, sizeof datagram},
                      {const_cast<std::byte*>(content.data()), content.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = std::size(pieces);
    if (::sendmsg(descriptor, &message, MSG_NOSIGNAL) < 0) {
      if (errno == EINTR) continue;
      // No event reports the end of a full device queue (ENOBUFS): the next visit tries again.
      if (errno == EAGAIN || errno == ENOBUFS) return true;
      fail(fmt::format("send failed: {}{}", std::strerror(errno), advice_for(errno)));
      return false;
    }
    free_.pop_back();
    places_[place].sent_at = now;
    places_[place].on_the_way = true;
    released_ += block_;
    ++datagrams_.sent;
  }
  return true;
}

}  // namespace baton::tools
