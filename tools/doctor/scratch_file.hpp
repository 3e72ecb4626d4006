// A file without a name, for the checks of a file system and for the calibration. It is created,
// filled and unlinked at once, so that nothing is left behind however the program ends.
#pragma once

#include <cstdint>
#include <string>

#include "../load/pattern.hpp"
#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::doctor {

class ScratchFile {
 public:
  // Filled with the pattern that the file load compares with. The Failure names the folder.
  static Result<ScratchFile, Failure> make(const std::string& folder, std::uint64_t size,
                                           const tools::Pattern& pattern);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile();

  int cached() const { return cached_; }
  // The descriptor past the page cache. -1: the file system has none, and direct_error() says why.
  int direct() const { return direct_; }
  int direct_error() const { return direct_error_; }
  std::uint64_t size() const { return size_; }

 private:
  ScratchFile() = default;
  int cached_ = -1;
  int direct_ = -1;
  int direct_error_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace baton::doctor
