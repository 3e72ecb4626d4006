// The result of a load run on a file, for people and as one JSON object.
#pragma once

#include <cstdint>
#include <string>

#include "errors.hpp"
#include "file_load.hpp"
#include "file_pass.hpp"

namespace baton::tools {

struct FileReport {
  FilePassResult measured;
  double sync_s = 0;             // after writing
  std::uint64_t bytes_read = 0;  // and compared
  LoadErrors errors;

  bool passed() const { return errors.count() == 0 && measured.operations > 0; }

  std::string text(const FileLoadOptions& options) const;
  std::string json(const FileLoadOptions& options) const;
};

}  // namespace baton::tools
