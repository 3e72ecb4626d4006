#include "files.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <new>

#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY (1'024 + 3)
#endif

namespace uaio {
namespace {

template <class Node>
Node* take_node(Node*& free_list) noexcept {
  if (free_list == nullptr) return new (std::nothrow) Node;
  Node* const node = free_list;
  free_list = node->next;
  *node = Node{};
  return node;
}

template <class Node>
void give_node(Node*& free_list, Node& node) noexcept {
  node.next = free_list;
  free_list = &node;
}

template <class Node>
void unchain(Node*& head, const Node& node) noexcept {
  Node** place = &head;
  while (*place != &node) place = &(*place)->next;
  *place = node.next;
}

std::size_t bucket_of(int fildes) noexcept { return static_cast<std::size_t>(fildes) % 256; }
std::size_t bucket_of(const Inode& inode) noexcept {
  return static_cast<std::size_t>(inode.number ^ inode.device) % 256;
}

baton::HandleKind kind_of(int fildes, const struct stat& status) noexcept {
  if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) return baton::HandleKind::file;
  if (S_ISSOCK(status.st_mode)) {
    int type = SOCK_STREAM;
    socklen_t size = sizeof(type);
    ::getsockopt(fildes, SOL_SOCKET, SO_TYPE, &type, &size);
    return type == SOCK_STREAM ? baton::HandleKind::stream_socket
                               : baton::HandleKind::datagram_socket;
  }
  // Devices with a position are files; terminals and pipes have none.
  const bool positioned = !S_ISFIFO(status.st_mode) && ::lseek(fildes, 0, SEEK_CUR) >= 0;
  return positioned ? baton::HandleKind::file : baton::HandleKind::pipe;
}

/// Somebody - this process, as seen from a lock of the open file's own - holds a record lock.
bool is_locked(int duplicate) noexcept {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(duplicate, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace

Inode* Files::inode_of(const struct stat& status) noexcept {
  Inode wanted;
  wanted.device = status.st_dev;
  wanted.number = status.st_ino;
  Inode*& head = inodes_[bucket_of(wanted)];
  for (Inode* each = head; each != nullptr; each = each->next) {
    if (each->number == status.st_ino && each->device == status.st_dev) return each;
  }
  Inode* const inode = take_node(free_inodes_);
  if (inode == nullptr) return nullptr;
  inode->device = status.st_dev;
  inode->number = status.st_ino;
  inode->next = head;
  head = inode;
  return inode;
}

void Files::release(Inode& inode) noexcept {
  if (inode.descriptors != 0) return;
  unchain(inodes_[bucket_of(inode)], inode);
  give_node(free_inodes_, inode);
}

Descriptor* Files::find_same(int fildes) noexcept {
  for (Descriptor* each = descriptors_[bucket_of(fildes)]; each != nullptr; each = each->next) {
    if (each->fildes == fildes && ::fcntl(fildes, F_DUPFD_QUERY, each->duplicate) == 1) return each;
  }
  return nullptr;
}

Descriptor* Files::find_or_add(int fildes, int flags, const struct stat& status) noexcept {
  Descriptor*& head = descriptors_[bucket_of(fildes)];
  for (Descriptor* each = head; each != nullptr; each = each->next) {
    const bool same = each->fildes == fildes && each->flags == flags &&
                      each->inode->number == status.st_ino && each->inode->device == status.st_dev;
    // The number names this file still, unless it was closed and opened again in the same way.
    if (same) return each;
  }
  Inode* const inode = inode_of(status);
  if (inode == nullptr) return nullptr;
  Descriptor* const descriptor = take_node(free_descriptors_);
  const int duplicate = descriptor != nullptr ? ::fcntl(fildes, F_DUPFD_CLOEXEC, 3) : -1;
  if (duplicate < 0) {
    if (descriptor != nullptr) give_node(free_descriptors_, *descriptor);
    release(*inode);
    return nullptr;
  }
  descriptor->fildes = fildes;
  descriptor->flags = flags;
  descriptor->duplicate = duplicate;
  descriptor->kind = kind_of(fildes, status);
  descriptor->regular = S_ISREG(status.st_mode);
  descriptor->inode = inode;
  ++inode->descriptors;
  descriptor->next = head;
  head = descriptor;
  return descriptor;
}

void Files::remove(Descriptor& descriptor) noexcept {
  unchain(descriptors_[bucket_of(descriptor.fildes)], descriptor);
  close_duplicate(descriptor.duplicate, descriptor.regular);
  --descriptor.inode->descriptors;
  release(*descriptor.inode);
  give_node(free_descriptors_, descriptor);
}

void Files::close_duplicate(int duplicate, bool regular) noexcept {
  if (parked_count_ > 0) look_at_parked();
  if (regular && parked_count_ < parked_max && is_locked(duplicate)) {
    parked_[parked_count_++] = duplicate;
    return;
  }
  ::close(duplicate);
}

void Files::look_at_parked() noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < parked_count_; ++i) {
    if (is_locked(parked_[i])) {
      parked_[kept++] = parked_[i];
    } else {
      ::close(parked_[i]);
    }
  }
  parked_count_ = kept;
}

void Files::link(Request& request) noexcept {
  Descriptor& descriptor = *request.descriptor;
  Inode& inode = *descriptor.inode;
  ++descriptor.pending;
  ++inode.pending;
  request.file_next = nullptr;
  request.file_previous = inode.last;
  (inode.last != nullptr ? inode.last->file_next : inode.first) = &request;
  inode.last = &request;
}

void Files::unlink(Request& request) noexcept {
  Descriptor& descriptor = *request.descriptor;
  Inode& inode = *descriptor.inode;
  Request* const next = request.file_next;
  Request* const previous = request.file_previous;
  (previous != nullptr ? previous->file_next : inode.first) = next;
  (next != nullptr ? next->file_previous : inode.last) = previous;
  --inode.pending;
  --descriptor.pending;
}

void Files::clear() noexcept {
  for (Descriptor*& head : descriptors_) {
    while (Descriptor* const each = head) {
      head = each->next;
      ::close(each->duplicate);
      give_node(free_descriptors_, *each);
    }
  }
  for (Inode*& head : inodes_) {
    while (Inode* const each = head) {
      head = each->next;
      give_node(free_inodes_, *each);
    }
  }
  // A child has no record locks yet, so that nothing can be lost.
  for (std::size_t i = 0; i < parked_count_; ++i) ::close(parked_[i]);
  parked_count_ = 0;
}

}  // namespace uaio
