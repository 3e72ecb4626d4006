// The folder that is served: the second of two walls against path traversal (see target.hpp). Every
// path is opened relative to the root's descriptor, and the kernel itself refuses what would leave
// it: "..", absolute links, links to the outside, and /proc's magic ones.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace httpd {

/// Since 1970. Nanoseconds alone would end in the year 2262, and files may be dated later.
struct Moment {
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  bool operator==(const Moment&) const = default;
};

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
  Moment modified;
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

  /// Opens for reading what is a file or a folder; a FIFO, a device or a socket is only looked at,
  /// which its other end does not notice. `path` is relative; empty is
  /// the root. Only a file or a folder is of use to the caller; anything else is told by `kind`.
  /// Errors: the system's; EXDEV or ELOOP for what leads out of the root.
  std::error_code open_below(const std::string& path, Opened& opened) const;

 private:
  std::error_code open_as(const std::string& path, int flags, Opened& opened) const;
  int open_beneath(const char* path, int flags) const;
  int open_by_steps(const std::string& path, int flags) const;

  int descriptor_ = -1;
  bool beneath_ = true;
};

}  // namespace httpd
