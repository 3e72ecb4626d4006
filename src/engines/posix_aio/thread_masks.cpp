// Reads /proc/self/task/*/status. Uses os::System and not the C library's directory functions, so
// that a test can substitute any process.
#include "engines/posix_aio/thread_masks.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::engines::posix_aio {
namespace {

constexpr const char* tasks = "/proc/self/task";

class File {
 public:
  File(const os::System& system, const std::string& path, int flags)
      : system_(system),
        fd_(system.open(path.c_str(), O_RDONLY | O_CLOEXEC | flags, 0)),
        error_(errno) {}
  ~File() {
    if (fd_ >= 0) system_.close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// -1 with errno also if the file could not be opened.
  [[nodiscard]] ssize_t read(std::span<char> room) const noexcept {
    if (fd_ < 0) return errno = error_, -1;
    for (;;) {
      const ssize_t size = system_.read(fd_, room.data(), room.size());
      if (size >= 0 || errno != EINTR) return size;
    }
  }

 private:
  const os::System& system_;
  const int fd_;
  const int error_;
};

template <class Number>
std::optional<Number> number(std::string_view text, int base) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<int> threads(const os::System& system) {
  std::vector<int> all;
  const File folder{system, tasks, O_DIRECTORY};
  alignas(dirent64) std::array<char, 4'096> room;
  for (;;) {
    const ssize_t size =
        folder.fd() < 0 ? -1 : system.getdents64(folder.fd(), room.data(), room.size());
    if (size <= 0) return all;
    for (ssize_t at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(room.data() + at);
      if (const auto tid = number<int>(entry->d_name, 10)) all.push_back(*tid);
      at += entry->d_reclen;
    }
  }
}

/// Finds a value in a text of "Name:\tvalue" lines.
std::string_view value_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return line;
  }
  return {};
}

}  // namespace

std::optional<OpenThread> thread_with_signal_open(const os::System& system, int signal_number) {
  const std::uint64_t bit = std::uint64_t{1} << (signal_number - 1);
  std::array<char, 4'096> room;
  for (const int tid : threads(system)) {
    const File status{system, std::string{tasks} + '/' + std::to_string(tid) + "/status", 0};
    const ssize_t size = status.read(room);
    if (size < 0 && errno != ENOENT && errno != ESRCH) {
      return OpenThread{tid, "whose mask cannot be read"};
    }
    if (size <= 0) continue;  // ended meanwhile
    const std::string_view text{room.data(), static_cast<std::size_t>(size)};
    const auto blocked = number<std::uint64_t>(value_of(text, "SigBlk:"), 16);
    if (!blocked || (*blocked & bit) != 0) continue;
    // A zombie, which has not been reaped yet, takes no signals any more.
    if (value_of(text, "State:").starts_with('Z')) continue;
    return OpenThread{tid, std::string{value_of(text, "Name:")}};
  }
  return std::nullopt;
}

}  // namespace baton::engines::posix_aio
