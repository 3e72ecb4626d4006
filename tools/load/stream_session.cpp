#include "stream_session.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace baton::tools {
namespace {

constexpr std::size_t timed_messages_max = 1024;

// One session may not keep the others waiting for longer than this many full buffers.
constexpr int receives_max = 4;

}  // namespace

StreamSession::StreamSession(std::size_t number, std::size_t block, std::size_t window)
    : Session(number, block), window_(window) {
  const std::uint64_t in_flight_max = window_ / block_ + 1;
  time_stride_ = (in_flight_max + timed_messages_max - 1) / timed_messages_max;
  // One place more than can be in flight, so that a new message and the oldest incomplete one never
  // share a place.
  const std::size_t places = std::bit_ceil(in_flight_max / time_stride_ + 2);
  time_mask_ = places - 1;
  release_times_ = std::make_unique<std::uint64_t[]>(places);
}

StreamSession::Progress StreamSession::visit(int descriptor, const Pattern& pattern,
                                             std::span<std::byte> buffer, std::uint64_t now,
                                             bool readable, bool closing, Histogram& round_trips) {
  const Progress progress =
      readable ? receive(descriptor, pattern, buffer, now, round_trips) : Progress::waiting;
  if (progress == Progress::failed) return progress;
  if (!closing) release(now);
  if (!send(descriptor, pattern)) return Progress::failed;
  return progress;
}

// The socket is watched edge-triggered, so it must be read until it is empty. A receive that does
// not fill the buffer has emptied it (epoll(7)), which saves a call that returns EAGAIN.
StreamSession::Progress StreamSession::receive(int descriptor, const Pattern& pattern,
                                               std::span<std::byte> buffer, std::uint64_t now,
                                               Histogram& round_trips) {
  for (int i = 0; i < receives_max; ++i) {
    const ssize_t count = ::recv(descriptor, buffer.data(), buffer.size(), 0);
    if (count < 0) {
      if (errno == EAGAIN) return Progress::waiting;
      if (errno == EINTR) continue;
      fail(fmt::format("receive failed: {}", std::strerror(errno)));
      return Progress::failed;
    }
    if (count == 0) {
      fail(
          fmt::format("the server closed the connection after {} bytes, {} were still to come "
                      "back",
                      received_, outstanding()));
      return Progress::failed;
    }
    const auto size = static_cast<std::size_t>(count);
    if (!accept_bytes(pattern, buffer.first(size))) return Progress::failed;
    complete(now, round_trips);
    if (size < buffer.size()) return Progress::waiting;
  }
  return Progress::more;
}

bool StreamSession::accept_bytes(const Pattern& pattern, std::span<const std::byte> bytes) {
  const auto due =
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), sent_ - received_));
  const auto expected = pattern.piece(phase_, received_, due);
  if (std::memcmp(bytes.data(), expected.data(), due) != 0) {
    const auto different = std::mismatch(expected.begin(), expected.end(), bytes.begin()).first;
    fail_wrong(describe_difference(pattern, bytes,
                                   static_cast<std::size_t>(different - expected.begin())));
    return false;
  }
  if (due < bytes.size()) {
    fail_wrong(fmt::format("{} bytes came back when only {} had been sent",
                           received_ + bytes.size(), sent_));
    return false;
  }
  received_ += due;
  return true;
}

void StreamSession::complete(std::uint64_t now, Histogram& round_trips) {
  while (received_ - completed_count_ * block_ >= block_) {
    if (completed_count_ % time_stride_ == 0) {
      const auto place = static_cast<std::size_t>(completed_count_ / time_stride_) & time_mask_;
      round_trips.record(now - release_times_[place]);
    }
    ++completed_count_;
  }
}

void StreamSession::release(std::uint64_t now) {
  while (released_ - received_ <= window_) {
    if (released_count_ % time_stride_ == 0) {
      const auto place = static_cast<std::size_t>(released_count_ / time_stride_) & time_mask_;
      release_times_[place] = now;
    }
    ++released_count_;
    released_ += block_;
  }
}

// Sends until all released bytes are sent or the socket is full; then the next event comes when
// there is room. False: the session has failed.
bool StreamSession::send(int descriptor, const Pattern& pattern) {
  while (sent_ < released_) {
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(released_ - sent_, Pattern::piece_bytes_max));
    const auto piece = pattern.piece(phase_, sent_, size);
    const ssize_t count = ::send(descriptor, piece.data(), size, MSG_NOSIGNAL);
    if (count >= 0) {
      sent_ += static_cast<std::uint64_t>(count);
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno != EINTR) {
      fail(fmt::format("send failed: {}", std::strerror(errno)));
      return false;
    }
  }
  return true;
}

// Describes the wrong bytes, if possible. The same session's pattern from another place means lost
// or repeated bytes; anything else is damage or another session's data.
std::string StreamSession::describe_difference(const Pattern& pattern,
                                               std::span<const std::byte> bytes,
                                               std::size_t at) const {
  const auto wrong = bytes.subspan(at);
  const std::uint64_t offset = received_ + at;
  std::string text =
      fmt::format("wrong byte at offset {}: expected {}, got {}", offset,
                  byte_row(pattern.piece(phase_, offset, wrong.size())), byte_row(wrong));
  if (const auto place = pattern.find(wrong)) {
    const auto expected_place = static_cast<std::size_t>((phase_ + offset) % Pattern::period);
    const std::size_t ahead = (*place + Pattern::period - expected_place) % Pattern::period;
    const std::size_t behind = Pattern::period - ahead;
    if (ahead <= outstanding()) {
      text +=
          fmt::format(" ({} bytes of this stream are missing, or another session's data)", ahead);
    } else if (behind <= received_) {
      text +=
          fmt::format(" ({} bytes of this stream are repeated, or another session's data)", behind);
    } else {
      text += " (another session's data)";
    }
  } else if (wrong.size() >= 16 && pattern.find(wrong.subspan(8))) {
    text += " (damaged byte; the stream goes on correctly behind it)";
  }
  return text;
}

}  // namespace baton::tools
