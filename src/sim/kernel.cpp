// Descriptors, connections, datagrams, files.
#include "sim/kernel.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.hpp"

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

Kernel::Kernel(Random& chance, Scheduler& time) : random(chance), scheduler(time) {}
Kernel::~Kernel() = default;

void Kernel::begin(const Faults& drawn) noexcept {
  faults_ = drawn;
  witness_ = nullptr;
  for (int fd = 0; static_cast<std::size_t>(fd) < table_.size(); ++fd) {
    if (find(fd) != nullptr) close(fd);
  }
  BATON_ASSERT(open_ == 0);
  table_.assign(3, nullptr);
  bound_.clear();
  next_port_ = 20'000;
  next_channel_ = 0;
  pollers_ = 0;
  files_.clear();
  // In the order in which they were made: the order that the last seed left must not matter.
  free_nodes_.clear();
  for (auto each = nodes_.rbegin(); each != nodes_.rend(); ++each) {
    free_nodes_.push_back(each->get());
  }
  free_channels_.clear();
  for (auto each = channels_.rbegin(); each != channels_.rend(); ++each) {
    free_channels_.push_back(each->get());
  }
}

// -- descriptors ----------------------------------------------------------------------------------

Node* Kernel::make(NodeKind kind) noexcept {
  if (free_nodes_.empty()) {
    nodes_.push_back(std::make_unique<Node>(*this));
    free_nodes_.push_back(nodes_.back().get());
  }
  Node* node = free_nodes_.back();
  free_nodes_.pop_back();
  node->kind = kind;
  node->link = Link::none;
  node->nonblocking = false;
  node->append = false;
  node->reuse_port = false;
  node->access = O_RDWR;
  node->fd = -1;
  node->error = 0;
  ++node->generation;
  node->in = node->out = nullptr;
  node->port = node->peer_port = 0;
  node->server = nullptr;
  node->backlog.clear();
  node->datagrams.clear();
  node->in_flight.clear();
  node->file = nullptr;
  node->position = node->counter = 0;
  node->readable_until = node->writable_until = node->lied_at = -1;
  node->watchers.clear();
  return node;
}

// Takes the lowest free number, as every kernel does, so numbers are reused at once.
int Kernel::install(Node& node) noexcept {
  if (open_ >= faults_.descriptors_max) {
    release(node);
    return -EMFILE;
  }
  std::size_t fd = 3;
  while (fd < table_.size() && table_[fd] != nullptr) ++fd;
  if (fd == table_.size()) table_.push_back(nullptr);
  table_[fd] = &node;
  node.fd = static_cast<int>(fd);
  ++open_;
  return node.fd;
}

void Kernel::release(Node& node) noexcept {
  scheduler.forget(node);
  node.kind = NodeKind::none;
  free_nodes_.push_back(&node);
}

int Kernel::socket(NodeKind kind) noexcept { return install(*make(kind)); }

int Kernel::pipe(int fds[2]) noexcept {
  Node* reader = make(NodeKind::pipe);
  Node* writer = make(NodeKind::pipe);
  Channel* channel = make_channel(writer, reader);
  reader->in = channel;
  writer->out = channel;
  reader->access = O_RDONLY;
  writer->access = O_WRONLY;
  reader->link = writer->link = Link::up;
  fds[0] = install(*reader);
  if (fds[0] < 0) {
    release_end(writer->out, writer);
    release(*writer);
    return fds[0];
  }
  fds[1] = install(*writer);
  if (fds[1] >= 0) return 0;
  const int error = fds[1];
  close(fds[0]);
  return error;
}

int Kernel::pair(int fds[2]) noexcept {
  if (open_ + 2 > faults_.descriptors_max) return -EMFILE;
  Node* a = make(NodeKind::stream);
  Node* b = make(NodeKind::stream);
  a->out = b->in = make_channel(a, b);
  a->in = b->out = make_channel(b, a);
  a->link = b->link = Link::up;
  fds[0] = install(*a);
  fds[1] = install(*b);
  return 0;
}

