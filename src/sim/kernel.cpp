// Descriptors and what is behind them; readiness.
#include "sim/kernel.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"

namespace baton::sim {

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
