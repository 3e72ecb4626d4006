// Load on a file, through a proactor: numbered blocks are written or read with a fixed number of
// operations in flight, and every byte that is read is compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../config_options.hpp"

namespace baton::tools {

struct FileLoadOptions {
  std::string file;
  std::size_t block = 4096;
  std::size_t depth = 16;                        // operations in flight
  std::uint64_t size = std::uint64_t{64} << 20;  // of the file that --write makes
  double seconds = 1.0;
  bool direct = false;
  bool write = false;
  bool force = false;   // write over any file
  bool random = false;  // read blocks in random order, for as long as the time lasts
  bool compare = true;
  bool json = false;
  ConfigOptions config;
};

inline constexpr std::size_t file_depth_max = 65'536;

// Returns the exit status: 0 when every operation succeeded and every byte was right.
int run_file_load(const FileLoadOptions& options);

}  // namespace baton::tools