int Kernel::open(const char* path, int flags) noexcept {
  // First: an open that finds no number neither makes a file nor truncates one.
  if (open_ >= faults_.descriptors_max) return -EMFILE;
  if (std::strcmp(path, "/dev/null") == 0) return install(*make(NodeKind::null));
  FileBody* body = nullptr;
  for (const auto& each : files_) {
    if (each->path == path) body = each.get();
  }
  if (body == nullptr) {
    if ((flags & O_CREAT) == 0) return -ENOENT;
    files_.push_back(std::make_unique<FileBody>());
    body = files_.back().get();
    body->path = path;
  } else if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
    return -EEXIST;
  }
  if ((flags & O_TRUNC) != 0) {
    body->bytes.clear();
    body->durable.clear();
    body->dirty.clear();
  }
  Node* node = make(NodeKind::file);
  node->file = body;
  node->append = (flags & O_APPEND) != 0;
  node->direct = (flags & O_DIRECT) != 0;
  node->access = flags & O_ACCMODE;
  return install(*node);
}

int Kernel::event(std::uint64_t initial) noexcept {
  Node* node = make(NodeKind::event);
  node->counter = initial;
  return install(*node);
}

int Kernel::poller() noexcept { return install(*make(NodeKind::poller)); }

int Kernel::close(int fd) noexcept {
  Node* node = find(fd);
  if (node == nullptr) return -EBADF;
  table_[static_cast<std::size_t>(fd)] = nullptr;
  --open_;
  changed(*node);
  for (std::size_t i = 0; i < node->watchers.size(); ++i) node->watchers[i]->gone(*node);
  node->watchers.clear();
  for (const auto& item : node->items) {
    if (item->node != nullptr) unwatch(*item->node, *item);
    scheduler.forget(*item);
  }
  node->items.clear();
  std::erase(bound_, node);
  if (node->kind == NodeKind::listener) {
    // Connections that were not accepted are reset.
    for (Node* waiting : node->backlog) {
      reset_connection(*waiting);
      close_stream(*waiting);
      release(*waiting);
    }
  }
  for (const Datagram& each : node->datagrams) drop(each.bytes, Drop::closed);
  for (const auto& each : node->in_flight) drop(each.second.bytes, Drop::closed);
  close_stream(*node);
  release(*node);
  return 0;
}

void Kernel::unwatch(Node& node, const Watcher& watcher) noexcept {
  std::erase(node.watchers, &watcher);
}

void Kernel::changed(Node& node) noexcept {
  for (std::size_t i = 0; i < node.watchers.size(); ++i) node.watchers[i]->changed(node);
  if (pollers_ != 0) scheduler.wake(poll_key(), ~0U);
}

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

// Each datagram has its own time, so they may overtake each other.
void Kernel::deliver(Node& node) noexcept {
  for (auto each = node.in_flight.begin(); each != node.in_flight.end();) {
    if (each->first > scheduler.now()) {
      ++each;
      continue;
    }
    node.datagrams.push_back(std::move(each->second));
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

// -- readiness ------------------------------------------------------------------------------------

std::uint32_t Kernel::ready(const Node& node) noexcept {
  std::uint32_t bits = 0;
  switch (node.kind) {
    case NodeKind::stream:
    case NodeKind::pipe:
      if (node.kind == NodeKind::stream) {
        if (node.link == Link::connecting) return 0;
        if (node.link == Link::none) return writable | hung_up;
        if (node.link == Link::failed)
          return readable | writable | hung_up | (node.error != 0 ? broken : 0U);
      }
      if (node.error != 0) bits |= broken | readable | writable;
      if (node.in != nullptr) {
        if (node.in->arrived != node.in->read || node.in->fin_arrived || node.in->reset)
          bits |= readable;
        if (node.in->fin_arrived || node.in->reset) {
          bits |= node.kind == NodeKind::pipe ? hung_up : peer_closed;
        }
      }
      if (node.out != nullptr) {
        const bool dead = node.out->reset || node.out->fin_sent || node.out->reader == nullptr;
        if (dead || node.out->room() > 0) bits |= writable;
        if (node.kind == NodeKind::pipe && node.out->reader == nullptr) bits |= broken;
        const bool both = node.in == nullptr || node.in->fin_arrived || node.in->reset;
        if (dead && both && node.kind == NodeKind::stream) bits |= hung_up;
      }
      return bits;
    case NodeKind::listener:
      return node.backlog.empty() ? 0U : readable;
    case NodeKind::datagram:
      return (node.datagrams.empty() ? 0U : readable) | writable;
    case NodeKind::event:
      return (node.counter != 0 ? readable : 0U) | writable;
    case NodeKind::file:
    case NodeKind::null:
      return readable | writable;
    case NodeKind::poller:
      for (const auto& item : node.items) {
        if (item->node != nullptr && item->told(node.kernel.scheduler.now()) != 0) return readable;
      }
      return 0;
    case NodeKind::none:
      break;
  }
  return 0;
}

}  // namespace baton::sim
