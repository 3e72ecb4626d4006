// Files: which open files have requests pending.
//
// An Inode stands for a file however often it was opened: what aio_fsync waits for. A Descriptor
// stands for one number of the program's, and holds a duplicate of it, so that a request which is
// not yet with the kernel keeps its file although the program closes the number and opens another
// file by it. Both exist only while requests are pending.
//
// The one tricky piece: closing any descriptor of a file gives up the process's record locks on it
// (fcntl(2)). So a duplicate is closed only when nobody holds a record lock on the file; else it is
// parked, and looked at again later.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#include "baton/handle.hpp"
#include "request.hpp"

namespace uaio {

struct Inode {
  dev_t device = 0;
  ino_t number = 0;
  std::uint32_t pending = 0;
  Request* first = nullptr;  // in order of starts
  Request* last = nullptr;
  Request* held = nullptr;  // syncs that wait for earlier ones, by run_next, in order of starts
  std::uint32_t descriptors = 0;
  Inode* next = nullptr;
};

struct Descriptor {
  int fildes = -1;
  int flags = 0;
  int duplicate = -1;
  baton::Handle* handle = nullptr;
  baton::HandleKind kind = baton::HandleKind::file;
  bool regular = false;
  Inode* inode = nullptr;
  std::uint32_t pending = 0;
  bool resting = false;  // in the list of those to be released
  Descriptor* resting_next = nullptr;
  Descriptor* next = nullptr;
};

/// Guarded by the shard's lock.
class Files {
 public:
  /// The record for an open file that a request names; null when there is no memory, or no
  /// descriptor left. A new one has no handle yet.
  Descriptor* find_or_add(int fildes, int flags, const struct stat& status) noexcept;
  /// The record that exists already, if the kernel can tell by one call (since Linux 6.10) that the
  /// number names the same open file still; else null.
  Descriptor* find_same(int fildes) noexcept;
  /// Nothing pending is left: closes the duplicate. REQUIRES: the handle is gone.
  void remove(Descriptor& descriptor) noexcept;

  void link(Request& request) noexcept;
  void unlink(Request& request) noexcept;

  /// Calls visit(request) for each that is pending; it may not link or unlink.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Inode* const bucket : inodes_) {
      for (const Inode* inode = bucket; inode != nullptr; inode = inode->next) {
        for (Request* each = inode->first; each != nullptr; each = each->file_next) visit(*each);
      }
    }
  }

  /// In the child after fork: forgets everything, and closes the duplicates.
  void clear() noexcept;

 private:
  static constexpr std::size_t buckets = 256;
  static constexpr std::size_t parked_max = 64;

  Inode* inode_of(const struct stat& status) noexcept;
  void release(Inode& inode) noexcept;
  void close_duplicate(int duplicate, bool regular) noexcept;
  void look_at_parked() noexcept;

  Descriptor* descriptors_[buckets] = {};
  Inode* inodes_[buckets] = {};
  Descriptor* free_descriptors_ = nullptr;
  Inode* free_inodes_ = nullptr;
  int parked_[parked_max] = {};
  std::size_t parked_count_ = 0;
};

}  // namespace uaio
