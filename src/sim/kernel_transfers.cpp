// Transfers: streams, datagrams, files.
#include "sim/kernel.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace baton::sim {
namespace {

constexpr std::uint64_t file_size_max = std::uint64_t{1} << 22;
constexpr std::size_t disk_block = 512;

std::size_t total(std::span<const iovec> pieces) noexcept {
  std::size_t sum = 0;
  for (const iovec& piece : pieces) sum += piece.iov_len;
  return sum;
}

/// As a device takes transfers of a file opened with O_DIRECT.
bool is_aligned(std::span<const iovec> pieces, std::uint64_t offset) noexcept {
  std::uint64_t all = offset;
  for (const iovec& piece : pieces) {
    all |= reinterpret_cast<std::uintptr_t>(piece.iov_base) | piece.iov_len;
  }
  return all % disk_block == 0;
}

/// Calls copy(memory, size, offset) for the first `size` bytes of the pieces.
template <class Copy>
void for_pieces(std::span<const iovec> pieces, std::size_t size, Copy&& copy) {
  std::size_t done = 0;
  for (const iovec& piece : pieces) {
    if (done == size) return;
    const std::size_t part = std::min(piece.iov_len, size - done);
    if (part > 0) copy(static_cast<std::byte*>(piece.iov_base), part, done);
    done += part;
  }
}

void into_ring(Channel& channel, std::span<const iovec> pieces, std::size_t size) {
  for_pieces(pieces, size, [&](const std::byte* from, std::size_t part, std::size_t offset) {
    const std::size_t at = (channel.written + offset) & (channel.ring_size - 1);
    const std::size_t first = std::min<std::size_t>(part, channel.ring_size - at);
    std::memcpy(&channel.ring[at], from, first);
    std::memcpy(&channel.ring[0], from + first, part - first);
  });
}

void out_of_ring(const Channel& channel, std::span<const iovec> pieces, std::size_t size) {
  for_pieces(pieces, size, [&](std::byte* to, std::size_t part, std::size_t offset) {
    const std::size_t at = (channel.read + offset) & (channel.ring_size - 1);
    const std::size_t first = std::min<std::size_t>(part, channel.ring_size - at);
    std::memcpy(to, &channel.ring[at], first);
    std::memcpy(to + first, &channel.ring[0], part - first);
  });
}

}  // namespace

// -- streams --------------------------------------------------------------------------------------

// Records the end of a readiness that was there before and is gone now.
void Kernel::note_end_of_readiness(Node& node, std::uint32_t before) const noexcept {
  const std::uint32_t after = ready(node);
  if ((before & ~after & readable) != 0) node.readable_until = scheduler.now();
  if ((before & ~after & writable) != 0) node.writable_until = scheduler.now();
}

int Kernel::take_error(Node& node) noexcept {
  const std::uint32_t before = ready(node);
  const int error = std::exchange(node.error, 0);
  note_end_of_readiness(node, before);
  return error;
}

std::int64_t Kernel::receive(Node& node, std::span<const iovec> pieces) noexcept {
  const std::uint32_t before = ready(node);
  const std::int64_t moved = receive_now(node, pieces);
  note_end_of_readiness(node, before);
  return moved;
}

std::int64_t Kernel::send(Node& node, std::span<const iovec> pieces) noexcept {
  const std::uint32_t before = ready(node);
  const std::int64_t moved = send_now(node, pieces);
  note_end_of_readiness(node, before);
  return moved;
}

std::int64_t Kernel::receive_now(Node& node, std::span<const iovec> pieces) noexcept {
  if (node.link == Link::none && node.kind == NodeKind::stream) return -ENOTCONN;
  if (node.in == nullptr || node.link != Link::up) {
    if (node.error != 0) return -std::exchange(node.error, 0);
    if (node.kind == NodeKind::pipe) return -EBADF;
    return node.link == Link::connecting ? -EAGAIN : -ENOTCONN;
  }
  Channel& in = *node.in;
  if (node.kind == NodeKind::stream && random.chance(faults_.reset))
    draw_reset(*(in.writer != nullptr ? in.writer : &node));
  const std::size_t wanted = total(pieces);
  std::size_t size = std::min<std::uint64_t>(wanted, in.arrived - in.read);
  if (size == 0) {
    if (wanted == 0) return 0;
    if (node.error != 0) return -std::exchange(node.error, 0);
    if (in.fin_arrived || in.reset) return 0;
    if (node.kind == NodeKind::stream && draw_failure(faults_.no_buffers, ENOBUFS)) return -ENOBUFS;
    return -EAGAIN;
  }
  size = cut(size);
  out_of_ring(in, pieces, size);
  in.read += size;
  if (in.writer != nullptr) changed(*in.writer);
  return static_cast<std::int64_t>(size);
}

