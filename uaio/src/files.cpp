#include "files.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <new>

#include "at_once.hpp"
#include "baton/config.hpp"

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
  const bool positioned = !S_ISFIFO(status.st_mode) && has_position(fildes);
  return positioned ? baton::HandleKind::file : baton::HandleKind::pipe;
}

/// The file has a record lock. This process counts too, as the test uses a lock of the open file.
bool is_locked(int native) noexcept {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(native, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/// The inode identifies the file. Devices and the kernel's nameless files share theirs.
bool has_own_inode(const struct stat& status) noexcept {
  return S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) ||
         S_ISBLK(status.st_mode) || S_ISDIR(status.st_mode);
}

enum class Same : std::uint8_t { yes, no, unknown };

/// Whether both numbers name one open file.
Same is_same_open_file(int one, int other) noexcept {
  const int same = ::fcntl(one, F_DUPFD_QUERY, other);  // since Linux 6.10
  if (same >= 0) return same == 1 ? Same::yes : Same::no;
  // The thread's number, not the process's: a keeper has a table of its own.
  const long order = ::syscall(SYS_kcmp, ::gettid(), ::gettid(), KCMP_FILE, one, other);
  if (order >= 0) return order == 0 ? Same::yes : Same::no;
  return Same::unknown;
}

}  // namespace

void Row::push(Request& request) noexcept {
  request.row = this;
  request.row_next = nullptr;
  request.row_previous = last;
  (last == nullptr ? first : last->row_next) = &request;
  last = &request;
}

void Row::remove(Request& request) noexcept {
  Request* const next = request.row_next;
  Request* const previous = request.row_previous;
  (previous != nullptr ? previous->row_next : first) = next;
  (next != nullptr ? next->row_previous : last) = previous;
}

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

/// Whether the descriptor can carry out the request of this number. Another open file of the same
/// file cannot: the program may change its flags at any moment, O_APPEND for example. It does all
/// the same where the kernel cannot tell, and where it is kept only for a record lock: another one
/// would be kept, too.
bool Files::serves(const Descriptor& descriptor, int fildes,
                   const struct stat& status) const noexcept {
  const Same same = is_same_open_file(fildes, descriptor.native);
  const bool is_kept = !own_table_ && descriptor.pending == 0;
  if (same == Same::yes || (same == Same::no && !is_kept)) return same == Same::yes;
  return has_own_inode(status) && ::fcntl(descriptor.native, F_GETFL) == descriptor.flags;
}

Descriptor* Files::find_or_add(int fildes, int flags, const struct stat& status) noexcept {
  Inode wanted;
  wanted.device = status.st_dev;
  wanted.number = status.st_ino;
  for (Descriptor* each = descriptors_[bucket_of(wanted)]; each != nullptr; each = each->next) {
    // The flags do not matter for a stream, whose requests keep their order.
    const bool alike = (each->flags == flags || each->kind != baton::HandleKind::file) &&
                       each->inode->number == status.st_ino && each->inode->device == status.st_dev;
    if (!alike || !serves(*each, fildes, status)) continue;
    each->flags = flags;
    if (own_table_) ::close(fildes);
    return each;
  }
  const int native =
      own_table_ ? fildes
                 : ::fcntl(fildes, F_DUPFD_CLOEXEC, baton::Config::lowest_high_descriptor());
  if (native < 0) return nullptr;
  Descriptor* const added = add(native, flags, status);
  if (added == nullptr) ::close(native);
  return added;
}

Descriptor* Files::add(int native, int flags, const struct stat& status) noexcept {
  Inode* const inode = inode_of(status);
  if (inode == nullptr) return nullptr;
  Descriptor* const descriptor = take_node(free_descriptors_);
  if (descriptor == nullptr) {
    release(*inode);
    return nullptr;
  }
  descriptor->flags = flags;
  descriptor->native = native;
  descriptor->kind = kind_of(native, status);
  descriptor->regular = S_ISREG(status.st_mode);
  descriptor->on_disk = descriptor->regular && major(status.st_dev) != 0;
  descriptor->inode = inode;
  ++inode->descriptors;
  ++count_;
  Descriptor*& head = descriptors_[bucket_of(*inode)];
  descriptor->next = head;
  head = descriptor;
  return descriptor;
}

bool Files::may_close(const Descriptor& descriptor) const noexcept {
  return own_table_ || !descriptor.regular || !is_locked(descriptor.native);
}

void Files::remove(Descriptor& descriptor) noexcept {
  unchain(descriptors_[bucket_of(*descriptor.inode)], descriptor);
  ::close(descriptor.native);
  --descriptor.inode->descriptors;
  --count_;
  release(*descriptor.inode);
  give_node(free_descriptors_, descriptor);
}

void Files::link(Request& request, bool late) noexcept {
  Descriptor& descriptor = *request.descriptor;
  Inode& inode = *descriptor.inode;
  ++descriptor.pending;
  request.file_next = late ? inode.first : nullptr;
  request.file_previous = late ? nullptr : inode.last;
  (request.file_previous != nullptr ? request.file_previous->file_next : inode.first) = &request;
  (request.file_next != nullptr ? request.file_next->file_previous : inode.last) = &request;
  Numbered& numbered = numbers_[number_bucket(request.fildes)];
  request.fildes_next = nullptr;
  request.fildes_previous = numbered.last;
  (numbered.last != nullptr ? numbered.last->fildes_next : numbered.first) = &request;
  numbered.last = &request;
  Request*& blocks = blocks_[block_bucket(request.block)];
  request.block_next = blocks;
  blocks = &request;
}

void Files::unlink(Request& request) noexcept {
  Descriptor& descriptor = *request.descriptor;
  Inode& inode = *descriptor.inode;
  Request* const next = request.file_next;
  Request* const previous = request.file_previous;
  (previous != nullptr ? previous->file_next : inode.first) = next;
  (next != nullptr ? next->file_previous : inode.last) = previous;
  Numbered& numbered = numbers_[number_bucket(request.fildes)];
  Request* const after = request.fildes_next;
  Request* const before = request.fildes_previous;
  (before != nullptr ? before->fildes_next : numbered.first) = after;
  (after != nullptr ? after->fildes_previous : numbered.last) = before;
  Request** place = &blocks_[block_bucket(request.block)];
  while (*place != &request) place = &(*place)->block_next;
  *place = request.block_next;
  --descriptor.pending;
}

void Files::forget_handles() noexcept {
  for (Descriptor* const head : descriptors_) {
    for (Descriptor* each = head; each != nullptr; each = each->next) each->handle = nullptr;
  }
}

void Files::clear() noexcept {
  for (Descriptor*& head : descriptors_) {
    while (Descriptor* const each = head) {
      head = each->next;
      if (!own_table_) ::close(each->native);
      give_node(free_descriptors_, *each);
    }
  }
  for (Inode*& head : inodes_) {
    while (Inode* const each = head) {
      head = each->next;
      give_node(free_inodes_, *each);
    }
  }
  for (Numbered& each : numbers_) each = {};
  for (Request*& head : blocks_) head = nullptr;
}

}  // namespace uaio
