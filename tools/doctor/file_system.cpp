#include "file_system.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "../load/file_pass.hpp"

namespace baton::doctor {
namespace {

struct Type {
  std::uint32_t magic;
  const char* name;
};
// From statfs(2): the types that are usual on servers.
constexpr Type types[] = {{0xef53, "ext4"},      {0x58465342, "xfs"},     {0x9123683e, "btrfs"},
                          {0x01021994, "tmpfs"}, {0x794c7630, "overlay"}, {0x6969, "nfs"},
                          {0xff534d42, "cifs"},  {0xfe534d42, "smb2"},    {0x65735546, "fuse"},
                          {0x2fc12fc1, "zfs"},   {0xf2f52010, "f2fs"},    {0x01021997, "9p"},
                          {0x858458f6, "ramfs"}, {0xca451a4e, "bcachefs"}};

std::string type_of(const struct statfs& system) {
  const auto magic = static_cast<std::uint32_t>(system.f_type);
  for (const Type& type : types) {
    if (type.magic == magic) return type.name;
  }
  return fmt::format("0x{:x}", magic);
}

Feature probe_direct(const ScratchFile& file) {
  if (file.direct() < 0) return {false, std::strerror(file.direct_error())};
  const tools::AlignedBlock memory = tools::aligned_block(tools::file_alignment);
  const ssize_t count = ::pread(file.direct(), memory.get(), tools::file_alignment, 0);
  if (count < 0) return {false, std::strerror(errno)};
  return {true, "aligned reads work"};
}

Feature probe_nowait(const ScratchFile& file) {
  std::byte byte{};
  const iovec piece{&byte, 1};
  if (::preadv2(file.cached(), &piece, 1, 0, RWF_NOWAIT) >= 0) return {true, "cached reads work"};
  if (errno == EAGAIN) return {true, "known, but what was just written was not in the cache"};
  return {false, std::strerror(errno)};
}

unsigned direct_alignment(const ScratchFile& file) {
#ifdef STATX_DIOALIGN
  struct statx facts{};
  if (::statx(file.cached(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 &&
      (facts.stx_mask & STATX_DIOALIGN) != 0) {
    return facts.stx_dio_offset_align;
  }
#else
  static_cast<void>(file);
#endif
  return 0;
}

}  // namespace

FileSystem probe_file_system(const std::string& folder, const ScratchFile& file) {
  FileSystem found;
  found.folder = folder;
  struct statfs system{};
  if (::fstatfs(file.cached(), &system) == 0) {
    found.type = type_of(system);
    found.block = static_cast<unsigned>(system.f_bsize);
  }
  found.direct = probe_direct(file);
  found.nowait = probe_nowait(file);
  found.alignment = direct_alignment(file);
  return found;
}

}  // namespace baton::doctor