std::int64_t Kernel::send_now(Node& node, std::span<const iovec> pieces) noexcept {
  if (node.link == Link::none && node.kind == NodeKind::stream) return -ENOTCONN;
  if (node.link == Link::connecting) return -EAGAIN;
  if (node.error != 0) return -std::exchange(node.error, 0);
  if (node.out == nullptr || node.link != Link::up) {
    return node.kind == NodeKind::pipe ? -EBADF : -EPIPE;
  }
  Channel& out = *node.out;
  if (node.kind == NodeKind::stream && random.chance(faults_.reset)) {
    draw_reset(node);
    node.error = 0;
    return -ECONNRESET;
  }
  if (out.fin_sent || out.reset) return -EPIPE;
  if (out.reader == nullptr) {
    // The peer is gone.
    return -EPIPE;
  }
  const std::size_t wanted = total(pieces);
  if (wanted == 0) return 0;
  std::size_t size = std::min<std::uint64_t>(wanted, out.room());
  if (size == 0) return -EAGAIN;
  if (node.kind == NodeKind::stream && draw_failure(faults_.no_buffers, ENOBUFS)) return -ENOBUFS;
  size = cut(size);
  into_ring(out, pieces, size);
  out.written += size;
  std::int64_t delay = node.kind == NodeKind::pipe ? 0 : latency();
  if (faults_.bytes_per_us != 0 && node.kind != NodeKind::pipe) {
    delay += static_cast<std::int64_t>(size) * 1000 / faults_.bytes_per_us;
  }
  if (delay == 0 && out.segments.empty()) {
    out.arrived = out.written;
    changed(*out.reader);
  } else {
    const std::int64_t when = std::max(out.last_arrival, scheduler.now() + delay);
    out.last_arrival = when;
    out.segments.push_back({when, out.written, false});
    scheduler.at(when, *out.reader, arrival);
  }
  return static_cast<std::int64_t>(size);
}

// -- datagrams ------------------------------------------------------------------------------------

