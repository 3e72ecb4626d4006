// Connections: their channels, listeners, connects, resets.
#include "sim/kernel.hpp"

#include <errno.h>

#include <algorithm>
#include <bit>

namespace baton::sim {

// -- channels -------------------------------------------------------------------------------------

Channel* Kernel::make_channel(Node* writer, Node* reader) noexcept {
  if (free_channels_.empty()) {
    channels_.push_back(std::make_unique<Channel>());
    free_channels_.push_back(channels_.back().get());
  }
  Channel* channel = free_channels_.back();
  free_channels_.pop_back();
  const auto capacity =
      static_cast<std::uint64_t>(random.between(faults_.buffer_least, faults_.buffer_most));
  if (channel->ring_size < capacity) {
    channel->ring_size = std::bit_ceil(capacity);
    channel->ring = std::make_unique<std::byte[]>(channel->ring_size);
  }
  channel->capacity = capacity;
  channel->written = channel->arrived = channel->read = 0;
  channel->last_arrival = 0;
  channel->fin_sent = channel->fin_arrived = channel->reset = false;
  channel->reader = reader;
  channel->writer = writer;
  channel->number = ++next_channel_;
  channel->segments.clear();
  channel->segments_begin = 0;
  return channel;
}

// Gives up one end. The channel is free when both ends are gone.
void Kernel::release_end(Channel*& channel, Node* node) noexcept {
  if (channel == nullptr) return;
  (channel->reader == node ? channel->reader : channel->writer) = nullptr;
  if (channel->reader == nullptr && channel->writer == nullptr) free_channels_.push_back(channel);
  channel = nullptr;
}

std::int64_t Kernel::latency() noexcept {
  if (faults_.latency_most_ns == 0) return 0;
  return random.between(faults_.latency_least_ns, faults_.latency_most_ns);
}

/// Makes a transfer short, by chance.
std::size_t Kernel::cut(std::size_t size) noexcept {
  if (size <= 1 || !random.chance(faults_.short_transfer)) return size;
  return 1 + random.below(static_cast<std::uint32_t>(size - 1));
}

void Kernel::send_fin(Node& node) noexcept {
  Channel& out = *node.out;
  if (out.fin_sent) return;
  out.fin_sent = true;
  if (out.reader == nullptr) return;
  const std::int64_t when = std::max(out.last_arrival, scheduler.now() + latency());
  if (when <= scheduler.now() && out.segments.empty()) {
    out.fin_arrived = true;
    changed(*out.reader);
    return;
  }
  out.last_arrival = when;
  out.segments.push_back({when, out.written, true});
  scheduler.at(when, *out.reader, arrival);
}

void Kernel::close_stream(Node& node) noexcept {
  // Unread bytes at the close of a socket are an error for its peer; those of a pipe are dropped.
  const bool unread = node.in != nullptr && node.in->read != node.in->written;
  if (node.kind == NodeKind::stream && unread && node.in->writer != nullptr) {
    reset_connection(node);
  }
  if (node.out != nullptr) {
    if (!node.out->reset) send_fin(node);
    release_end(node.out, &node);
  }
  if (node.in != nullptr) {
    Node* writer = node.in->writer;
    release_end(node.in, &node);
    if (writer != nullptr) changed(*writer);
  }
}

// Ends both directions. Bytes that have arrived can still be read.
void Kernel::reset_connection(Node& node) noexcept {
  const auto kill = [&](Channel* channel, bool tell_reader) {
    if (channel == nullptr || channel->reset) return;
    channel->reset = true;
    scheduler.note(Event::reset, channel->number);
    Node* told = tell_reader ? channel->reader : channel->writer;
    if (told == nullptr) return;
    told->error = ECONNRESET;
  };
  Node* peer = nullptr;
  if (node.out != nullptr) peer = node.out->reader;
  if (peer == nullptr && node.in != nullptr) peer = node.in->writer;
  kill(node.out, true);
  kill(node.in, false);
  if (peer != nullptr) {
    peer->error = ECONNRESET;
    changed(*peer);
  }
  changed(node);  // its own side may have a pending read
}

void Kernel::draw_reset(Node& node) noexcept {
  if (witness_ != nullptr) witness_->reset(node.in, node.out);
  reset_connection(node);
}

// Draws a fault that is reported as this errno.
bool Kernel::draw_failure(std::uint32_t chance, int error) noexcept {
  if (!random.chance(chance)) return false;
  if (witness_ != nullptr) witness_->failed(error);
  return true;
}

// Delivers to the reader the bytes that are due.
void Kernel::arrive(Node& reader) noexcept {
  Channel* in = reader.in;
  if (in == nullptr) return;
  while (in->segments_begin < in->segments.size() &&
         in->segments[in->segments_begin].when <= scheduler.now()) {
    const Segment& segment = in->segments[in->segments_begin++];
    in->arrived = segment.up_to;
    if (segment.fin) in->fin_arrived = true;
  }
  if (in->segments_begin == in->segments.size()) {
    in->segments.clear();
    in->segments_begin = 0;
  }
  scheduler.note(Event::arrive, in->number, static_cast<std::int64_t>(in->arrived));
  changed(reader);
}

void Node::fire(std::uint32_t what) noexcept {
  switch (static_cast<Kernel::What>(what)) {
    case Kernel::arrival:
      return kernel.arrive(*this);
    case Kernel::handshake:
      return kernel.shake_hands(*this);
    case Kernel::connected:
      return kernel.answer(*this, 0);
    case Kernel::refused:
      return kernel.answer(*this, ECONNREFUSED);
    case Kernel::timed_out:
      return kernel.answer(*this, ETIMEDOUT);
    case Kernel::datagram_arrival:
      return kernel.deliver(*this);
  }
}

// -- connecting -----------------------------------------------------------------------------------

int Kernel::bind(Node& node, std::uint16_t port) noexcept {
  if (port == 0) port = free_port(node);
  if (is_taken(node, port)) return -EADDRINUSE;
  node.port = port;
  if (node.kind == NodeKind::datagram) bound_.push_back(&node);
  return 0;
}

// Of the stream sockets, only those that listen hold their port.
bool Kernel::is_taken(const Node& node, std::uint16_t port) const noexcept {
  const bool datagrams = node.kind == NodeKind::datagram;
  return std::any_of(bound_.begin(), bound_.end(), [&](const Node* other) {
    return other->port == port && (other->kind == NodeKind::datagram) == datagrams &&
           !(other->reuse_port && node.reuse_port);
  });
}

std::uint16_t Kernel::free_port(const Node& node) noexcept {
  do {
    ++next_port_;
  } while (next_port_ == 0 || is_taken(node, next_port_));
  return next_port_;
}

int Kernel::listen(Node& node, int backlog) noexcept {
  if (node.kind == NodeKind::listener) return 0;
  if (node.port == 0) node.port = free_port(node);
  if (is_taken(node, node.port)) return -EADDRINUSE;
  node.kind = NodeKind::listener;
  node.backlog_max = std::min(static_cast<std::uint32_t>(std::max(backlog, 1)), faults_.backlog);
  bound_.push_back(&node);
  return 0;
}

int Kernel::connect(Node& node, std::uint16_t port) noexcept {
  if (node.kind == NodeKind::datagram) {
    node.peer_port = port;
    if (node.port == 0) bind(node, 0);
    return 0;
  }
  if (node.kind != NodeKind::stream) return -EOPNOTSUPP;
  if (node.link == Link::up) return -EISCONN;
  if (node.link == Link::connecting) return -EALREADY;
  node.peer_port = port;
  node.link = Link::connecting;
  node.error = 0;
  if (node.port == 0) node.port = ++next_port_;
  if (draw_failure(faults_.refuse, ECONNREFUSED)) {
    if (random.coin()) {
      node.link = Link::failed;
      return -ECONNREFUSED;
    }
    scheduler.at(scheduler.now() + latency(), node, refused);
    return -EINPROGRESS;
  }
  std::int64_t delay = latency();
  if (random.chance(faults_.slow)) {
    if (random.below(4) == 0) {
      if (witness_ != nullptr) witness_->failed(ETIMEDOUT);
      scheduler.at(scheduler.now() + 50'000'000, node, timed_out);  // no answer ever comes
      return -EINPROGRESS;
    }
    delay += random.between(1'000'000, 100'000'000);
  }
  scheduler.at(scheduler.now() + delay, node, handshake);
  return -EINPROGRESS;
}

Node* Kernel::listener_of(std::uint16_t port) noexcept {
  Node* found = nullptr;
  std::uint32_t several = 0;
  for (Node* each : bound_) {
    if (each->kind != NodeKind::listener || each->port != port) continue;
    // Each of those that share the port with the same chance.
    if (++several == 1 || random.below(several) == 0) found = each;
  }
  return found;
}

void Kernel::shake_hands(Node& client) noexcept {
  Node* const listener = listener_of(client.peer_port);
  if (listener == nullptr) return answer(client, ECONNREFUSED);
  if (listener->backlog.size() >= listener->backlog_max) {
    // The client tries again, for a while.
    if (client.counter++ > 20) {
      if (witness_ != nullptr) witness_->failed(ETIMEDOUT);
      return answer(client, ETIMEDOUT);
    }
    return scheduler.at(scheduler.now() + 1'000'000, client, handshake);
  }
  Node* server = make(NodeKind::stream);
  server->link = Link::up;
  server->port = listener->port;
  server->peer_port = client.port;
  client.out = server->in = make_channel(&client, server);
  client.in = server->out = make_channel(server, &client);
  listener->backlog.push_back(server);
  changed(*listener);
  const std::int64_t back = latency();
  if (back == 0) return answer(client, 0);
  scheduler.at(scheduler.now() + back, client, connected);
}

void Kernel::answer(Node& client, int error) noexcept {
  if (error == 0) {
    client.link = Link::up;
  } else {
    client.link = Link::failed;
    client.error = error;
  }
  changed(client);
}

int Kernel::accept(Node& node, std::uint16_t* peer) noexcept {
  if (node.kind != NodeKind::listener) return -EINVAL;
  if (node.backlog.empty()) return -EAGAIN;
  if (open_ >= faults_.descriptors_max) {
    if (witness_ != nullptr) witness_->failed(EMFILE);
    return -EMFILE;
  }
  if (draw_failure(faults_.no_buffers, ENOBUFS)) return -ENOBUFS;
  Node* taken = node.backlog.front();
  node.backlog.pop_front();
  const bool aborted = random.chance(faults_.abort);
  if (witness_ != nullptr) witness_->accepted(taken->peer_port, aborted);
  if (aborted) {
    reset_connection(*taken);
    close_stream(*taken);
    release(*taken);
    return -ECONNABORTED;
  }
  if (peer != nullptr) *peer = taken->peer_port;
  return install(*taken);
}

int Kernel::shutdown_writing(Node& node) noexcept {
  if (node.kind != NodeKind::stream || node.link != Link::up || node.out == nullptr) {
    return -ENOTCONN;
  }
  if (node.out->reset) return -ENOTCONN;
  send_fin(node);
  changed(node);
  return 0;
}

}  // namespace baton::sim
