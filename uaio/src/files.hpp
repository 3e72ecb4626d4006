// Files: which open files have requests pending.
//
// An Inode represents a file, however often it was opened: aio_fsync waits for all of it. A
// Descriptor represents one open file, under whatever numbers: its requests keep the order of their
// starts where order matters (streams, appends). Both exist only while requests are pending.
//
// A keeper has a table of descriptors of its own, whose entries it may close at will. Without a
// keeper (mode=single, or a system that refuses one) the descriptors are the program's, and closing
// one gives up the process's record locks on the file (fcntl(2)). So the descriptor stays open, and
// is reused, while any process holds a record lock on the file.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#include "baton/handle.hpp"
#include "request.hpp"

namespace uaio {

/// Requests that wait, each for those before it.
struct Row {
  Request* first = nullptr;
  Request* last = nullptr;

  void push(Request& request) noexcept;
  /// REQUIRES: it is in this row.
  void remove(Request& request) noexcept;
};

/// Datagrams of one direction, or appends (mode=single): one request after the other, because
/// engines do not guarantee the order.
struct Line {
  Request* at_work = nullptr;
  Row others;  // in order of starts
};

struct Inode {
  dev_t device = 0;
  ino_t number = 0;
  Request* first = nullptr;  // in order of starts
  Request* last = nullptr;
  Line reads;
  Line writes;
  std::uint32_t descriptors = 0;
  Inode* next = nullptr;
};

struct Descriptor {
  int flags = 0;
  int native = -1;
  baton::Handle* handle = nullptr;
  baton::HandleKind kind = baton::HandleKind::file;
  bool regular = false;
  bool on_disk = false;  // regular, and of a file system with a device of its own
  Inode* inode = nullptr;
  std::uint32_t pending = 0;
  Descriptor* next = nullptr;
};

/// Guarded by the shard's lock.
class Files {
 public:
  /// From now on the descriptors are in a table of the caller's own (`own`), or in the program's.
  /// REQUIRES: there are none.
  void use_own_table(bool own) noexcept { own_table_ = own; }

  /// The record for an open file; null when there is no memory, or no descriptor left. With a table
  /// of its own, `fildes` is an entry of that table and belongs to the record from here on.
  Descriptor* find_or_add(int fildes, int flags, const struct stat& status) noexcept;
  /// Nothing pending is left. REQUIRES: the handle is gone.
  void remove(Descriptor& descriptor) noexcept;
  /// Whether closing it cannot affect the program.
  [[nodiscard]] bool may_close(const Descriptor& descriptor) const noexcept;

  /// How many descriptors they have.
  [[nodiscard]] std::size_t descriptors() const noexcept { return count_; }

  /// `late`: before all others of its file.
  void link(Request& request, bool late) noexcept;
  void unlink(Request& request) noexcept;

  /// Calls visit(request) for each pending one of the program's descriptor, or of this aiocb alone;
  /// it may not link or unlink.
  template <class Visit>
  void for_each(int fildes, const aiocb* block, Visit&& visit) const {
    const auto look_at = [&](Request& each) {
      if (each.concerns(fildes, block)) visit(each);
    };
    if (block != nullptr) {
      Request* const first = blocks_[block_bucket(block)];
      for (Request* each = first; each != nullptr; each = each->block_next) look_at(*each);
    } else {
      Request* const first = numbers_[number_bucket(fildes)].first;
      for (Request* each = first; each != nullptr; each = each->fildes_next) look_at(*each);
    }
  }

  /// The proactor is gone.
  void forget_handles() noexcept;
  /// In the child after fork: forgets everything, and closes what is in the program's table.
  void clear() noexcept;

 private:
  static constexpr std::size_t buckets = 256;
  static constexpr std::size_t request_buckets = std::size_t{1} << 12;
  /// In order of starts.
  struct Numbered {
    Request* first = nullptr;
    Request* last = nullptr;
  };

  [[nodiscard]] static std::size_t number_bucket(int fildes) noexcept {
    return static_cast<std::size_t>(fildes) % request_buckets;
  }
  [[nodiscard]] static std::size_t block_bucket(const aiocb* block) noexcept {
    // The product's upper bits depend on all bits of the address (multiplicative hashing).
    const std::uint64_t product = reinterpret_cast<std::uintptr_t>(block) * 0x9E37'79B9'7F4A'7C15U;
    return static_cast<std::size_t>(product >> 32) % request_buckets;
  }

  [[nodiscard]] bool serves(const Descriptor& descriptor, int fildes,
                            const struct stat& status) const noexcept;
  Inode* inode_of(const struct stat& status) noexcept;
  void release(Inode& inode) noexcept;
  Descriptor* add(int native, int flags, const struct stat& status) noexcept;

  bool own_table_ = false;
  Descriptor* descriptors_[buckets] = {};
  Inode* inodes_[buckets] = {};
  Numbered numbers_[request_buckets] = {};
  Request* blocks_[request_buckets] = {};
  std::size_t count_ = 0;
  Descriptor* free_descriptors_ = nullptr;
  Inode* free_inodes_ = nullptr;
};

}  // namespace uaio
