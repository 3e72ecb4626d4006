#include "replaced_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace baton::tools {
namespace {

Failure failure(const std::string& path, int error, const std::string& advice = {}) {
  const std::error_code code{error, std::system_category()};
  return {code, fmt::format("cannot write {}: {}{}", path, code.message(), advice)};
}

Failure exists_already(const std::string& path) {
  return {std::make_error_code(std::errc::file_exists),
          path + " exists already; replace it with --force, or name another file"};
}

// The mode of a new file, as open(2) would set it.
mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// The new file beside the old one. The destructor removes it unless it was renamed.
class Successor {
 public:
  explicit Successor(const std::string& path) : name_(path + ".XXXXXX") {
    descriptor_ = ::mkostemp(name_.data(), O_CLOEXEC);
  }
  ~Successor() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;

  [[nodiscard]] bool made() const { return descriptor_ >= 0; }

  // 0, or an errno.
  int write(const std::string& text) {
    ::fchmod(descriptor_, mode_of_new_files());
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno;
      done += static_cast<std::size_t>(count);
    }
    return ::fsync(descriptor_) != 0 ? errno : 0;
  }

  // 0, or an errno: EEXIST if an existing file is refused.
  int take_name(const std::string& path, Existing existing) {
    int error = 0;
    if (existing == Existing::replace) {
      error = ::rename(name_.c_str(), path.c_str()) == 0 ? 0 : errno;
    } else if (::link(name_.c_str(), path.c_str()) == 0) {
      // A second link, because unlike rename(2) it never replaces a file. The first name is
      // removed.
      return 0;
    } else {
      error = errno;
      // Some file systems have no links.
      if (error != EPERM && error != EOPNOTSUPP && error != EMLINK) return error;
      error = ::renameat2(AT_FDCWD, name_.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0
                  ? 0
                  : errno;
    }
    if (error == 0) name_.clear();
    return error;
  }

 private:
  std::string name_;  // empty: it was renamed
  int descriptor_ = -1;
};

class SignalsWait {
 public:
  SignalsWait() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, number);
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

Result<void, Failure> check_existing(const std::string& path, Existing existing) {
  struct stat present{};
  if (::lstat(path.c_str(), &present) != 0) return {};
  if (existing == Existing::refuse) return unexpected{exists_already(path)};
  if (S_ISREG(present.st_mode)) return {};
  return unexpected{Failure{std::make_error_code(std::errc::invalid_argument),
                            path + " is not a regular file; name one, or a new one"}};
}

}  // namespace

Result<void, Failure> check_one_step(const std::string& path, Existing existing) {
  const SignalsWait wait;
  if (auto fine = check_existing(path, existing); !fine) return fine;
  const Successor successor(path);
  if (successor.made()) return {};
  return unexpected{
      failure(path, errno, "; name a file in a folder that exists and can be written")};
}

Result<void, Failure> write_in_one_step(const std::string& path, Existing existing,
                                        const std::string& text) {
  const SignalsWait wait;
  if (auto fine = check_existing(path, existing); !fine) return fine;
  Successor successor(path);
  if (!successor.made()) return unexpected{failure(path, errno)};
  if (const int error = successor.write(text); error != 0) return unexpected{failure(path, error)};
  const int error = successor.take_name(path, existing);
  if (error == EEXIST) return unexpected{exists_already(path)};
  if (error != 0) return unexpected{failure(path, error)};
  return {};
}

}  // namespace baton::tools
