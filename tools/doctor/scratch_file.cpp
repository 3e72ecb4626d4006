#include "scratch_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "../printable.hpp"

namespace baton::doctor {
namespace {

Failure failure(const char* what, const std::string& folder, int error) {
  const std::error_code code{error, std::system_category()};
  return {code, fmt::format("{} in {}: {}; name a folder that can be written by --directory", what,
                            tools::printable(folder), code.message())};
}

// 0, or an errno.
int fill(int fd, std::uint64_t size, const tools::Pattern& pattern) {
  for (std::uint64_t done = 0; done < size;) {
    const auto wanted = static_cast<std::size_t>(
        std::min<std::uint64_t>(size - done, tools::Pattern::piece_bytes_max));
    const auto piece = pattern.piece(0, done, wanted);
    const ssize_t count = ::pwrite(fd, piece.data(), piece.size(), static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += static_cast<std::uint64_t>(count);
  }
  return ::fsync(fd) != 0 ? errno : 0;
}

}  // namespace

Result<ScratchFile, Failure> ScratchFile::make(const std::string& folder, std::uint64_t size,
                                               const tools::Pattern& pattern) {
  ScratchFile file;
  std::string path = folder + "/baton-doctor-XXXXXX";
  file.cached_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (file.cached_ < 0) return unexpected{failure("cannot make a file", folder, errno)};
  file.direct_ = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (file.direct_ < 0) file.direct_error_ = errno;
  ::unlink(path.c_str());
  if (const int error = fill(file.cached_, size, pattern); error != 0) {
    return unexpected{failure("cannot write a file", folder, error)};
  }
  file.size_ = size;
  return file;
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : cached_(std::exchange(other.cached_, -1)),
      direct_(std::exchange(other.direct_, -1)),
      direct_error_(other.direct_error_),
      size_(other.size_) {}

ScratchFile::~ScratchFile() {
  if (cached_ >= 0) ::close(cached_);
  if (direct_ >= 0) ::close(direct_);
}

}  // namespace baton::doctor
