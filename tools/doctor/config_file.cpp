#include "config_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace baton::doctor {
namespace {

Failure failure(const std::string& what, int error, const std::string& advice = {}) {
  const std::error_code code{error, std::system_category()};
  return {code, fmt::format("{}: {}{}", what, code.message(), advice)};
}

Failure exists_already(const std::string& path) {
  return {std::make_error_code(std::errc::file_exists),
          path + " exists already; replace it with --force, or name another file"};
}

// Two hyphens would end an XML comment.
std::string comment_line(std::string text) {
  for (auto at = text.find("--"); at != std::string::npos; at = text.find("--", at)) {
    text.replace(at, 2, "- ");
  }
  return "  " + text + "\n";
}

mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

std::string config_text(const Recommendation& recommendation, const Facts& facts) {
  std::string text = "<!--\n";
  text += comment_line(fmt::format("Written by `baton doctor` on Linux {}, {} cores.",
                                   facts.text("kernel"), facts.text("machine.cores")));
  for (const std::string& sentence : recommendation.sentences) text += comment_line(sentence);
  return text + "-->\n" + recommendation.config.to_xml();
}

Result<ConfigFile, Failure> ConfigFile::open(const std::string& path, bool force) {
  ConfigFile file(path, force);
  struct stat present{};
  if (!force && ::lstat(path.c_str(), &present) == 0) return unexpected{exists_already(path)};
  std::string next = path + ".XXXXXX";
  file.descriptor_ = ::mkostemp(next.data(), O_CLOEXEC);
  if (file.descriptor_ < 0) {
    const int error = errno;
    return unexpected{failure("cannot write " + path, error,
                              "; name a file in a folder that exists and can be written")};
  }
  file.next_ = std::move(next);
  ::fchmod(file.descriptor_, usual_mode());
  return file;
}

ConfigFile::ConfigFile(ConfigFile&& other) noexcept
    : path_(std::move(other.path_)),
      force_(other.force_),
      next_(std::exchange(other.next_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

ConfigFile::~ConfigFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!next_.empty()) ::unlink(next_.c_str());
}

Result<void, Failure> ConfigFile::commit(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unexpected{failure("cannot write " + next_, errno)};
    done += static_cast<std::size_t>(count);
  }
  if (::fsync(descriptor_) != 0) return unexpected{failure("cannot write " + next_, errno)};
  int error = 0;
  if (force_) {
    if (::rename(next_.c_str(), path_.c_str()) != 0) error = errno;
  } else if (::link(next_.c_str(), path_.c_str()) == 0) {
    // A second name, which unlike a new one never takes the place of a file; then the first goes.
    ::unlink(next_.c_str());
  } else {
    error = errno;
    // Some file systems have no second names.
    if (error == EPERM || error == EOPNOTSUPP || error == EMLINK) {
      error = ::renameat2(AT_FDCWD, next_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0
                  ? 0
                  : errno;
    }
  }
  if (error == EEXIST) return unexpected{exists_already(path_)};
  if (error != 0) return unexpected{failure("cannot name " + path_, error)};
  next_.clear();
  return {};
}

}  // namespace baton::doctor
