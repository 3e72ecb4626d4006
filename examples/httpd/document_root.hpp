// The folder that is served: the second of two walls against path traversal (see target.hpp). Every
// path is opened relative to the root's descriptor, and the kernel itself refuses what would leave
// it: "..", absolute links, links to the outside, and /proc's magic ones.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace httpd {

/// An open descriptor and what fstat said of it. Closes it, unless released.
class Opened {
 public:
  enum class Kind : std::uint8_t { file, folder, other };

  Opened() = default;
  Opened(Opened&& other) noexcept { *this = std::move(other); }
  Opened& operator=(Opened&& other) noexcept;
  ~Opened();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

  Kind kind = Kind::other;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;  ///< since 1970
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

 private:
  friend class DocumentRoot;
  int descriptor_ = -1;
};

class DocumentRoot {
 public:
  DocumentRoot() = default;
  DocumentRoot(const DocumentRoot&) = delete;
  DocumentRoot& operator=(const DocumentRoot&) = delete;
  ~DocumentRoot();

  /// Before anything else, once.
  std::error_code open(const std::string& folder);
  /// Does not follow links at all, as on kernels without openat2. For the tests.
  void refuse_links() { beneath_ = false; }

  /// Opens for reading, without waiting for the other end of a FIFO. `path` is relative; empty is
  /// the root. Only a file or a folder is of use to the caller; anything else is told by `kind`.
  /// Errors: the system's; EXDEV or ELOOP for what leads out of the root.
  std::error_code open_below(const std::string& path, Opened& opened) const;

 private:
  int open_beneath(const char* path) const;
  int open_by_steps(const std::string& path) const;

  int descriptor_ = -1;
  bool beneath_ = true;
};

}  // namespace httpd
