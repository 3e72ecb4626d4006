// The features of a folder's file system for asynchronous operations, found out by trying.
#pragma once

#include <cstdint>
#include <string>

#include "scratch_file.hpp"

namespace baton::doctor {

struct Feature {
  bool there = false;
  std::string text;  // the error, or a detail
};

struct FileSystem {
  std::string folder;
  std::string type;        // "ext4", "tmpfs", or its number
  Feature direct;          // O_DIRECT: opened, and read with aligned memory
  Feature nowait;          // RWF_NOWAIT: reads that fail instead of blocking
  unsigned block = 0;      // the block size of the file system
  unsigned alignment = 0;  // of direct offsets, if the kernel reports it (statx, 6.1)
};

FileSystem probe_file_system(const std::string& folder, const ScratchFile& file);

}  // namespace baton::doctor