std::int64_t Kernel::send_to(Node& node, std::span<const iovec> pieces,
                             std::uint16_t port) noexcept {
  constexpr std::size_t queued_max = 64;
  if (port == 0) port = node.peer_port;
  if (port == 0) return -EDESTADDRREQ;
  if (draw_failure(faults_.no_buffers, ENOBUFS)) return -ENOBUFS;
  if (node.port == 0) bind(node, 0);
  const std::size_t size = total(pieces);
  if (size > 65'507) return -EMSGSIZE;
  Node* to = nullptr;
  for (Node* each : bound_) {
    if (each->kind == NodeKind::datagram && each->port == port) to = each;
  }
  const bool lost = random.chance(faults_.lose);
  Datagram made;
  made.from = node.port;
  made.bytes.resize(size);
  for_pieces(pieces, size, [&](const std::byte* from, std::size_t part, std::size_t offset) {
    std::memcpy(made.bytes.data() + offset, from, part);
  });
  const bool crowded = to != nullptr && to->datagrams.size() + to->in_flight.size() >= queued_max;
  if (to == nullptr || lost || crowded) {
    drop(made.bytes, lost ? Drop::fault : (crowded ? Drop::crowded : Drop::no_socket));
    return static_cast<std::int64_t>(size);
  }
  const std::int64_t when = scheduler.now() + latency();
  to->in_flight.emplace_back(when, std::move(made));
  if (when <= scheduler.now()) {
    deliver(*to);
  } else {
    scheduler.at(when, *to, datagram_arrival);
  }
  return static_cast<std::int64_t>(size);
}

void Kernel::drop(std::span<const std::byte> datagram, Drop why) noexcept {
  if (witness_ != nullptr) witness_->dropped(datagram, why);
}

// Each datagram has its own time, so they may overtake each other. A connected socket gets those of
// its peer only.
void Kernel::deliver(Node& node) noexcept {
  for (auto each = node.in_flight.begin(); each != node.in_flight.end();) {
    if (each->first > scheduler.now()) {
      ++each;
      continue;
    }
    if (node.peer_port == 0 || node.peer_port == each->second.from) {
      node.datagrams.push_back(std::move(each->second));
    } else {
      drop(each->second.bytes, Drop::no_socket);
    }
    each = node.in_flight.erase(each);
  }
  changed(node);
}

std::int64_t Kernel::receive_from(Node& node, std::span<const iovec> pieces,
                                  std::uint16_t* from) noexcept {
  if (node.kind != NodeKind::datagram) return -EINVAL;
  if (node.datagrams.empty()) return -EAGAIN;
  const Datagram& first = node.datagrams.front();
  const std::size_t size = std::min(total(pieces), first.bytes.size());
  for_pieces(pieces, size, [&](std::byte* to, std::size_t part, std::size_t offset) {
    std::memcpy(to, first.bytes.data() + offset, part);
  });
  if (from != nullptr) *from = first.from;
  node.datagrams.pop_front();
  return static_cast<std::int64_t>(size);
}

// -- files ----------------------------------------------------------------------------------------

// A transfer past the page cache is short by whole blocks.
std::size_t Kernel::cut_in_file(const Node& node, std::size_t size) noexcept {
  const std::size_t part = cut(size);
  if (!node.direct || part == size) return part;
  return std::min(size, std::max(part - part % disk_block, disk_block));
}

std::int64_t Kernel::read_at(Node& node, std::span<const iovec> pieces,
                             std::uint64_t offset) noexcept {
  if (node.kind == NodeKind::null) return 0;
  if (node.kind != NodeKind::file) return -EINVAL;
  if (node.access == O_WRONLY) return -EBADF;
  if (draw_failure(faults_.disk_error, EIO)) return -EIO;
  const std::vector<std::byte>& bytes = node.file->bytes;
  if (offset >= bytes.size()) return 0;
  if (node.direct && !is_aligned(pieces, offset)) return -EINVAL;
  const std::size_t left = bytes.size() - offset;
  const std::size_t size = cut_in_file(node, std::min<std::size_t>(total(pieces), left));
  for_pieces(pieces, size, [&](std::byte* to, std::size_t part, std::size_t at) {
    std::memcpy(to, bytes.data() + offset + at, part);
  });
  return static_cast<std::int64_t>(size);
}

std::int64_t Kernel::write_at(Node& node, std::span<const iovec> pieces,
                              std::uint64_t offset) noexcept {
  if (node.kind == NodeKind::null) return static_cast<std::int64_t>(total(pieces));
  if (node.kind != NodeKind::file) return -EINVAL;
  if (node.access == O_RDONLY) return -EBADF;
  if (draw_failure(faults_.disk_error, EIO)) return -EIO;
  std::vector<std::byte>& bytes = node.file->bytes;
  if (node.append) offset = bytes.size();
  if (node.direct && !is_aligned(pieces, offset)) return -EINVAL;
  std::uint64_t most = std::min(faults_.disk_size, file_size_max);
  if (node.direct) most -= most % disk_block;
  if (offset >= most) return -ENOSPC;
  const std::size_t size = cut_in_file(node, std::min<std::size_t>(total(pieces), most - offset));
  if (bytes.size() < offset + size) bytes.resize(offset + size);
  for_pieces(pieces, size, [&](const std::byte* from, std::size_t part, std::size_t at) {
    std::memcpy(bytes.data() + offset + at, from, part);
  });
  node.file->dirty.emplace_back(offset, size);
  return static_cast<std::int64_t>(size);
}

int Kernel::sync(Node& node) noexcept {
  if (node.kind != NodeKind::file) return -EINVAL;
  if (draw_failure(faults_.sync_error, EIO)) return -EIO;
  FileBody& body = *node.file;
  body.durable.resize(body.bytes.size());
  for (const auto& [offset, size] : body.dirty) {
    std::memcpy(body.durable.data() + offset, body.bytes.data() + offset, size);
  }
  body.dirty.clear();
  return 0;
}

const FileBody* Kernel::file(const std::string& path) const noexcept {
  for (const auto& each : files_) {
    if (each->path == path) return each.get();
  }
  return nullptr;
}

std::vector<std::byte> Kernel::after_crash(const FileBody& body) {
  std::vector<std::byte> left = body.durable;
  for (const auto& [offset, size] : body.dirty) {
    if (random.coin()) continue;
    if (left.size() < offset + size) left.resize(offset + size);
    std::memcpy(left.data() + offset, body.bytes.data() + offset, size);
  }
  return left;
}

}  // namespace baton::sim
